//! The clock of a replay: each message at its instant, and how late they were.
//!
//! The last stretch of each wait is an absolute sleep on the monotonic clock with the least timer
//! slack; what is before it can be interrupted. Errors do not add up: each instant counts from the
//! beginning of the round. Where the replay stood still for longer than [`CATCH_UP`], all that is
//! to come moves, so that it is not sent in one burst.

use std::fmt;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hythe::monotonic_ns;
use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::Timespec;
use serde::Serialize;

use crate::error::CliError;
use crate::publish::CATCH_UP;
use crate::stop::Stop;

/// How much of a wait cannot be interrupted.
const LAST_STRETCH: Duration = Duration::from_millis(2);
/// Messages are not counted as later than this.
const LATEST_NS: u64 = 3_600_000_000_000;

/// When messages are due.
pub(super) struct Timing {
    speed: f64,
    begun_ns: u64,
    from_ns: u64,
    late: Histogram<u64>,
    /// By so much later messages were moved.
    moved_ns: u64,
}

/// How late messages were published, in nanoseconds.
#[derive(Debug, Serialize)]
pub(super) struct TimingDocument {
    count: u64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    /// By so much messages were moved in all, each with all that followed, because the replay
    /// stood still.
    moved_ns: u64,
}

impl Timing {
    pub(super) fn new(speed: f64) -> Result<Self, CliError> {
        // Not granted, the sleeps end up to 50 microseconds later.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let late = Histogram::new_with_max(LATEST_NS, 3);
        Ok(Self {
            speed,
            begun_ns: monotonic_ns(),
            from_ns: 0,
            moved_ns: 0,
            late: late.map_err(|error| CliError::Failed(format!("cannot count times: {error}")))?,
        })
    }

    /// A round begins: now it is `from_ns` of the recording.
    pub(super) fn begin(&mut self, from_ns: u64) {
        self.begun_ns = monotonic_ns();
        self.from_ns = from_ns;
    }

    /// Waits for a moment of the recording, and notes how late it became. False: somebody asked to
    /// stop.
    pub(super) fn wait_for(&mut self, time_ns: u64, stop: &Stop) -> bool {
        let due_ns = self.due_ns(time_ns);
        let last_stretch = u64::try_from(LAST_STRETCH.as_nanos()).unwrap_or(0);
        loop {
            if stop.asked() {
                return false;
            }
            let left_ns = due_ns.saturating_sub(monotonic_ns());
            if left_ns <= last_stretch {
                break;
            }
            let nap = Duration::from_nanos(left_ns - last_stretch);
            // A damaged file may ask for centuries.
            stop.sleep_until(Instant::now() + nap.min(Duration::from_secs(3600)));
        }
        sleep_until(due_ns);
        self.note(due_ns, monotonic_ns());
        true
    }

    /// What was due then is published now.
    fn note(&mut self, due_ns: u64, now_ns: u64) {
        let late_ns = now_ns.saturating_sub(due_ns);
        self.late.saturating_record(late_ns);
        let bound_ns = u64::try_from(CATCH_UP.as_nanos()).unwrap_or(u64::MAX);
        let moved_ns = late_ns.saturating_sub(bound_ns);
        self.begun_ns = self.begun_ns.saturating_add(moved_ns);
        self.moved_ns = self.moved_ns.saturating_add(moved_ns);
    }

    pub(super) fn document(&self) -> TimingDocument {
        TimingDocument {
            count: self.late.len(),
            p50_ns: self.late.value_at_quantile(0.5),
            p99_ns: self.late.value_at_quantile(0.99),
            p999_ns: self.late.value_at_quantile(0.999),
            max_ns: self.late.max(),
            moved_ns: self.moved_ns,
        }
    }

    fn due_ns(&self, time_ns: u64) -> u64 {
        let since_ns = time_ns.saturating_sub(self.from_ns) as f64 / self.speed;
        // Saturates.
        self.begun_ns.saturating_add(since_ns as u64)
    }
}

fn sleep_until(due_ns: u64) {
    let due = Timespec {
        tv_sec: (due_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (due_ns % 1_000_000_000).cast_signed(),
    };
    // A signal does not make the message early; a clock that refuses to sleep may, by the last
    // stretch at most.
    while monotonic_ns() < due_ns
        && clock_nanosleep_absolute(ClockId::Monotonic, &due) == Err(rustix::io::Errno::INTR)
    {}
}

impl fmt::Display for TimingDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1e3;
        write!(
            f,
            "late by {:.1} us in the middle, {:.1} us at p99, {:.1} us at most",
            us(self.p50_ns),
            us(self.p99_ns),
            us(self.max_ns)
        )?;
        if self.moved_ns > 0 {
            write!(f, "; stood still for {:.3} s", self.moved_ns as f64 / 1e9)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_count_from_the_round_and_scale_with_the_speed() {
        let mut timing = Timing::new(2.0).expect("a histogram");
        timing.begin(1_000);
        assert_eq!(timing.due_ns(1_000), timing.begun_ns);
        assert_eq!(timing.due_ns(9_000), timing.begun_ns + 4_000);
        // What is before the beginning is due at once; what a damaged file says does not overflow.
        assert_eq!(timing.due_ns(0), timing.begun_ns);
        assert!(timing.due_ns(u64::MAX) > timing.begun_ns);
    }

    #[test]
    fn what_was_missed_is_not_sent_in_one_burst() {
        let mut timing = Timing::new(1.0).expect("a histogram");
        timing.begin(0);
        let begun_ns = timing.begun_ns;
        timing.note(begun_ns, begun_ns + 19_000_000);
        assert_eq!(timing.due_ns(5), begun_ns + 5, "a little late");
        timing.note(begun_ns, begun_ns + 2_000_000_000);
        assert_eq!(timing.due_ns(5), begun_ns + 1_980_000_005);
        let said = timing.document().to_string();
        assert!(said.ends_with("; stood still for 1.980 s"), "{said}");
    }
}
