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

    /// Waits until the next message is due, or somebody asks to stop.
    pub(super) fn wait(&mut self, stop: &Stop) {
        let Some(gap) = self.gap else { return };
        while !stop.asked() && Instant::now() < self.due {
            stop.sleep_until(self.due);
        }
        self.due += gap;
    }
}
