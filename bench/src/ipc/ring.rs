//! The floor's ring: two words and entries of four words. As plain as it can be and still right.
//!
//! Written apart from the product's queue on purpose: a mistake there must not lower the floor with
//! it.

use hythe_memory::{Mapped, Memory, Ordering};

/// Entries, a power of two.
pub(super) const CAPACITY: u32 = 256;
/// Tail and head, each in a line (and a prefetched neighbour) of its own, then the entries.
pub(super) const RING_BYTES: usize = ENTRIES + CAPACITY as usize * ENTRY_BYTES;
const HEAD: usize = 128;
const ENTRIES: usize = 256;
const ENTRY_BYTES: usize = 16;

/// What a descriptor is made of.
pub(super) type Entry = [u32; 4];

/// The writing end.
#[derive(Debug)]
pub(super) struct Outgoing {
    base: usize,
    tail: u32,
    seen_head: u32,
}

impl Outgoing {
    pub(super) const fn new(base: usize) -> Self {
        Self {
            base,
            tail: 0,
            seen_head: 0,
        }
    }

    #[inline]
    pub(super) fn has_capacity(&mut self, memory: &Mapped) -> bool {
        if self.tail.wrapping_sub(self.seen_head) == CAPACITY {
            // Pairs with the release store in `advance`.
            self.seen_head = memory.load(self.base + HEAD, Ordering::Acquire);
        }
        self.tail.wrapping_sub(self.seen_head) < CAPACITY
    }

    /// There must be free capacity.
    #[inline]
    pub(super) fn push(&mut self, memory: &Mapped, entry: Entry) {
        let at = place(self.base, self.tail);
        for (index, word) in entry.into_iter().enumerate() {
            memory.store(at + index * 4, word, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
        // Pairs with the acquire load in `peek`.
        memory.store(self.base, self.tail, Ordering::Release);
    }

    /// The word that the reader may sleep on.
    pub(super) const fn tail_at(&self) -> usize {
        self.base
    }
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Incoming {
    base: usize,
    head: u32,
    seen_tail: u32,
}

impl Incoming {
    pub(super) const fn new(base: usize) -> Self {
        Self {
            base,
            head: 0,
            seen_tail: 0,
        }
    }

    #[inline]
    pub(super) fn peek(&mut self, memory: &Mapped) -> Option<Entry> {
        if self.seen_tail == self.head {
            // Pairs with the release store in `push`.
            self.seen_tail = memory.load(self.base, Ordering::Acquire);
            if self.seen_tail == self.head {
                return None;
            }
        }
        let at = place(self.base, self.head);
        let mut entry = Entry::default();
        for (index, word) in entry.iter_mut().enumerate() {
            *word = memory.load(at + index * 4, Ordering::Relaxed);
        }
        Some(entry)
    }

    /// Gives the place, and the payload behind it, back to the writer.
    #[inline]
    pub(super) fn advance(&mut self, memory: &Mapped) {
        self.head = self.head.wrapping_add(1);
        // Pairs with the acquire load in `has_capacity`.
        memory.store(self.base + HEAD, self.head, Ordering::Release);
    }

    /// The word to sleep on while it holds the second value.
    pub(super) const fn empty(&self) -> (usize, u32) {
        (self.base, self.head)
    }
}

const fn place(base: usize, number: u32) -> usize {
    base + ENTRIES + (number % CAPACITY) as usize * ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_free_capacity_is_known_around_the_end() {
        let memory = Mapped::anonymous(2 * RING_BYTES).expect("memory");
        let mut outgoing = Outgoing::new(RING_BYTES);
        let mut incoming = Incoming::new(RING_BYTES);
        for round in 0..3 {
            for number in 0..CAPACITY {
                assert!(outgoing.has_capacity(&memory));
                outgoing.push(&memory, [round, number, 0, 9]);
            }
            assert!(!outgoing.has_capacity(&memory));
            for number in 0..CAPACITY {
                assert_eq!(incoming.peek(&memory), Some([round, number, 0, 9]));
                incoming.advance(&memory);
            }
            assert_eq!(incoming.peek(&memory), None);
        }
    }
}
