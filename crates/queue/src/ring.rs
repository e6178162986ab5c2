//! The ring of descriptors (`spec/descriptor.md`).
//!
//! Each side keeps its own counter privately and only publishes it: a peer that scribbles over it
//! confuses itself. What a side holds between calls: its own counter, and the last it saw of the
//! other's.

use hythe_abi::Descriptor;
use hythe_memory::{Memory, Ordering};

/// Where a queue stands in memory. From private geometry: offsets are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlaces {
    /// The producer's word.
    pub tail: usize,
    /// The consumer's word.
    pub head: usize,
    /// The first descriptor.
    pub entries: usize,
    /// Descriptors in the ring, a power of two.
    pub capacity: u32,
}

impl RingPlaces {
    #[inline(always)]
    const fn entry(&self, number: u32) -> usize {
        self.entries + (number & (self.capacity - 1)) as usize * Descriptor::BYTES
    }

    #[inline(always)]
    fn read<M: Memory>(&self, memory: &M, number: u32) -> Descriptor {
        let entry = self.entry(number);
        // One by one, into registers: an array filled word by word and then read at once stalls the
        // processor.
        let word = |index: usize| memory.load(entry + index * 4, Ordering::Relaxed);
        Descriptor::from_words([word(0), word(1), word(2), word(3)])
    }
}

/// Why a queue was not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueError {
    /// The consumer has not taken enough yet.
    Full,
    /// The other side's counter is impossible. The queue stays unusable until it is made anew.
    Violated {
        /// This side's counter.
        own: u32,
        /// What the other side claims.
        claimed: u32,
    },
}

/// The writing end.
#[derive(Debug)]
pub struct Producer {
    places: RingPlaces,
    tail: u32,
    seen_head: u32,
}

impl Producer {
    /// Starts, or goes on, at `tail`, with the consumer at `head`.
    #[must_use]
    pub const fn resume(places: RingPlaces, tail: u32, head: u32) -> Self {
        Self {
            places,
            tail,
            seen_head: head,
        }
    }

    /// How many descriptors were ever pushed, wrapping: the number of the next one.
    #[must_use]
    #[inline(always)]
    pub const fn tail(&self) -> u32 {
        self.tail
    }

    /// How many more fit now.
    ///
    /// # Errors
    /// [`QueueError::Violated`] if the consumer's counter is impossible.
    #[inline(always)]
    pub fn free_capacity<M: Memory>(&mut self, memory: &M) -> Result<u32, QueueError> {
        // Pairs with the consumer's release store: what it has taken, it has finished reading.
        let head = memory.load(self.places.head, Ordering::Acquire);
        self.see_head(head)
    }

    /// As [`Producer::free_capacity`], for a head that stands elsewhere than in the consumer's
    /// word. It was read with acquire.
    ///
    /// # Errors
    /// As [`Producer::free_capacity`].
    #[inline(always)]
    pub fn see_head(&mut self, head: u32) -> Result<u32, QueueError> {
        let (waiting, waited) = (
            self.tail.wrapping_sub(head),
            self.tail.wrapping_sub(self.seen_head),
        );
        // A head can only come closer to the tail; and what `resume` was given may have been a lie.
        if waiting > waited.min(self.places.capacity) {
            return Err(QueueError::Violated {
                own: self.tail,
                claimed: head,
            });
        }
        self.seen_head = head;
        Ok(self.places.capacity - waiting)
    }

    /// Does another descriptor fit, by the head that was read last? Reads no shared word.
    #[must_use]
    #[inline(always)]
    pub const fn has_known_capacity(&self) -> bool {
        self.tail.wrapping_sub(self.seen_head) < self.places.capacity
    }

    /// The descriptor at the head that was seen last, if one waits.
    pub fn oldest<M: Memory>(&self, memory: &M) -> Option<Descriptor> {
        (self.tail != self.seen_head).then(|| self.places.read(memory, self.seen_head))
    }

    /// Has the line of the next entry come while the caller still prepares its push: the consumer
    /// read it last.
    #[inline(always)]
    pub fn expect_push<M: Memory>(&self, memory: &M) {
        memory.expect_store(self.places.entry(self.tail));
    }

    /// Pushes one descriptor.
    ///
    /// # Errors
    /// [`QueueError::Full`], or [`QueueError::Violated`] if the consumer's counter is impossible.
    /// Nothing was written.
    #[inline(always)]
    pub fn push<M: Memory>(
        &mut self,
        memory: &M,
        descriptor: Descriptor,
    ) -> Result<(), QueueError> {
        let in_flight = self.tail.wrapping_sub(self.seen_head);
        if in_flight >= self.places.capacity && self.free_capacity(memory)? == 0 {
            return Err(QueueError::Full);
        }
        let entry = self.places.entry(self.tail);
        let word = |index: usize, value| memory.store(entry + index * 4, value, Ordering::Relaxed);
        let [place, generation, offset, length] = descriptor.to_words();
        word(0, place);
        word(1, generation);
        word(2, offset);
        word(3, length);
        self.tail = self.tail.wrapping_add(1);
        // Pairs with the consumer's acquire load: it sees the entry, and the payload written before
        // this call.
        memory.store(self.places.tail, self.tail, Ordering::Release);
        Ok(())
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Consumer {
    places: RingPlaces,
    head: u32,
    seen_tail: u32,
}

impl Consumer {
    /// Starts, or goes on, at `head`.
    #[must_use]
    pub const fn resume(places: RingPlaces, head: u32) -> Self {
        Self {
            places,
            head,
            seen_tail: head,
        }
    }

    /// How many descriptors were ever taken, wrapping: the number of the next one.
    #[must_use]
    #[inline(always)]
    pub const fn head(&self) -> u32 {
        self.head
    }

    /// How many descriptors wait.
    ///
    /// # Errors
    /// [`QueueError::Violated`] if the producer's counter is impossible.
    #[inline(always)]
    pub fn waiting<M: Memory>(&mut self, memory: &M) -> Result<u32, QueueError> {
        // The next entry comes from the producer's cache at the same time as its counter, not after
        // it.
        memory.expect_load(self.places.entry(self.head));
        // Pairs with the producer's release store: the entries below `tail`, and their payloads,
        // are visible.
        let tail = memory.load(self.places.tail, Ordering::Acquire);
        let waiting = tail.wrapping_sub(self.head);
        if waiting > self.places.capacity {
            return Err(QueueError::Violated {
                own: self.head,
                claimed: tail,
            });
        }
        self.seen_tail = tail;
        Ok(waiting)
    }

    /// Does something wait? What was seen waiting does until it is taken: its producer's counter,
    /// which may be changing just now, is left alone.
    ///
    /// # Errors
    /// As [`Consumer::waiting`].
    #[inline(always)]
    pub fn is_something_waiting<M: Memory>(&mut self, memory: &M) -> Result<bool, QueueError> {
        Ok(self.seen_tail != self.head || self.waiting(memory)? > 0)
    }

    /// Copies the next descriptor out and leaves it in the queue: the caller notes what it takes,
    /// then calls [`advance`](Self::advance).
    ///
    /// # Errors
    /// [`QueueError::Violated`] if the producer's counter is impossible.
    #[inline(always)]
    pub fn peek<M: Memory>(&mut self, memory: &M) -> Result<Option<Descriptor>, QueueError> {
        let waits = self.is_something_waiting(memory)?;
        Ok(waits.then(|| self.places.read(memory, self.head)))
    }

    /// How many descriptors wait behind a head that stands elsewhere than in the consumer's word,
    /// and that the producer may have moved since it was read, with acquire.
    ///
    /// # Errors
    /// [`QueueError::Violated`] if the two do not fit: the head moved meanwhile, or one of them is
    /// impossible.
    pub fn waiting_from<M: Memory>(&mut self, memory: &M, head: u32) -> Result<u32, QueueError> {
        self.head = head;
        self.waiting(memory)
    }

    /// As [`Consumer::peek`], from a head that stands elsewhere. What is read is torn if the
    /// producer moves the head meanwhile: it counts only if the caller then moves the head itself
    /// from where it was.
    ///
    /// # Errors
    /// As [`Consumer::waiting_from`].
    pub fn peek_from<M: Memory>(
        &mut self,
        memory: &M,
        head: u32,
    ) -> Result<Option<Descriptor>, QueueError> {
        let waiting = self.waiting_from(memory, head)?;
        Ok((waiting > 0).then(|| self.places.read(memory, head)))
    }

    /// A descriptor `ahead` of the next, among those that [`waiting`](Self::waiting) saw: a hint of
    /// what will be taken.
    #[inline(always)]
    pub fn peek_seen<M: Memory>(&self, memory: &M, ahead: u32) -> Option<Descriptor> {
        let seen = self.seen_tail.wrapping_sub(self.head);
        (ahead < seen).then(|| self.places.read(memory, self.head.wrapping_add(ahead)))
    }

    /// Gives the place of the peeked descriptor back to the producer.
    #[inline(always)]
    pub fn advance<M: Memory>(&mut self, memory: &M) {
        self.head = self.head.wrapping_add(1);
        // Pairs with the producer's acquire load: it overwrites the entry only after it was read.
        memory.store(self.places.head, self.head, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use hythe_abi::{Generation, Place, RegionIndex};
    use hythe_memory::Mapped;

    const PLACES: RingPlaces = RingPlaces {
        tail: 0,
        head: 64,
        entries: 128,
        capacity: 4,
    };

    fn number(n: u32) -> Descriptor {
        Descriptor {
            place: Place {
                region: RegionIndex(1),
                slot: n,
            },
            generation: Generation(1),
            offset: 256,
            length: n,
        }
    }

    fn ends(start: u32) -> (Mapped, Producer, Consumer) {
        let memory = Mapped::anonymous(4096).expect("memory");
        memory.store(PLACES.tail, start, Ordering::Relaxed);
        memory.store(PLACES.head, start, Ordering::Relaxed);
        (
            memory,
            Producer::resume(PLACES, start, start),
            Consumer::resume(PLACES, start),
        )
    }

    #[test]
    fn order_is_kept_and_fullness_is_said_across_the_wrap() {
        let (memory, mut producer, mut consumer) = ends(u32::MAX - 5);
        for round in 0..5 {
            for n in 0..4 {
                producer.push(&memory, number(round * 4 + n)).expect("room");
            }
            assert_eq!(producer.push(&memory, number(99)), Err(QueueError::Full));
            for n in 0..4 {
                assert_eq!(consumer.peek(&memory), Ok(Some(number(round * 4 + n))));
                consumer.advance(&memory);
            }
            assert_eq!(consumer.peek(&memory), Ok(None));
        }
    }

    #[test]
    fn lying_producer_is_found_out() {
        let (memory, _, mut consumer) = ends(0);
        memory.store(PLACES.tail, 5, Ordering::Relaxed);
        assert_eq!(
            consumer.peek(&memory),
            Err(QueueError::Violated { own: 0, claimed: 5 })
        );
    }

    #[test]
    fn consumer_that_lied_from_the_start_is_found_out() {
        let (memory, ..) = ends(0);
        memory.store(PLACES.head, 5, Ordering::Relaxed);
        let mut producer = Producer::resume(PLACES, 0, 5);
        let violated = QueueError::Violated { own: 0, claimed: 5 };
        assert_eq!(producer.free_capacity(&memory), Err(violated));
        assert_eq!(producer.push(&memory, number(0)), Err(violated));
    }

    #[test]
    fn lying_consumer_is_found_out() {
        let (memory, mut producer, _) = ends(0);
        for n in 0..4 {
            producer.push(&memory, number(n)).expect("room");
        }
        for lie in [5, u32::MAX] {
            memory.store(PLACES.head, lie, Ordering::Relaxed);
            let found = producer.push(&memory, number(4));
            assert_eq!(
                found,
                Err(QueueError::Violated {
                    own: 4,
                    claimed: lie
                })
            );
        }
    }
}
