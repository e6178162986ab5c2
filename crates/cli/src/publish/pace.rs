//! A rate, kept against the clock: a late message does not make all later ones late. What is later
//! than [`CATCH_UP`], because the program stood still say, is not caught up with: everything to
//! come moves.

use std::time::{Duration, Instant};

use crate::stop::Stop;

/// Messages are sent sooner than their distance to make up for so much time at most.
pub(crate) const CATCH_UP: Duration = Duration::from_millis(20);

/// When the next message is due.
#[derive(Debug)]
pub(super) struct Pace {
    gap: Option<Duration>,
    due: Instant,
}

impl Pace {
    /// `rate` in messages per second; none: as fast as it goes.
    pub(super) fn new(rate: Option<f64>) -> Self {
        Self {
            gap: rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            due: Instant::now(),
        }
    }

    /// Waits until the next message is due. False: somebody asked to stop before that.
    ///
    /// Call it once for each message, and for nothing else: each call takes one place in the
    /// schedule.
    pub(super) fn wait(&mut self, stop: &Stop) -> bool {
        let Some(gap) = self.gap else { return true };
        while Instant::now() < self.due {
            if stop.asked() {
                return false;
            }
            stop.sleep_until(self.due);
        }
        self.advance(gap, Instant::now());
        true
    }

    fn advance(&mut self, gap: Duration, now: Instant) {
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        self.due = self.due.max(earliest) + gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_not_sent_in_one_burst() {
        let mut pace = Pace::new(Some(200.0));
        let gap = Duration::from_millis(5);
        let due = pace.due;
        // A little late: the schedule stays.
        pace.advance(gap, due + Duration::from_millis(19));
        assert_eq!(pace.due, due + gap);
        // As after a stop of two seconds.
        let now = due + Duration::from_secs(2);
        let mut at_once = 0;
        while pace.due <= now {
            pace.advance(gap, now);
            at_once += 1;
        }
        assert_eq!(at_once, 5, "20 ms of 5 ms each, and the one that was due");
    }
}
