//! A ring of RPMsg: 256 buffers of 512 bytes one way, and two queues of buffer numbers, filled and
//! empty, as a split virtqueue has them. The core's side of the same words is
//! `rtos/transports/vring/vring.h`.
//!
//! Each index has one writer. Towards the core `filled` is virtio's available ring and `empty` its
//! used ring; from the core it is the other way round, as RPMsg's two virtqueues are. Never waits
//! and never rings: whoever has an end does.

use hythe_memory::{Mapped, Memory, Ordering, full_barrier};

/// Buffers of a ring.
pub const BUFFERS: u32 = 256;
const BUFFER_BYTES: usize = 512;
/// RPMsg's header in each buffer: source, destination, reserved, and length with flags.
const HEADER_BYTES: usize = 16;
/// Payload of a buffer.
pub const FRAGMENT_BYTES: usize = BUFFER_BYTES - HEADER_BYTES;

/// The sender's line, the receiver's line, then the two queues.
const FILLED_INDEX: usize = 0;
const SENDER_SLEEPS: usize = 4;
const EMPTY_INDEX: usize = 64;
const RECEIVER_SLEEPS: usize = 68;
/// Buffer number and bytes: two words.
const FILLED: usize = 128;
const EMPTY: usize = FILLED + 8 * BUFFERS as usize;
/// Bytes of a ring without its buffers.
pub(crate) const RING_BYTES: usize = EMPTY + 4 * BUFFERS as usize;
/// Bytes of its buffers.
pub(crate) const BUFFERS_BYTES: usize = BUFFERS as usize * BUFFER_BYTES;

/// Words of the header. The reserved one carries the length of the whole message.
const SOURCE: usize = 0;
const DESTINATION: usize = 4;
const TOTAL: usize = 8;
const LENGTH: usize = 12;
/// Addresses of RPMsg endpoints; nobody else talks over these rings.
const ADDRESS_CORE: u32 = 1024;
const ADDRESS_LINUX: u32 = 1025;

/// Where a ring and its buffers stand in the memory.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The two lines and queues, from the start of the memory on.
    pub ring: usize,
    /// The buffers.
    pub buffers: usize,
}

impl Places {
    const fn filled(self, number: u32) -> usize {
        self.ring + FILLED + (number % BUFFERS) as usize * 8
    }

    const fn empty(self, number: u32) -> usize {
        self.ring + EMPTY + (number % BUFFERS) as usize * 4
    }

    const fn buffer(self, number: u32) -> usize {
        self.buffers + (number % BUFFERS) as usize * BUFFER_BYTES
    }

    /// A ring for a beginning: all buffers are empty, nobody sleeps. The other side does not look
    /// yet.
    pub fn clear(self, memory: &Mapped) {
        for at in [FILLED_INDEX, SENDER_SLEEPS, RECEIVER_SLEEPS] {
            memory.store(self.ring + at, 0, Ordering::Relaxed);
        }
        for number in 0..BUFFERS {
            memory.store(self.empty(number), number, Ordering::Relaxed);
        }
        memory.store(self.ring + EMPTY_INDEX, BUFFERS, Ordering::Release);
    }
}

/// What one end says of its sleeps, and knows of the other's. A word is odd while its side may
/// sleep.
#[derive(Debug)]
pub struct Sleeps {
    own_at: usize,
    own: u32,
    other_at: usize,
    /// The sleep of the other side that it was last rung for.
    rung: u32,
}

impl Sleeps {
    const fn new(own_at: usize, other_at: usize) -> Self {
        Self {
            own_at,
            own: 0,
            other_at,
            rung: 0,
        }
    }

    /// This side goes to sleep, or has slept. Look once more behind the first.
    pub fn change(&mut self, memory: &Mapped) {
        self.own = self.own.wrapping_add(1);
        memory.store(self.own_at, self.own, Ordering::Release);
        full_barrier();
    }

    /// Is the other side to be rung? Once for each of its sleeps.
    #[inline]
    pub fn other_is_to_be_rung(&mut self, memory: &Mapped) -> bool {
        // Our index before its "I sleep"; its mirror image there is "I sleep" before our index.
        full_barrier();
        let sleeps = memory.load(self.other_at, Ordering::Acquire);
        let asleep = !sleeps.is_multiple_of(2) && sleeps != self.rung;
        if asleep {
            self.rung = sleeps;
        }
        asleep
    }
}

/// The writing end.
#[derive(Debug)]
pub struct Sender {
    places: Places,
    written: u32,
    taken: u32,
    /// What this end says of its sleeps.
    pub sleeps: Sleeps,
}

impl Sender {
    /// Of a ring that was cleared.
    #[must_use]
    pub const fn open(places: Places) -> Self {
        let at = places.ring;
        Self {
            places,
            written: 0,
            taken: 0,
            sleeps: Sleeps::new(at + SENDER_SLEEPS, at + RECEIVER_SLEEPS),
        }
    }

    /// Is there an empty buffer?
    #[must_use]
    #[inline]
    pub fn has_room(&self, memory: &Mapped) -> bool {
        // Pairs with the release store in `get`, here and on the core.
        memory.load(self.places.ring + EMPTY_INDEX, Ordering::Acquire) != self.taken
    }

    /// Copies the next fragment of a message, what is behind its first `at` bytes, into a buffer.
    /// There must be room. Returns the bytes of payload.
    ///
    /// # Panics
    /// If `at` is behind the message's end.
    #[inline]
    pub fn put(&mut self, memory: &Mapped, message: &[u8], at: usize) -> usize {
        let bytes = (message.len() - at).min(FRAGMENT_BYTES);
        let number = memory.load(self.places.empty(self.taken), Ordering::Relaxed);
        self.taken = self.taken.wrapping_add(1);
        let buffer = self.places.buffer(number);
        // Both fit: a message has a MiB at most.
        let header = [
            (SOURCE, ADDRESS_LINUX),
            (DESTINATION, ADDRESS_CORE),
            (TOTAL, message.len() as u32),
            (LENGTH, bytes as u32),
        ];
        for (place, word) in header {
            memory.store(buffer + place, word, Ordering::Relaxed);
        }
        memory.write(buffer + HEADER_BYTES, &message[at..at + bytes]);
        let entry = self.places.filled(self.written);
        memory.store(entry, number, Ordering::Relaxed);
        let length = (HEADER_BYTES + bytes) as u32;
        memory.store(entry + 4, length, Ordering::Relaxed);
        self.written = self.written.wrapping_add(1);
        // Pairs with the acquire load in `waiting`, here and on the core.
        let index = self.places.ring + FILLED_INDEX;
        memory.store(index, self.written, Ordering::Release);
        bytes
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Receiver {
    places: Places,
    written: u32,
    taken: u32,
    /// What this end says of its sleeps.
    pub sleeps: Sleeps,
}

impl Receiver {
    /// Of a ring that was cleared.
    #[must_use]
    pub const fn open(places: Places) -> Self {
        let at = places.ring;
        Self {
            places,
            // An entry for each empty buffer stands there already.
            written: BUFFERS,
            taken: 0,
            sleeps: Sleeps::new(at + RECEIVER_SLEEPS, at + SENDER_SLEEPS),
        }
    }

    /// Does a fragment wait?
    #[must_use]
    #[inline]
    pub fn has_waiting(&self, memory: &Mapped) -> bool {
        memory.load(self.places.ring + FILLED_INDEX, Ordering::Acquire) != self.taken
    }

    /// How long the next fragment's message is, as its sender says. One must wait.
    #[must_use]
    pub fn total(&self, memory: &Mapped) -> usize {
        let number = memory.load(self.places.filled(self.taken), Ordering::Relaxed);
        memory.load(self.places.buffer(number) + TOTAL, Ordering::Relaxed) as usize
    }

    /// Copies the next fragment to the place `at` of a message, and gives its buffer back. One must
    /// wait. Returns the bytes of payload. `None`: it is no part of a message of this length.
    #[inline]
    pub fn get(&mut self, memory: &Mapped, message: &mut [u8], at: usize) -> Option<usize> {
        let number = memory.load(self.places.filled(self.taken), Ordering::Relaxed);
        let buffer = self.places.buffer(number);
        let total = memory.load(buffer + TOTAL, Ordering::Relaxed) as usize;
        let bytes = memory.load(buffer + LENGTH, Ordering::Relaxed) as usize;
        let is_part = total == message.len()
            && (1..=FRAGMENT_BYTES).contains(&bytes)
            && bytes <= message.len() - at;
        if !is_part {
            return None;
        }
        self.taken = self.taken.wrapping_add(1);
        memory.read(buffer + HEADER_BYTES, &mut message[at..at + bytes]);
        memory.store(
            self.places.empty(self.written),
            number % BUFFERS,
            Ordering::Relaxed,
        );
        self.written = self.written.wrapping_add(1);
        let index = self.places.ring + EMPTY_INDEX;
        memory.store(index, self.written, Ordering::Release);
        Some(bytes)
    }

    /// Is it time to look whether the sender waits for empty buffers? It may have none, and half of
    /// them are enough to go on with.
    #[must_use]
    #[inline]
    pub fn may_have_made_room(&self, memory: &Mapped) -> bool {
        self.taken.is_multiple_of(BUFFERS / 2) || !self.has_waiting(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Places = Places {
        ring: 64,
        buffers: 4096,
    };

    fn ends() -> (Mapped, Sender, Receiver) {
        let memory = Mapped::anonymous(4096 + BUFFERS_BYTES).expect("memory");
        RING.clear(&memory);
        (memory, Sender::open(RING), Receiver::open(RING))
    }

    fn message(bytes: usize, seed: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 7 + seed) as u8).collect()
    }

    #[test]
    fn messages_of_any_length_come_whole_around_the_end_of_the_ring() {
        let (memory, mut sender, mut receiver) = ends();
        for (seed, bytes) in [8, 488, 496, 504, 100_000, 126_976].into_iter().enumerate() {
            let sent = message(bytes, seed);
            let mut got = vec![0; bytes];
            let mut at = 0;
            while at < bytes {
                assert!(sender.has_room(&memory));
                at += sender.put(&memory, &sent, at);
            }
            let mut at = 0;
            while at < bytes {
                assert!(receiver.has_waiting(&memory));
                at += receiver.get(&memory, &mut got, at).expect("a fragment");
            }
            assert!(!receiver.has_waiting(&memory));
            assert!(sent == got, "{bytes} bytes");
        }
    }

    #[test]
    fn there_are_so_many_buffers_and_each_comes_back() {
        let (memory, mut sender, mut receiver) = ends();
        let sent = message(FRAGMENT_BYTES * BUFFERS as usize, 1);
        let mut at = 0;
        for _ in 0..BUFFERS {
            assert!(sender.has_room(&memory));
            at += sender.put(&memory, &sent, at);
        }
        assert!(!sender.has_room(&memory));
        let mut got = vec![0; sent.len()];
        assert_eq!(receiver.get(&memory, &mut got, 0), Some(FRAGMENT_BYTES));
        assert!(sender.has_room(&memory));
        assert!(!receiver.may_have_made_room(&memory), "one is not half");
    }

    #[test]
    fn fragment_of_another_message_is_refused() {
        let (memory, mut sender, mut receiver) = ends();
        sender.put(&memory, &message(64, 1), 0);
        assert_eq!(receiver.get(&memory, &mut [0; 72], 0), None);
        assert_eq!(receiver.get(&memory, &mut [0; 64], 8), None);
        memory.store(RING.buffer(0) + LENGTH, 497, Ordering::Relaxed);
        memory.store(RING.buffer(0) + TOTAL, 4096, Ordering::Relaxed);
        assert_eq!(receiver.get(&memory, &mut [0; 4096], 0), None);
    }

    #[test]
    fn sleep_is_rung_for_once() {
        let (memory, mut sender, mut receiver) = ends();
        assert!(!sender.sleeps.other_is_to_be_rung(&memory));
        receiver.sleeps.change(&memory);
        assert!(sender.sleeps.other_is_to_be_rung(&memory));
        assert!(!sender.sleeps.other_is_to_be_rung(&memory));
        receiver.sleeps.change(&memory);
        assert!(!sender.sleeps.other_is_to_be_rung(&memory));
        receiver.sleeps.change(&memory);
        assert!(sender.sleeps.other_is_to_be_rung(&memory));
        sender.sleeps.change(&memory);
        assert!(receiver.sleeps.other_is_to_be_rung(&memory));
    }

    #[test]
    fn places_are_those_of_the_core() {
        assert_eq!((EMPTY, RING_BYTES, BUFFERS_BYTES), (2176, 3200, 131_072));
    }
}
