//! The two ends of a queue, and where its head stands.
//!
//! The head of a queue that evicts the oldest stands in a counted cell, because either end may move
//! it; the head of any other is a word of the consumer. Never takes anything out of a queue.

use hythe_abi::Descriptor;
use hythe_memory::{Memory, Ordering};
use hythe_queue::{Consumer, Producer, QueueError};

use super::Tables;
use super::connections::{ConnectionIndex, ConnectionInfo};
use super::ports::PortIndex;
use crate::control::Control;
use crate::counted::Counted;

/// Looks at a head that the other side moves meanwhile.
const ATTEMPTS: usize = 64;

/// The end of a connection that a participant works with.
#[derive(Debug)]
pub struct ConnectionEnd<Q> {
    /// The connection.
    pub info: ConnectionInfo,
    /// Its queue end.
    pub queue: Q,
    /// The gap word of the descriptor that was taken last, of a queue that evicts the oldest.
    pub gap: u32,
}

impl ConnectionEnd<Consumer> {
    /// How many descriptors wait, whatever the policy of the queue.
    ///
    /// # Errors
    /// [`QueueError::Violated`] if the other side's counter is impossible.
    #[inline(always)]
    pub fn waiting<M: Memory>(&mut self, control: &Control<M>) -> Result<u32, QueueError> {
        if self.info.evicts_oldest {
            self.waiting_behind_cell(control)
        } else {
            self.queue.waiting(control.memory())
        }
    }

    /// Does something wait? Cheaper than [`waiting`](Self::waiting).
    ///
    /// # Errors
    /// As [`waiting`](Self::waiting).
    #[inline(always)]
    pub fn is_something_waiting<M: Memory>(
        &mut self,
        control: &Control<M>,
    ) -> Result<bool, QueueError> {
        if self.info.evicts_oldest {
            Ok(self.waiting_behind_cell(control)? > 0)
        } else {
            self.queue.is_something_waiting(control.memory())
        }
    }

    #[cold]
    fn waiting_behind_cell<M: Memory>(&mut self, control: &Control<M>) -> Result<u32, QueueError> {
        let memory = control.memory();
        let mut head = control.tables().oldest_head(self.info.index);
        for _ in 0..ATTEMPTS {
            let waiting = self.queue.waiting_from(memory, head);
            let now = control.tables().oldest_head(self.info.index);
            if waiting.is_ok() || now == head {
                return waiting;
            }
            head = now;
        }
        // It moves faster than we look, so something waits.
        Ok(1)
    }
}

impl<'c, M: Memory> Tables<'c, M> {
    /// How many descriptors were taken out of a connection's queue, wrapping, by its consumer or
    /// (evict oldest) by its producer. A claim of the consumer.
    #[inline]
    pub fn taken_from(self, info: &ConnectionInfo) -> u32 {
        self.head_of(info)
    }

    /// Does something wait for a port, over any of its connections? A snapshot.
    pub fn something_waits_for(self, port: PortIndex) -> bool {
        self.connections_to(port)
            // Relaxed: nothing is read on the strength of it.
            .any(|info| {
                let tail = self.memory().load(info.places.tail, Ordering::Relaxed);
                tail != self.head_of(&info)
            })
    }

    /// Does something wait in the queue of a connection? Its consumer's look from outside, which
    /// takes nothing: nonsense counts.
    #[inline]
    pub fn queue_waits(self, info: &ConnectionInfo) -> bool {
        // Relaxed: what is fresh enough is the barrier's doing in `take_marks`; whoever takes reads
        // both words again.
        let tail = self.memory().load(info.places.tail, Ordering::Relaxed);
        let head = if info.evicts_oldest {
            self.oldest_head(info.index)
        } else {
            self.memory().load(info.places.head, Ordering::Relaxed)
        };
        tail != head
    }

    /// The taking end of a connection, from where its consumer left off.
    pub fn consumer_end(self, info: ConnectionInfo) -> ConnectionEnd<Consumer> {
        let head = self.head_of(&info);
        ConnectionEnd {
            info,
            queue: Consumer::resume(info.places, head),
            gap: 0,
        }
    }

    /// The pushing end of a connection, from where its producer left off.
    pub fn producer_end(self, info: ConnectionInfo) -> ConnectionEnd<Producer> {
        // Relaxed: its own word.
        let tail = self.memory().load(info.places.tail, Ordering::Relaxed);
        let head = self.head_of(&info);
        ConnectionEnd {
            info,
            queue: Producer::resume(info.places, tail, head),
            gap: 0,
        }
    }

    /// How many more descriptors fit into the queue now, as its producer sees it.
    ///
    /// # Errors
    /// [`QueueError::Violated`] if the consumer's counter is impossible.
    #[inline]
    pub fn free_capacity(self, end: &mut ConnectionEnd<Producer>) -> Result<u32, QueueError> {
        if end.info.evicts_oldest {
            end.queue.see_head(self.oldest_head(end.info.index))
        } else {
            end.queue.free_capacity(self.memory())
        }
    }

    /// The cell with the head of a queue that evicts the oldest.
    pub(crate) fn oldest_cell(self, index: ConnectionIndex) -> Counted {
        let at = self.layout().oldest(index.0 as usize);
        // Pairs with the swap of whoever moved the head: what that one read there, it has finished
        // reading.
        Counted::from_bits(self.memory().load_cell(at, Ordering::Acquire))
    }

    /// Where the head of such a queue stands.
    pub(crate) fn oldest_head(self, index: ConnectionIndex) -> u32 {
        self.oldest_cell(index).head()
    }

    fn head_of(self, info: &ConnectionInfo) -> u32 {
        if info.evicts_oldest {
            self.oldest_head(info.index)
        } else {
            // For a producer's end made anew: pairs with the consumer's advance, behind which it
            // has finished reading.
            self.memory().load(info.places.head, Ordering::Acquire)
        }
    }

    /// Descriptors that wait in a connection's queue, read without taking them. A snapshot: the
    /// ends may move meanwhile.
    pub(crate) fn queued(self, info: ConnectionInfo) -> Vec<Descriptor> {
        let memory = self.memory();
        let head = self.head_of(&info);
        let mut reader = Consumer::resume(info.places, head);
        let waiting = reader.waiting(memory).unwrap_or(0);
        let word = |number: u32, index: usize| {
            let entry = (number & (info.places.capacity - 1)) as usize * Descriptor::BYTES;
            memory.load(info.places.entries + entry + index * 4, Ordering::Relaxed)
        };
        (0..waiting)
            .map(|step| head.wrapping_add(step))
            .map(|number| Descriptor::from_words(std::array::from_fn(|index| word(number, index))))
            .collect()
    }
}
