//! `hythe hz`: the rates of a channel, from what its ports have counted.
//!
//! It only looks: it takes no place in the pool, delays nobody, and takes nothing away from a
//! core's endpoint. What only a subscriber can know, the times between messages, is in `gaps`.

mod gaps;

use std::time::Instant;

use hythe::Pool;
use hythe::inspect::{PortInfo, PortKind, Snapshot};
use hythe_terminal::escaped;
use serde::Serialize;

use crate::args::{Globals, HzArgs};
use crate::error::CliError;
use crate::output::{self, Growing};
use crate::rates::{Counts, Direction};
use crate::stop::Stop;
use crate::units;

#[derive(Serialize)]
struct Head<'a> {
    pool: &'a str,
    channel: &'a str,
}

/// The rates of one interval.
#[derive(Debug, Serialize)]
struct Rates {
    seconds: f64,
    published: Direction,
    taken: Direction,
}

#[derive(Serialize)]
struct Tail {
    intervals: u64,
}

pub(crate) fn run(args: &HzArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let pool = globals.open()?;
    let found = ports(&pool.snapshot(), args).ok_or_else(|| no_channel(args, &pool))?;
    if args.gaps {
        gaps::check(args, &pool)?;
    }
    let head = Head {
        pool: pool.options().name(),
        channel: &args.channel,
    };
    let mut lines = Lines::begin(globals, &head)?;
    let ended = if args.gaps {
        gaps::run(args, &pool, &stop, &mut lines)
    } else {
        look(args, &pool, found, &stop, &mut lines)
    };
    // One document, whatever ended it.
    lines.end()?;
    ended
}

fn look(
    args: &HzArgs,
    pool: &Pool,
    found: Vec<PortInfo>,
    stop: &Stop,
    lines: &mut Lines,
) -> Result<(), CliError> {
    let mut before = Counts::of(Instant::now(), &found);
    while lines.wants_more(args) {
        let due = before.at() + args.interval;
        while !stop.asked() && Instant::now() < due {
            stop.sleep_until(due);
        }
        if stop.asked() {
            break;
        }
        pool.check_found()?;
        // A channel goes with its last port, and may come back.
        let found = ports(&pool.snapshot(), args).unwrap_or_default();
        let now = Instant::now();
        lines.print(&rates(&before, now, &found), line)?;
        before = Counts::of(now, &found);
    }
    Ok(())
}

/// What is printed, line by line or as a growing document.
struct Lines {
    document: Option<Growing>,
    printed: u64,
}

impl Lines {
    fn begin(globals: &Globals, head: &Head<'_>) -> Result<Self, CliError> {
        let document = globals.json.then(|| Growing::begin(head, "rates"));
        Ok(Self {
            document: document.transpose()?,
            printed: 0,
        })
    }

    fn wants_more(&self, args: &HzArgs) -> bool {
        args.count.is_none_or(|count| self.printed < count)
    }

    fn print<T: Serialize>(
        &mut self,
        what: &T,
        line: impl FnOnce(&T) -> String,
    ) -> Result<(), CliError> {
        self.printed += 1;
        match &mut self.document {
            Some(document) => document.push(what),
            None => output::say(&line(what)),
        }
    }

    fn end(self) -> Result<(), CliError> {
        let tail = Tail {
            intervals: self.printed,
        };
        self.document.map_or(Ok(()), |document| document.end(&tail))
    }
}

fn ports(snapshot: &Snapshot, args: &HzArgs) -> Option<Vec<PortInfo>> {
    let channel = snapshot
        .channels
        .iter()
        .find(|channel| channel.name == args.channel)?;
    Some(
        snapshot
            .ports
            .iter()
            .filter(|port| port.channel == channel.index)
            .copied()
            .collect(),
    )
}

fn no_channel(args: &HzArgs, pool: &Pool) -> CliError {
    CliError::Failed(format!(
        "there is no channel `{}` in pool `{}`: `hythe list` shows those there are",
        escaped(&args.channel),
        escaped(pool.options().name())
    ))
}

fn rates(before: &Counts, now: Instant, ports: &[PortInfo]) -> Rates {
    let of = |kind| before.until(now, ports.iter().filter(|port| port.kind == kind));
    Rates {
        seconds: before.seconds_until(now),
        published: of(PortKind::Publisher),
        taken: of(PortKind::Subscriber),
    }
}

fn line(rates: &Rates) -> String {
    let text = |sum: &Direction, thing: &str| {
        format!(
            "{:.1}/s {}/s by {}",
            sum.messages_per_second,
            units::bytes(sum.payload_bytes_per_second as u64),
            units::counted(sum.ports as u64, thing)
        )
    };
    format!(
        "published {}, {} dropped; taken {}\n",
        text(&rates.published, "publisher"),
        rates.published.dropped,
        text(&rates.taken, "subscriber")
    )
}
