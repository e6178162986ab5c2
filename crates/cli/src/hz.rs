//! `hythe hz`: the rates of a channel, from what its ports have counted.
//!
//! It only looks: it takes no place in the pool, delays nobody, and takes nothing away from a core's endpoint.

use std::collections::HashMap;
use std::time::Instant;

use hythe::{Pool, PortIndex, PortInfo, PortKind, PortStatistics, Snapshot};
use serde::Serialize;

use crate::args::{Globals, HzArgs};
use crate::error::CliError;
use crate::output::{self, Growing};
use crate::stop::Stop;
use crate::units;

#[derive(Serialize)]
struct Head<'a> {
    pool: &'a str,
    channel: &'a str,
}

/// The rates of one interval.
#[derive(Debug, Default, Serialize)]
struct Rates {
    seconds: f64,
    published: Direction,
    taken: Direction,
}

/// The rates of all publishers, or of all subscribers.
#[derive(Debug, Default, Serialize)]
struct Direction {
    ports: usize,
    messages: u64,
    messages_per_second: f64,
    payload_bytes_per_second: f64,
    dropped: u64,
}

#[derive(Serialize)]
struct Tail {
    intervals: u64,
}

/// What the ports had counted at some moment. A port number is used again: the session tells its owners apart.
struct Counts {
    at: Instant,
    ports: HashMap<(PortIndex, u32), PortStatistics>,
}

pub(crate) fn run(args: &HzArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let pool = globals.open()?;
    let mut before =
        Counts::of(&ports(&pool.snapshot(), args).ok_or_else(|| no_channel(args, &pool))?);
    let head = Head {
        pool: pool.options().name(),
        channel: &args.channel,
    };
    let mut document = globals
        .json
        .then(|| Growing::begin(&head, "rates"))
        .transpose()?;
    let mut intervals = 0;
    while args.count.is_none_or(|count| intervals < count) {
        let due = before.at + args.interval;
        while !stop.asked() && Instant::now() < due {
            stop.sleep_until(due);
        }
        if stop.asked() {
            break;
        }
        // A channel goes with its last port, and may come back.
        let now = ports(&pool.snapshot(), args).unwrap_or_default();
        let counts = Counts::of(&now);
        let rates = rates(&before, &counts, &now);
        before = counts;
        intervals += 1;
        match &mut document {
            Some(document) => document.push(&rates)?,
            None => output::write(line(&rates).as_bytes())?,
        }
    }
    document.map_or(Ok(()), |document| document.end(&Tail { intervals }))
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
        args.channel,
        pool.options().name()
    ))
}

impl Counts {
    fn of(ports: &[PortInfo]) -> Self {
        let counted = ports
            .iter()
            .map(|port| ((port.index, port.session), port.statistics));
        Self {
            at: Instant::now(),
            ports: counted.collect(),
        }
    }
}

fn rates(before: &Counts, after: &Counts, ports: &[PortInfo]) -> Rates {
    let seconds = (after.at - before.at).as_secs_f64();
    let of = |kind: PortKind| {
        let mut sum = Direction::default();
        let mut bytes = 0;
        for port in ports.iter().filter(|port| port.kind == kind) {
            // A port that has come since has counted from zero.
            let old = before
                .ports
                .get(&(port.index, port.session))
                .copied()
                .unwrap_or_default();
            sum.ports += 1;
            sum.messages += port.statistics.messages.saturating_sub(old.messages);
            sum.dropped += port.statistics.dropped.saturating_sub(old.dropped);
            bytes += port
                .statistics
                .payload_bytes
                .saturating_sub(old.payload_bytes);
        }
        sum.messages_per_second = sum.messages as f64 / seconds;
        sum.payload_bytes_per_second = bytes as f64 / seconds;
        sum
    };
    Rates {
        seconds,
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
