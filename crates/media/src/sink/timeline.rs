//! What is missing in a received stream, in ticks of its clock, for sinks that keep time by filling
//! it.

/// A longer hole is a jump of the sender's clock, not something to fill.
const GAP_SECONDS_MAX: u64 = 60;

/// Follows the times of units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeline {
    /// Ticks of the longest hole.
    longest: u64,
    /// Where the unit before ended.
    expected: Option<u64>,
    /// Missing, and not filled yet.
    owed: u64,
}

impl Timeline {
    pub(super) fn new(clock_hz: u32) -> Self {
        Self {
            longest: GAP_SECONDS_MAX * u64::from(clock_hz),
            expected: None,
            owed: 0,
        }
    }

    /// From 0 on, whatever is missing: the times are those of a movie, and do not jump.
    pub(super) fn with_start(self) -> Self {
        Self {
            longest: u64::MAX,
            expected: Some(0),
            owed: 0,
        }
    }

    /// Ticks to fill in front of a unit from `time` on that lasts `duration`.
    pub(super) fn missing(&mut self, time: u64, duration: u64) -> u64 {
        let gap = self
            .expected
            .map_or(0, |expected| time.saturating_sub(expected));
        if gap <= self.longest {
            self.owed = self.owed.saturating_add(gap).min(self.longest);
        }
        self.expected = Some(time.saturating_add(duration));
        self.owed
    }

    /// So much of it was filled.
    pub(super) fn filled(&mut self, ticks: u64) {
        self.owed = self.owed.saturating_sub(ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_owed_and_jumps_are_not() {
        let mut timeline = Timeline::new(8000);
        assert_eq!(timeline.missing(1000, 100), 0);
        assert_eq!(timeline.missing(1100, 100), 0);
        assert_eq!(timeline.missing(1250, 100), 50);
        timeline.filled(40);
        assert_eq!(timeline.missing(1350, 100), 10);
        timeline.filled(10);
        // Backwards, and by an hour: the sender began anew.
        assert_eq!(timeline.missing(0, 100), 0);
        assert_eq!(timeline.missing(1 << 40, 100), 0);
        assert_eq!(timeline.missing((1 << 40) + 200, 100), 100);
        assert_eq!(timeline.missing(u64::MAX, 100), 100);
    }
}
