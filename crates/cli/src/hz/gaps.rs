//! The times between messages, as a subscriber meets them: `hythe hz --gaps`.
//!
//! It takes part: its queue drops the newest, so that it delays nobody. `Gaps` only counts, and is
//! handed the time.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hythe::inspect::{ChannelInfo, Direction};
use hythe::{Node, Pool, Subscriber, SubscriberOptions, monotonic_ns};
use serde::Serialize;

use super::Lines;
use crate::args::HzArgs;
use crate::error::CliError;
use crate::stop::{LOOK, Stop};
use crate::units;

/// Messages that may wait while a line is printed.
const DEPTH: u32 = 1024;
/// Longer gaps are counted as this long.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// What arrived in one interval.
#[derive(Debug, PartialEq, Serialize)]
struct Arrivals {
    seconds: f64,
    messages: u64,
    messages_per_second: f64,
    payload_bytes_per_second: f64,
    min_bytes: Option<usize>,
    max_bytes: Option<usize>,
    /// None where fewer than two messages came.
    gaps: Option<GapsDocument>,
}

/// Times between a message and the one before, in nanoseconds.
#[derive(Debug, PartialEq, Serialize)]
struct GapsDocument {
    count: u64,
    min_ns: u64,
    mean_ns: f64,
    max_ns: u64,
    deviation_ns: f64,
    p50_ns: u64,
    p99_ns: u64,
}

/// What arrived since the last line.
#[derive(Debug)]
struct Gaps {
    last_ns: Option<u64>,
    gaps: Histogram<u64>,
    messages: u64,
    payload_bytes: u64,
    sizes: Option<(usize, usize)>,
}

/// Refuses a channel of which a subscriber would take something away.
pub(super) fn check(args: &HzArgs, pool: &Pool) -> Result<(), CliError> {
    let found = pool.channel(&args.channel);
    if found.is_some_and(|found| takes_away(&found)) {
        return Err(CliError::WrongUse(format!(
            "channel `{}` comes from a core, which has one peer: whoever listens takes messages away. `hythe hz` without --gaps only looks",
            args.channel
        )));
    }
    Ok(())
}

/// Does a core send to the channel? It has one peer.
fn takes_away(channel: &ChannelInfo) -> bool {
    let core = channel.core;
    core.is_some_and(|core| core.direction == Direction::FromCore)
}

pub(super) fn run(
    args: &HzArgs,
    pool: &Pool,
    stop: &Stop,
    lines: &mut Lines,
) -> Result<(), CliError> {
    let node = Node::join(pool, "hythe hz")?;
    let options = SubscriberOptions::default().depth(DEPTH);
    let mut subscriber = node.subscriber(&args.channel, &options)?;
    let mut gaps = Gaps::new()?;
    let mut begun = Instant::now();
    while !stop.asked() && lines.wants_more(args) {
        let due = begun + args.interval;
        gaps.listen(&mut subscriber, due, stop)?;
        if stop.asked() {
            break;
        }
        let now = Instant::now();
        let arrivals = gaps.since((now - begun).as_secs_f64());
        begun = now;
        lines.print(&arrivals, line)?;
    }
    Ok(())
}

impl Gaps {
    fn new() -> Result<Self, CliError> {
        let gaps = Histogram::new_with_max(LONGEST_NS, 3);
        Ok(Self {
            last_ns: None,
            gaps: gaps.map_err(|error| CliError::Failed(format!("cannot count times: {error}")))?,
            messages: 0,
            payload_bytes: 0,
            sizes: None,
        })
    }

    /// Takes what comes until `due`, or somebody asks to stop.
    fn listen(
        &mut self,
        subscriber: &mut Subscriber,
        due: Instant,
        stop: &Stop,
    ) -> Result<(), CliError> {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left == Duration::ZERO || stop.asked() {
                return Ok(());
            }
            if let Some(sample) = subscriber.take(left.min(LOOK))? {
                self.note(monotonic_ns(), sample.len());
            }
        }
    }

    fn note(&mut self, time_ns: u64, bytes: usize) {
        if let Some(last_ns) = self.last_ns.replace(time_ns) {
            self.gaps.saturating_record(time_ns.saturating_sub(last_ns));
        }
        self.messages += 1;
        self.payload_bytes += bytes as u64;
        let (least, most) = self.sizes.unwrap_or((bytes, bytes));
        self.sizes = Some((least.min(bytes), most.max(bytes)));
    }

    /// What came in the last `seconds`; counting begins anew, with the gap that is open.
    fn since(&mut self, seconds: f64) -> Arrivals {
        let gaps = (!self.gaps.is_empty()).then(|| GapsDocument {
            count: self.gaps.len(),
            min_ns: self.gaps.min(),
            mean_ns: self.gaps.mean(),
            max_ns: self.gaps.max(),
            deviation_ns: self.gaps.stdev(),
            p50_ns: self.gaps.value_at_quantile(0.5),
            p99_ns: self.gaps.value_at_quantile(0.99),
        });
        let arrivals = Arrivals {
            seconds,
            messages: self.messages,
            messages_per_second: self.messages as f64 / seconds,
            payload_bytes_per_second: self.payload_bytes as f64 / seconds,
            min_bytes: self.sizes.map(|sizes| sizes.0),
            max_bytes: self.sizes.map(|sizes| sizes.1),
            gaps,
        };
        self.gaps.reset();
        (self.messages, self.payload_bytes, self.sizes) = (0, 0, None);
        arrivals
    }
}

fn line(arrivals: &Arrivals) -> String {
    let mut line = format!(
        "{:.1}/s {}/s",
        arrivals.messages_per_second,
        units::bytes(arrivals.payload_bytes_per_second as u64)
    );
    if let (Some(least), Some(most)) = (arrivals.min_bytes, arrivals.max_bytes) {
        line += &format!(
            " of {} to {}",
            units::bytes(least as u64),
            units::bytes(most as u64)
        );
    }
    if let Some(gaps) = &arrivals.gaps {
        let ms = |ns: f64| ns / 1e6;
        line += &format!(
            "; gaps {:.3} ms at least, {:.3} mean, {:.3} p99, {:.3} at most, deviation {:.3}",
            ms(gaps.min_ns as f64),
            ms(gaps.mean_ns),
            ms(gaps.p99_ns as f64),
            ms(gaps.max_ns as f64),
            ms(gaps.deviation_ns)
        );
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_across_lines() {
        let mut gaps = Gaps::new().expect("a histogram");
        for (time_ns, bytes) in [(1_000, 10), (2_000, 30), (4_000, 20)] {
            gaps.note(time_ns, bytes);
        }
        let arrivals = gaps.since(0.5);
        assert_eq!((arrivals.messages, arrivals.messages_per_second), (3, 6.0));
        assert_eq!(arrivals.payload_bytes_per_second, 120.0);
        assert_eq!(
            (arrivals.min_bytes, arrivals.max_bytes),
            (Some(10), Some(30))
        );
        let found = arrivals.gaps.expect("two gaps");
        assert_eq!((found.count, found.min_ns), (2, 1_000));
        assert!((1_999..=2_001).contains(&found.max_ns), "{found:?}");
        assert!((found.mean_ns - 1_500.0).abs() < 2.0 && (found.deviation_ns - 500.0).abs() < 2.0);
        // The gap from the last message of one line to the first of the next belongs to the next.
        gaps.note(9_000, 1);
        let next = gaps.since(1.0);
        let found = next.gaps.as_ref().expect("one gap");
        assert_eq!((next.messages, found.count), (1, 1));
        assert!((4_990..=5_010).contains(&found.p50_ns), "{found:?}");
        let none = gaps.since(1.0);
        assert_eq!(
            (none.messages, &none.gaps, none.min_bytes),
            (0, &None, None)
        );
        assert_eq!(line(&none), "0.0/s 0 B/s\n");
    }
}
