//! The two queues of a flow: entries of 32 bytes, one writer and one reader (`spec/link.md`).
//!
//! Called by an attachment only. Holds its own counter, and believes nothing of the other side's
//! but that it is in range. Never waits, never looks at what an entry means.

use hythe_abi::link::{ENTRY_BYTES, Entry};
use hythe_memory::Ordering;

use super::words::Words;

/// Where a queue stands in a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) tail: usize,
    pub(super) head: usize,
    pub(super) entries: usize,
    pub(super) capacity: u32,
}

impl Places {
    const fn at(&self, number: u32) -> usize {
        self.entries + (number & (self.capacity - 1)) as usize * ENTRY_BYTES
    }

    /// The entry with this number, a claim of whoever wrote it.
    pub(super) fn read(&self, words: &Words, number: u32) -> Entry {
        let at = self.at(number);
        Entry::from_words(std::array::from_fn(|index| {
            words.load(at + 4 * index, Ordering::Relaxed)
        }))
    }

    fn write(&self, words: &Words, number: u32, value: Entry) {
        let at = self.at(number);
        for (index, word) in value.to_words().into_iter().enumerate() {
            words.store(at + 4 * index, word, Ordering::Relaxed);
        }
    }
}

/// The writing end, Linux -> core.
#[derive(Debug)]
pub(super) struct Outbox {
    places: Places,
    tail: u32,
    seen_head: u32,
}

impl Outbox {
    pub(super) const fn begin(places: Places, start: u32) -> Self {
        Self {
            places,
            tail: start,
            seen_head: start,
        }
    }

    /// Entries that the core has not taken; its counter, if that is impossible.
    pub(super) fn untaken(&mut self, words: &Words) -> Result<u32, u32> {
        // Pairs with the core's release store: what it has taken, it has finished reading.
        let head = words.load(self.places.head, Ordering::Acquire);
        let untaken = self.tail.wrapping_sub(head);
        // A head can only come closer to the tail.
        if untaken > self.tail.wrapping_sub(self.seen_head) {
            return Err(head);
        }
        self.seen_head = head;
        Ok(untaken)
    }

    /// False: full. An error is the core's counter, which is impossible.
    pub(super) fn push(&mut self, words: &Words, value: Entry) -> Result<bool, u32> {
        if self.untaken(words)? >= self.places.capacity {
            return Ok(false);
        }
        self.places.write(words, self.tail, value);
        self.tail = self.tail.wrapping_add(1);
        words.store(self.places.tail, self.tail, Ordering::Release);
        Ok(true)
    }
}

/// The reading end, core -> Linux.
#[derive(Debug)]
pub(super) struct Inbox {
    places: Places,
    head: u32,
}

impl Inbox {
    pub(super) const fn begin(places: Places, head: u32) -> Self {
        Self { places, head }
    }

    /// The next entry, if there is one; an error is the core's counter, which is impossible.
    pub(super) fn peek(&self, words: &Words) -> Result<Option<Entry>, u32> {
        let tail = words.load(self.places.tail, Ordering::Acquire);
        let waiting = tail.wrapping_sub(self.head);
        if waiting > self.places.capacity {
            return Err(tail);
        }
        Ok((waiting > 0).then(|| self.places.read(words, self.head)))
    }

    pub(super) fn advance(&mut self, words: &Words) {
        self.head = self.head.wrapping_add(1);
        words.store(self.places.head, self.head, Ordering::Release);
    }
}
