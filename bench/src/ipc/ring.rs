//! The floor's rings, of entries of four words. As plain as they can be and still right.
//!
//! Written apart from the product's queue on purpose: a mistake there must not lower the floor with
//! it.

use clap::ValueEnum;
use hythe_memory::{Memory, Ordering};

/// Entries, a power of two.
pub(super) const CAPACITY: u32 = 256;
/// Tail and head, each in a line (and a prefetched neighbour) of its own, then the entries.
pub(super) const RING_BYTES: usize = ENTRIES + CAPACITY as usize * LINE_BYTES;
const HEAD: usize = 128;
const ENTRIES: usize = 256;
const PACKED_BYTES: usize = 16;
const LINE_BYTES: usize = 64;
/// In an entry with a line of its own: how many were written.
const SEQUENCE: usize = 16;

/// What a descriptor is made of.
pub(super) type Entry = [u32; 4];

/// How the reader sees that something was written. Which is quicker depends on the machine and on
/// what is sent; the floor is the quicker one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A word of the writer's beside the ring, and packed entries: one line more for each message,
    /// and fewer for many.
    Packed,
    /// A number inside each entry, which has a line: nothing else moves.
    Sequenced,
}

/// Where one of the rings is.
#[derive(Clone, Copy, Debug)]
struct Ring {
    base: usize,
    kind: Kind,
}

impl Ring {
    #[inline(always)]
    const fn entry(self, number: u32) -> usize {
        let bytes = match self.kind {
            Kind::Packed => PACKED_BYTES,
            Kind::Sequenced => LINE_BYTES,
        };
        self.base + ENTRIES + (number % CAPACITY) as usize * bytes
    }

    /// The word that changes when entry `number` is written.
    #[inline(always)]
    const fn signal(self, number: u32) -> usize {
        match self.kind {
            Kind::Packed => self.base,
            Kind::Sequenced => self.entry(number) + SEQUENCE,
        }
    }
}

/// The writing end.
#[derive(Debug)]
pub(super) struct Outgoing {
    ring: Ring,
    tail: u32,
    seen_head: u32,
    /// Entries that may be under way.
    limit: u32,
}

impl Outgoing {
    pub(super) const fn new(kind: Kind, base: usize) -> Self {
        Self {
            ring: Ring { base, kind },
            tail: 0,
            seen_head: 0,
            limit: CAPACITY,
        }
    }

    /// With fewer entries under way than the ring has: the payload has so many slots.
    pub(super) fn limited(self, limit: u32) -> Self {
        debug_assert!(limit <= CAPACITY, "{limit}");
        Self { limit, ..self }
    }

    /// How many were written.
    pub(super) const fn tail(&self) -> u32 {
        self.tail
    }

    #[inline]
    pub(super) fn has_capacity(&mut self, memory: impl Memory) -> bool {
        if self.tail.wrapping_sub(self.seen_head) == self.limit {
            // Pairs with the release store in `advance`.
            self.seen_head = memory.load(self.ring.base + HEAD, Ordering::Acquire);
        }
        self.tail.wrapping_sub(self.seen_head) < self.limit
    }

    /// There must be free capacity. Returns the word that the reader may sleep on.
    #[inline]
    pub(super) fn push(&mut self, memory: impl Memory, entry: Entry) -> usize {
        let at = self.ring.entry(self.tail);
        for (index, word) in entry.into_iter().enumerate() {
            memory.store(at + index * 4, word, Ordering::Relaxed);
        }
        let signal = self.ring.signal(self.tail);
        self.tail = self.tail.wrapping_add(1);
        // Pairs with the acquire load in `peek`.
        memory.store(signal, self.tail, Ordering::Release);
        signal
    }
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Incoming {
    ring: Ring,
    head: u32,
    seen_tail: u32,
}

impl Incoming {
    pub(super) const fn new(kind: Kind, base: usize) -> Self {
        Self {
            ring: Ring { base, kind },
            head: 0,
            seen_tail: 0,
        }
    }

    /// How many were taken.
    pub(super) const fn head(&self) -> u32 {
        self.head
    }

    #[inline]
    pub(super) fn peek(&mut self, memory: impl Memory) -> Option<Entry> {
        // Pairs with the release store in `push`.
        let signal = |number| memory.load(self.ring.signal(number), Ordering::Acquire);
        match self.ring.kind {
            Kind::Packed => {
                if self.seen_tail == self.head {
                    self.seen_tail = signal(self.head);
                    if self.seen_tail == self.head {
                        return None;
                    }
                }
            }
            Kind::Sequenced => {
                if signal(self.head) != self.head.wrapping_add(1) {
                    return None;
                }
            }
        }
        let at = self.ring.entry(self.head);
        let word = |index: usize| memory.load(at + index * 4, Ordering::Relaxed);
        Some([word(0), word(1), word(2), word(3)])
    }

    /// Gives the place, and the payload behind it, back to the writer.
    #[inline]
    pub(super) fn advance(&mut self, memory: impl Memory) {
        self.head = self.head.wrapping_add(1);
        // Pairs with the acquire load in `has_capacity`.
        memory.store(self.ring.base + HEAD, self.head, Ordering::Release);
    }

    /// The word to sleep on while it holds the second value.
    pub(super) const fn empty(&self) -> (usize, u32) {
        let before = match self.ring.kind {
            Kind::Packed => self.head,
            // What was written there one round ago; 0 in the first.
            Kind::Sequenced if self.head < CAPACITY => 0,
            Kind::Sequenced => self.head - CAPACITY + 1,
        };
        (self.ring.signal(self.head), before)
    }
}

#[cfg(test)]
mod tests {
    use hythe_memory::Mapped;

    use super::*;

    #[test]
    fn order_is_kept_and_free_capacity_is_known_around_the_end() {
        let memory = &Mapped::anonymous(2 * RING_BYTES).expect("memory");
        for (kind, base) in [(Kind::Packed, 0), (Kind::Sequenced, RING_BYTES)] {
            let mut outgoing = Outgoing::new(kind, base);
            let mut incoming = Incoming::new(kind, base);
            for round in 0..3 {
                for number in 0..CAPACITY {
                    assert!(outgoing.has_capacity(memory));
                    let (at, before) = incoming.empty();
                    let is_first = number == 0;
                    assert!(!is_first || memory.load(at, Ordering::Relaxed) == before);
                    let signal = outgoing.push(memory, [round, number, 0, 9]);
                    assert!(!is_first || signal == at);
                }
                assert!(!outgoing.has_capacity(memory));
                for number in 0..CAPACITY {
                    assert_eq!(incoming.peek(memory), Some([round, number, 0, 9]));
                    incoming.advance(memory);
                }
                assert_eq!(incoming.peek(memory), None);
            }
        }
    }

    #[test]
    fn fewer_entries_than_the_ring_has_may_be_under_way() {
        let memory = &Mapped::anonymous(RING_BYTES).expect("memory");
        let mut outgoing = Outgoing::new(Kind::Packed, 0).limited(3);
        let mut incoming = Incoming::new(Kind::Packed, 0);
        for number in 0..3 {
            assert!(outgoing.has_capacity(memory));
            outgoing.push(memory, [number, 1, 0, 8]);
        }
        assert!(!outgoing.has_capacity(memory));
        assert_eq!(incoming.peek(memory), Some([0, 1, 0, 8]));
        incoming.advance(memory);
        assert!(outgoing.has_capacity(memory));
    }
}
