//! What stands in a counted cell: a count, who changed it last and by which step, and 24 bits
//! of the user.
//!
//! Slots' cells, hold records, and heads of queues that evict the oldest have this form. The module
//! `cell` says what the mark of the last change is for. Never touches memory.

use hythe_abi::pool::REFERENCES_MAX;

const SEQUENCE_MASK: u32 = (1 << 20) - 1;
/// In a sequence: the change was a lease. The bits below are those of the step's number.
pub(crate) const LEASE: u32 = 1 << 19;
const NUMBER_MASK: u32 = LEASE - 1;
/// Bits of a head in the upper part of its cell; the others are in the count.
const UPPER_BITS: u32 = 24;

/// What stands in a cell: count 12 bits, last changer 8, its sequence 20, and 24 bits of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) count: u32,
    pub(crate) by: u8,
    pub(crate) sequence: u32,
    pub(crate) upper: u32,
}

impl Counted {
    #[inline(always)]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self {
            count: bits as u32 & REFERENCES_MAX,
            by: (bits >> 12) as u8,
            sequence: (bits >> 20) as u32 & SEQUENCE_MASK,
            upper: (bits >> 40) as u32,
        }
    }

    #[inline(always)]
    pub(crate) const fn to_bits(self) -> u64 {
        (self.count & REFERENCES_MAX) as u64
            | (self.by as u64) << 12
            | ((self.sequence & SEQUENCE_MASK) as u64) << 20
            | (self.upper as u64) << 40
    }

    /// With `more` references; dated `now` if there were none.
    #[inline(always)]
    pub(crate) const fn gained(self, more: u32, now: u32) -> Option<Self> {
        // In a dead member's journal anything may stand.
        let count = self.count.saturating_add(more);
        if count > REFERENCES_MAX {
            return None;
        }
        let upper = if self.count == 0 { now } else { self.upper };
        Some(Self {
            count,
            upper,
            ..self
        })
    }

    /// With `fewer` references.
    #[inline(always)]
    pub(crate) const fn lost(self, fewer: u32) -> Option<Self> {
        if self.count < fewer {
            return None;
        }
        Some(Self {
            count: self.count - fewer,
            ..self
        })
    }

    /// The head of a queue: its upper bits are the count.
    pub(crate) const fn head(self) -> u32 {
        self.upper | self.count << UPPER_BITS
    }
}

/// Who changes, the number of its step, all 32 bits of it, and whether that is a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) by: u8,
    pub(crate) number: u32,
    pub(crate) lease: bool,
}

impl Mark {
    #[inline(always)]
    pub(crate) const fn sequence(self) -> u32 {
        (self.number & NUMBER_MASK) | if self.lease { LEASE } else { 0 }
    }

    /// The mark of the next step. The low bits are never 0: a sequence of 0 marks a cell that
    /// nobody changed yet.
    #[inline(always)]
    pub(crate) const fn next(self) -> Self {
        let number = self.number.wrapping_add(1);
        let skip = (number & NUMBER_MASK == 0) as u32;
        Self {
            number: number + skip,
            ..self
        }
    }

    /// Does a cell carry this mark?
    #[inline(always)]
    pub(crate) const fn stands_in(self, cell: Counted) -> bool {
        cell.by == self.by && cell.sequence == self.sequence()
    }
}

/// Count and upper bits of a cell for this head of a queue.
pub(crate) const fn parts_of_head(head: u32) -> (u32, u32) {
    (head >> UPPER_BITS, head & ((1 << UPPER_BITS) - 1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_round_trip() {
        let cell = Counted {
            count: 4095,
            by: 254,
            sequence: SEQUENCE_MASK,
            upper: 0x00AB_CDEF,
        };
        assert_eq!(Counted::from_bits(cell.to_bits()), cell);
    }

    #[test]
    fn bits_are_those_of_the_golden_vectors() {
        let text = include_str!("../../../spec/vectors/pool.txt");
        let groups: Vec<&str> = text.split("[cell.").skip(1).collect();
        assert_eq!(groups.len(), 4);
        for group in groups {
            let value = |key: &str| {
                let line = group
                    .lines()
                    .find_map(|line| line.strip_prefix(&format!("{key} = ")));
                line.expect("the key")
            };
            let number = |key: &str| value(key).parse::<u32>().expect("a number");
            let mark = Mark {
                by: number("by") as u8,
                number: number("number"),
                lease: number("lease") == 1,
            };
            let cell = Counted {
                count: number("count"),
                by: mark.by,
                sequence: mark.sequence(),
                upper: number("upper"),
            };
            let hex: String = cell
                .to_bits()
                .to_le_bytes()
                .map(|byte| format!("{byte:02x}"))
                .concat();
            assert_eq!(hex, value("hex"), "{group}");
        }
    }

    #[test]
    fn sequence_skips_zero() {
        let next = |number| {
            Mark {
                by: 0,
                number,
                lease: false,
            }
            .next()
            .number
        };
        assert_eq!(next(0), 1);
        assert_eq!(next(NUMBER_MASK), NUMBER_MASK + 2);
        assert_eq!(next(u32::MAX), 1);
    }

    #[test]
    fn heads_are_those_of_the_golden_vectors() {
        let text = include_str!("../../../spec/vectors/pool.txt");
        let groups: Vec<&str> = text.split("[head.").skip(1).collect();
        assert_eq!(groups.len(), 3);
        for group in groups {
            let value = |key: &str| {
                let line = group
                    .lines()
                    .find_map(|line| line.strip_prefix(&format!("{key} = ")));
                line.expect("the key")
            };
            let number = |key: &str| value(key).parse::<u32>().expect("a number");
            let (count, upper) = parts_of_head(number("head"));
            let cell = Counted {
                count,
                by: number("by") as u8,
                sequence: number("number"),
                upper,
            };
            assert_eq!(cell.head(), number("head"));
            let hex: String = cell
                .to_bits()
                .to_le_bytes()
                .map(|byte| format!("{byte:02x}"))
                .concat();
            assert_eq!(hex, value("hex"), "{group}");
        }
    }
}
