//! Memory that datagrams are received into, and that packets lie in until they are out.
//!
//! [`stream`](crate::receive::stream) lets the kernel write into [`ReceiveBuffer::free_capacity`]
//! and holds [`Span`]s of what came, usually for no longer than the call. It is a ring: a batch of
//! datagrams takes what it needs, and its space is free again once all its packets and those of
//! older batches are released. Nothing is copied and nothing allocated after it was made.

use std::collections::VecDeque;
use std::ops::Range;

use hythe_sys::udp_receive::BATCH_BYTES;

/// Batches that are remembered at most: packets that wait, and come one by one, take one each.
const BATCHES_MAX: usize = 4096;

/// Bytes in a [`ReceiveBuffer`], to be released exactly once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "its space is only free again when it is released"]
pub struct Span {
    batch: u64,
    start: usize,
    end: usize,
}

#[derive(Debug)]
struct Batch {
    start: usize,
    /// Spans that are held, and one for the batch itself until it is done.
    held: usize,
}

/// The ring.
#[derive(Debug)]
pub struct ReceiveBuffer {
    bytes: Box<[u8]>,
    batches: VecDeque<Batch>,
    /// Number of the oldest batch.
    first: u64,
    /// Where the next batch goes.
    head: usize,
}

impl ReceiveBuffer {
    /// A ring of `bytes`, at least [`BATCH_BYTES`].
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes: vec![0; bytes.max(BATCH_BYTES)].into(),
            batches: VecDeque::with_capacity(BATCHES_MAX),
            first: 0,
            head: 0,
        }
    }

    /// Space for a batch of [`BATCH_BYTES`]; `None` until spans of old batches are released.
    pub fn free_capacity(&mut self) -> Option<&mut [u8]> {
        let range = self.find_capacity()?;
        self.head = range.start;
        Some(&mut self.bytes[range])
    }

    fn find_capacity(&self) -> Option<Range<usize>> {
        let Some(oldest) = self.batches.front() else {
            return Some(0..BATCH_BYTES);
        };
        if self.batches.len() == BATCHES_MAX {
            return None;
        }
        let capacity_at = |start: usize, end: usize| {
            let is_enough = end.saturating_sub(start) >= BATCH_BYTES;
            is_enough.then(|| start..start + BATCH_BYTES)
        };
        // The head never comes to stand on the oldest batch from behind, so that it does so only if
        // nothing is used.
        if self.head > oldest.start {
            let behind = capacity_at(self.head, self.bytes.len());
            behind.or_else(|| capacity_at(0, oldest.start.saturating_sub(1)))
        } else {
            capacity_at(self.head, oldest.start.saturating_sub(1))
        }
    }

    /// The first `bytes` (at least 1) of the free capacity given last are used; the number of this
    /// batch. It stays until [`Self::done`].
    pub fn take(&mut self, bytes: usize) -> u64 {
        debug_assert!(
            bytes > 0,
            "a batch without bytes could not be told from none"
        );
        let start = self.head;
        self.head += bytes;
        self.batches.push_back(Batch { start, held: 1 });
        self.first + self.batches.len() as u64 - 1
    }

    /// Holds a part of a batch; `range` counts from its beginning.
    pub fn hold(&mut self, batch: u64, range: Range<usize>) -> Span {
        let entry = self.batch(batch);
        entry.held += 1;
        let (start, end) = (entry.start + range.start, entry.start + range.end);
        Span { batch, start, end }
    }

    /// A part of a batch that is not done.
    #[must_use]
    pub fn part(&self, batch: u64, range: Range<usize>) -> &[u8] {
        let start = self.batches[(batch - self.first) as usize].start;
        &self.bytes[start + range.start..start + range.end]
    }

    /// What is in a span.
    #[must_use]
    pub fn bytes(&self, span: &Span) -> &[u8] {
        &self.bytes[span.start..span.end]
    }

    /// Gives a span back.
    pub fn release(&mut self, span: Span) {
        self.done(span.batch);
    }

    /// No more spans will be held of this batch.
    pub fn done(&mut self, batch: u64) {
        self.batch(batch).held -= 1;
        while self.batches.front().is_some_and(|batch| batch.held == 0) {
            self.batches.pop_front();
            self.first += 1;
        }
    }

    fn batch(&mut self, batch: u64) -> &mut Batch {
        &mut self.batches[(batch - self.first) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch of `bytes`, each `value`, and a span of all of it.
    fn batch(buffer: &mut ReceiveBuffer, bytes: usize, value: u8) -> Option<Span> {
        buffer.free_capacity()?[..bytes].fill(value);
        let batch = buffer.take(bytes);
        let span = buffer.hold(batch, 0..bytes);
        buffer.done(batch);
        Some(span)
    }

    #[test]
    fn buffer_keeps_spans_until_release_in_any_order() {
        let mut buffer = ReceiveBuffer::new(4 * BATCH_BYTES);
        let mut held: Vec<(u8, Span)> = Vec::new();
        let mut seed = 9_u64;
        for round in 0..2_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let bytes = 1 + (seed >> 33) as usize % BATCH_BYTES;
            match batch(&mut buffer, bytes, round as u8) {
                Some(span) => held.push((round as u8, span)),
                None => assert!(!held.is_empty(), "full of nothing"),
            }
            while !held.is_empty() && (held.len() > 6 || seed >> 63 == 1) {
                let (value, span) = held.swap_remove((seed >> 20) as usize % held.len());
                assert!(buffer.bytes(&span).iter().all(|byte| *byte == value));
                buffer.release(span);
                seed = seed.rotate_left(1);
            }
        }
        held.into_iter().for_each(|(_, span)| buffer.release(span));
        assert!(buffer.batches.is_empty());
    }

    #[test]
    fn many_small_batches_end_at_the_limit() {
        let mut buffer = ReceiveBuffer::new(4 * BATCH_BYTES);
        let spans: Vec<_> = std::iter::from_fn(|| batch(&mut buffer, 12, 1)).collect();
        assert_eq!(spans.len(), BATCHES_MAX);
        assert_eq!(buffer.batches.capacity(), BATCHES_MAX);
        spans.into_iter().for_each(|span| buffer.release(span));
        assert!(buffer.free_capacity().is_some());
    }

    #[test]
    fn smallest_takes_one_batch_at_a_time() {
        let mut buffer = ReceiveBuffer::new(0);
        let span = batch(&mut buffer, 1, 1).unwrap();
        assert!(buffer.free_capacity().is_none());
        buffer.release(span);
        assert_eq!(buffer.free_capacity().unwrap().len(), BATCH_BYTES);
    }
}
