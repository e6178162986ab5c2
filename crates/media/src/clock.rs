//! The media clock: when a sample is due.
//!
//! [`RtpSender`](crate::send::RtpSender) asks it for the instant of the next packet and tells it how
//! many samples went. Instants come from the number of samples since the start, never from the
//! instant before, so that rounding does not add up. The clock reads no clock: the time is handed
//! to it, in nanoseconds since any fixed point.

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// When each sample of a stream is due.
#[derive(Clone, Debug)]
pub struct MediaClock {
    samples_per_second: u32,
    start_ns: u64,
    samples: u64,
}

impl MediaClock {
    /// A clock whose first sample is due at `start_ns`. `samples_per_second` is at least 1.
    #[must_use]
    pub fn new(samples_per_second: u32, start_ns: u64) -> Self {
        Self {
            samples_per_second: samples_per_second.max(1),
            start_ns,
            samples: 0,
        }
    }

    /// When the next sample is due.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        let since_start = u128::from(self.samples) * NANOS_PER_SECOND;
        self.start_ns + (since_start / u128::from(self.samples_per_second)) as u64
    }

    /// `samples` were sent (or passed over).
    pub fn advance(&mut self, samples: u32) {
        self.samples += u64::from(samples);
    }

    /// How many samples went by so far.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The position of the media clock at `now_ns`, in samples since the start.
    #[must_use]
    pub fn samples_at(&self, now_ns: u64) -> u64 {
        let elapsed = u128::from(now_ns.saturating_sub(self.start_ns));
        (elapsed * u128::from(self.samples_per_second) / NANOS_PER_SECOND) as u64
    }

    /// Moves all instants to come so that the next sample is due at `now_ns`, after the source of
    /// the samples stalled: what was missed is not sent in one burst.
    pub fn restart_at(&mut self, now_ns: u64) {
        self.start_ns += now_ns.saturating_sub(self.due_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_does_not_add_up() {
        let mut clock = MediaClock::new(44_100, 5);
        for _ in 0..44_100 * 3 {
            clock.advance(1);
        }
        assert_eq!(clock.due_ns(), 5 + 3_000_000_000);
        assert_eq!(clock.samples_at(clock.due_ns()), 3 * 44_100);
    }

    #[test]
    fn a_year_does_not_overflow() {
        let mut clock = MediaClock::new(192_000, 0);
        for _ in 0..365 * 24 * 60 {
            clock.advance(192_000 * 60);
        }
        assert_eq!(clock.due_ns(), 365 * 24 * 3600 * 1_000_000_000);
    }

    #[test]
    fn a_stall_moves_the_future_and_is_never_negative() {
        let mut clock = MediaClock::new(1_000, 0);
        clock.advance(10);
        clock.restart_at(60_000_000);
        assert_eq!(clock.due_ns(), 60_000_000);
        clock.restart_at(1);
        assert_eq!(clock.due_ns(), 60_000_000);
        clock.advance(1);
        assert_eq!(clock.due_ns(), 61_000_000);
    }
}
