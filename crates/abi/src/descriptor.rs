//! The 16 bytes that travel (`spec/descriptor.md`).

/// Number of a region in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionIndex(pub u8);

/// Generation of a slot: changes with each lease, so that a stale descriptor is visible. 1 to 2^24
/// - 1; 0 is never leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

impl Generation {
    /// The largest generation; the next one is 1 again.
    pub const MAX: u32 = (1 << 24) - 1;

    /// The generation of the next lease.
    #[must_use]
    #[inline]
    pub const fn next(self) -> Self {
        if self.0 >= Self::MAX {
            Self(1)
        } else {
            Self(self.0 + 1)
        }
    }
}

/// Where a slot is: region and index within the region (24 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The region.
    pub region: RegionIndex,
    /// The slot's index in its region, below 2^24.
    pub slot: u32,
}

impl Place {
    /// Largest slot index that fits.
    pub const SLOT_MAX: u32 = (1 << 24) - 1;

    /// The word as it stands in a descriptor.
    #[must_use]
    #[inline]
    pub const fn to_word(self) -> u32 {
        (self.region.0 as u32) << 24 | (self.slot & Self::SLOT_MAX)
    }

    /// Reads the word of a descriptor.
    #[must_use]
    #[inline]
    pub const fn from_word(word: u32) -> Self {
        Self {
            region: RegionIndex((word >> 24) as u8),
            slot: word & Self::SLOT_MAX,
        }
    }
}

/// What `length` says when it is not a length, on core links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorMark {
    /// The reference went on over another endpoint; only the flow window gains a place.
    Credit,
    /// An empty slot of the fill ring comes back unfilled.
    Unused,
}

/// Names a payload: slot, generation, offset, length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// Region and slot.
    pub place: Place,
    /// The slot's generation when it was leased.
    pub generation: Generation,
    /// From the slot's first byte to the payload's, in bytes.
    pub offset: u32,
    /// Of the payload, in bytes.
    pub length: u32,
}

impl Descriptor {
    /// Size in shared memory.
    pub const BYTES: usize = 16;
    /// `length` of a credit.
    pub const CREDIT: u32 = u32::MAX;
    /// `length` of an unused slot of the fill ring.
    pub const UNUSED: u32 = u32::MAX - 1;

    /// The four words as they stand in a queue.
    #[must_use]
    #[inline]
    pub const fn to_words(self) -> [u32; 4] {
        [
            self.place.to_word(),
            self.generation.0,
            self.offset,
            self.length,
        ]
    }

    /// Reads four words. A claim: nothing is checked against any pool.
    #[must_use]
    #[inline]
    pub const fn from_words(words: [u32; 4]) -> Self {
        Self {
            place: Place::from_word(words[0]),
            generation: Generation(words[1]),
            offset: words[2],
            length: words[3],
        }
    }

    /// The mark in `length`, if it is one.
    #[must_use]
    pub const fn mark(self) -> Option<DescriptorMark> {
        match self.length {
            Self::CREDIT => Some(DescriptorMark::Credit),
            Self::UNUSED => Some(DescriptorMark::Unused),
            _ => None,
        }
    }

    /// One past the payload's last byte, counted from the slot's first; `None` if it does not fit
    /// 32 bits.
    #[must_use]
    #[inline]
    pub const fn end(self) -> Option<u32> {
        self.offset.checked_add(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        let descriptor = Descriptor {
            place: Place {
                region: RegionIndex(3),
                slot: 0x00AB_CDEF,
            },
            generation: Generation(77),
            offset: 256,
            length: 1152,
        };
        assert_eq!(descriptor.to_words(), [0x03AB_CDEF, 77, 256, 1152]);
        assert_eq!(Descriptor::from_words(descriptor.to_words()), descriptor);
    }

    #[test]
    fn generation_skips_zero() {
        assert_eq!(Generation(0).next(), Generation(1));
        assert_eq!(Generation(Generation::MAX).next(), Generation(1));
    }

    #[test]
    fn marks_are_not_lengths() {
        let words = [0, 1, 256, Descriptor::CREDIT];
        assert_eq!(
            Descriptor::from_words(words).mark(),
            Some(DescriptorMark::Credit)
        );
        assert_eq!(Descriptor::from_words(words).end(), None);
        assert_eq!(Descriptor::from_words([0, 1, 256, 0]).mark(), None);
    }
}
