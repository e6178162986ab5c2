//! The numbers of packets that came, as ranges: what is a duplicate, and what is acknowledged.

/// Ranges that are remembered and acknowledged: at 10 % loss, the gaps of some 300 packets.
pub(crate) const RANGES_MAX: usize = 32;

/// Numbers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Ranges in rising order. Below `floor` nothing is known and nothing is taken.
#[derive(Debug)]
pub(crate) struct Numbers {
    ranges: [Range; RANGES_MAX],
    used: usize,
    floor: u64,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self {
            ranges: [Range::default(); RANGES_MAX],
            used: 0,
            floor: 0,
        }
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges[..self.used]
    }

    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges().last().map(|range| range.last)
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let found = self
            .ranges()
            .iter()
            .rev()
            .find(|range| range.first <= number);
        found.is_some_and(|range| number <= range.last)
    }

    /// Adds a number that is not contained and not below the floor. Where there is no place for
    /// one more range the oldest is forgotten, and the floor rises above it.
    pub(crate) fn insert(&mut self, number: u64) {
        let mut at = self.used;
        while at > 0 && self.ranges[at - 1].first > number {
            at -= 1;
        }
        let joins_before = at > 0 && self.ranges[at - 1].last + 1 == number;
        let joins_behind = at < self.used && self.ranges[at].first == number + 1;
        match (joins_before, joins_behind) {
            (true, true) => {
                self.ranges[at - 1].last = self.ranges[at].last;
                self.ranges.copy_within(at + 1..self.used, at);
                self.used -= 1;
            }
            (true, false) => self.ranges[at - 1].last = number,
            (false, true) => self.ranges[at].first = number,
            (false, false) => self.insert_range(at, number),
        }
    }

    fn insert_range(&mut self, mut at: usize, number: u64) {
        if self.used == RANGES_MAX {
            if at == 0 {
                // Older than all that is remembered: forgotten at once.
                self.floor = number + 1;
                return;
            }
            self.floor = self.ranges[0].last + 1;
            self.ranges.copy_within(1.., 0);
            self.used -= 1;
            at -= 1;
        }
        self.ranges.copy_within(at..self.used, at + 1);
        self.ranges[at] = Range {
            first: number,
            last: number,
        };
        self.used += 1;
    }

    /// Forgets what is below `floor`, which the sender waits for no more. The newest range stays:
    /// an acknowledgement names the largest number.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        let kept = self.ranges().iter().position(|range| range.last >= floor);
        let kept = kept.unwrap_or(self.used.saturating_sub(1));
        self.ranges.copy_within(kept..self.used, 0);
        self.used -= kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(numbers: &Numbers) -> Vec<(u64, u64)> {
        numbers
            .ranges()
            .iter()
            .map(|range| (range.first, range.last))
            .collect()
    }

    #[test]
    fn ranges_join_in_any_order() {
        let mut numbers = Numbers::new();
        for number in [5, 3, 9, 4, 0, 8, 1, 2] {
            assert!(!numbers.contains(number));
            numbers.insert(number);
            assert!(numbers.contains(number));
        }
        assert_eq!(ranges(&numbers), [(0, 5), (8, 9)]);
        assert_eq!(numbers.largest(), Some(9));
        numbers.raise_floor(7);
        assert_eq!(ranges(&numbers), [(8, 9)]);
        numbers.raise_floor(30);
        assert_eq!((ranges(&numbers), numbers.floor()), (vec![(8, 9)], 30));
    }

    #[test]
    fn what_is_forgotten_is_below_the_floor() {
        let mut numbers = Numbers::new();
        for number in 1..=RANGES_MAX as u64 + 5 {
            numbers.insert(number * 2);
        }
        assert_eq!(numbers.ranges().len(), RANGES_MAX);
        assert_eq!(numbers.floor(), 11);
        assert_eq!(numbers.ranges()[0].first, 12);
        // No range is free, and it joins none.
        let first = numbers.ranges()[0];
        numbers.ranges[0] = Range {
            first: first.first + 1,
            last: first.last + 1,
        };
        numbers.insert(11);
        assert_eq!(numbers.floor(), 12);
    }
}
