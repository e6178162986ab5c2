//! Timestamps of 32 bits as one line of time that never wraps.
//!
//! A receiver asks it for each packet that comes out in order. Pure.

/// Where a stream is in its time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeline {
    /// The timestamp that [`Self::origin`] stands for, once there was one.
    first: Option<u32>,
    /// Where the stream began (anew), in ticks since its first packet.
    origin: i64,
    /// The last one, in ticks since `origin`.
    last: i64,
}

impl Timeline {
    /// Ticks from the stream's first packet to this one; 0 for what is earlier. It is read the
    /// shorter way round from the one before, so a step is at most 2^31 ticks either way.
    pub fn at(&mut self, timestamp: u32) -> u64 {
        let first = *self.first.get_or_insert(timestamp);
        let ahead = timestamp.wrapping_sub(first.wrapping_add(self.last as u32)) as i32;
        self.last = self.last.saturating_add(i64::from(ahead));
        u64::try_from(self.origin.saturating_add(self.last)).unwrap_or(0)
    }

    /// The next timestamp has nothing to do with those before: it lies `ticks` behind the last one.
    pub fn restart(&mut self, ticks: u32) {
        if self.first.take().is_some() {
            let last = self.origin.saturating_add(self.last);
            self.origin = last.saturating_add(i64::from(ticks));
            self.last = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_unwrap_both_ways() {
        let mut timeline = Timeline::default();
        let first = u32::MAX - 10;
        assert_eq!(timeline.at(first), 0);
        assert_eq!(timeline.at(9), 20);
        assert_eq!(timeline.at(first.wrapping_sub(5)), 0, "before the first");
        let mut expected = 0_u64;
        for _ in 0..12 {
            expected += 1 << 30;
            assert_eq!(timeline.at(first.wrapping_add(expected as u32)), expected);
        }
    }

    #[test]
    fn restart_goes_on_where_the_time_is() {
        let mut timeline = Timeline::default();
        timeline.restart(99);
        assert_eq!(timeline.at(1000), 0);
        assert_eq!(timeline.at(1160), 160);
        timeline.restart(500);
        assert_eq!(timeline.at(7), 660);
        assert_eq!(timeline.at(17), 670);
    }

    #[test]
    fn lies_overflow_nothing() {
        let mut timeline = Timeline::default();
        for step in 0..1_000_000_u32 {
            timeline.at(step.wrapping_mul(0x7fff_ffff));
            timeline.restart(u32::MAX);
        }
    }
}
