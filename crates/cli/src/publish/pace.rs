//! A rate, kept against the clock: a late message does not make all later ones late.

use std::time::{Duration, Instant};

use crate::stop::Stop;

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
        self.due += gap;
        true
    }
}
