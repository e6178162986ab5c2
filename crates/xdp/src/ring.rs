//! The four rings of an `AF_XDP` socket, each with one producer and one consumer, of which the
//! kernel is one.
//!
//! As the kernel's documentation describes them (`Documentation/networking/af_xdp.rst`): two words
//! that only grow, and entries at their low bits. What holds between calls: this side's own word is
//! known from private memory, never from the shared. Never blocks.

use std::io;
use std::marker::PhantomData;
use std::os::fd::AsFd;

use hythe_memory::{Access, Mapped, Memory as _, Ordering};
use rustix::net::xdp::XdpRingOffset;

/// `XDP_RING_NEED_WAKEUP`.
const NEEDS_WAKEUP: u32 = 1;
/// `XDP_PKT_CONTD`: the next entry has more of the same frame.
const GOES_ON: u32 = 1;

/// What a ring has.
pub(crate) trait Entry: Copy {
    const BYTES: usize;
    fn read(memory: &Mapped, at: usize) -> Self;
    fn write(self, memory: &Mapped, at: usize);
}

/// Of the fill and the completion ring: a byte of the region, in the chunk that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub u64);

/// Of the receive and the send ring: a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it begins in the region.
    pub address: u64,
    /// How long it is.
    pub bytes: u32,
}

impl Entry for Address {
    const BYTES: usize = 8;

    fn read(memory: &Mapped, at: usize) -> Self {
        let mut bytes = [0; 8];
        memory.read(at, &mut bytes);
        Self(u64::from_ne_bytes(bytes))
    }

    fn write(self, memory: &Mapped, at: usize) {
        memory.write(at, &self.0.to_ne_bytes());
    }
}

impl Entry for Frame {
    /// The last word has options, which those that are read here have not.
    const BYTES: usize = 16;

    fn read(memory: &Mapped, at: usize) -> Self {
        let mut bytes = [0; 12];
        memory.read(at, &mut bytes);
        let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3] = bytes;
        Self {
            address: u64::from_ne_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            bytes: u32::from_ne_bytes([b0, b1, b2, b3]),
        }
    }

    fn write(self, memory: &Mapped, at: usize) {
        self.write_with(0, memory, at);
    }
}

impl Frame {
    fn write_with(self, options: u32, memory: &Mapped, at: usize) {
        let mut bytes = [0; <Self as Entry>::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.bytes.to_ne_bytes());
        bytes[12..].copy_from_slice(&options.to_ne_bytes());
        memory.write(at, &bytes);
    }
}

#[derive(Debug)]
struct Places<E> {
    memory: Mapped,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    entries: usize,
    count: u32,
    entry: PhantomData<E>,
}

impl<E: Entry> Places<E> {
    /// Maps a ring of `count` entries, a power of two, of a socket.
    fn map(
        socket: impl AsFd,
        page_offset: u64,
        places: XdpRingOffset,
        count: u32,
    ) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "a ring of {count} entries");
        let offset = |offset: u64| usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidData);
        let entries = offset(places.desc)?;
        let bytes = entries + count as usize * E::BYTES;
        Ok(Self {
            memory: Mapped::file(socket, page_offset, bytes, Access::Write)?,
            producer: offset(places.producer)?,
            consumer: offset(places.consumer)?,
            flags: places.flags.map(offset).transpose()?,
            entries,
            count,
            entry: PhantomData,
        })
    }

    fn place(&self, index: u32) -> usize {
        self.entries + (index & (self.count - 1)) as usize * E::BYTES
    }

    fn needs_wakeup(&self) -> bool {
        // Relaxed: the kernel sets it before it looks at the ring for the last time, and a call too
        // many or a turn too late is all that comes of it.
        let flags = self.flags.map(|at| self.memory.load(at, Ordering::Relaxed));
        flags.is_none_or(|flags| flags & NEEDS_WAKEUP != 0)
    }
}

/// The end of a ring that the kernel consumes.
#[derive(Debug)]
pub struct Producer<E> {
    places: Places<E>,
    produced: u32,
    /// As last seen.
    consumed: u32,
}

#[expect(
    private_bounds,
    reason = "the kinds of entries are those of the kernel"
)]
impl<E: Entry> Producer<E> {
    pub(crate) fn map(
        socket: impl AsFd,
        page_offset: u64,
        places: XdpRingOffset,
        count: u32,
    ) -> io::Result<Self> {
        let places = Places::map(socket, page_offset, places, count)?;
        Ok(Self {
            produced: places.memory.load(places.producer, Ordering::Relaxed),
            consumed: places.memory.load(places.consumer, Ordering::Relaxed),
            places,
        })
    }

    /// How many entries the kernel has not consumed, published or not.
    fn used(&mut self) -> u32 {
        let places = &self.places;
        // Acquire, with the kernel's release: it does not read an entry behind that any more.
        self.consumed = places.memory.load(places.consumer, Ordering::Acquire);
        self.produced.wrapping_sub(self.consumed)
    }

    /// Writes an entry, which the kernel sees with the next [`publish`](Self::publish). False: the
    /// ring is full.
    pub fn push(&mut self, entry: E) -> bool {
        if !self.has_space(1) {
            return false;
        }
        entry.write(&self.places.memory, self.places.place(self.produced));
        self.produced = self.produced.wrapping_add(1);
        true
    }

    fn has_space(&mut self, entries: u32) -> bool {
        // At most the ring's size is used, as this side alone pushes.
        let fits = |used: u32, count: u32| entries <= count.saturating_sub(used);
        fits(self.produced.wrapping_sub(self.consumed), self.places.count)
            || fits(self.used(), self.places.count)
    }

    /// Shows the kernel what was pushed.
    pub fn publish(&mut self) {
        let places = &self.places;
        // Release, with the kernel's acquire: the entries are written.
        places
            .memory
            .store(places.producer, self.produced, Ordering::Release);
    }

    /// Does the kernel look at the ring only when it is called?
    #[must_use]
    pub fn needs_wakeup(&self) -> bool {
        self.places.needs_wakeup()
    }
}

impl Producer<Frame> {
    /// As [`push`](Self::push), one frame that lies in several pieces: all of them or none. The
    /// queue's socket has to [take pieces](crate::QueueSocket::takes_pieces).
    pub fn push_pieces(&mut self, pieces: &[Frame]) -> bool {
        // Fits: whoever has more pieces than 32 bits count finds no ring with that many entries.
        if !self.has_space(pieces.len() as u32) {
            return false;
        }
        for (index, piece) in pieces.iter().enumerate() {
            let options = match index + 1 < pieces.len() {
                true => GOES_ON,
                false => 0,
            };
            let at = self.places.place(self.produced);
            piece.write_with(options, &self.places.memory, at);
            self.produced = self.produced.wrapping_add(1);
        }
        true
    }
}

/// The end of a ring that the kernel fills.
#[derive(Debug)]
pub struct Consumer<E> {
    places: Places<E>,
    consumed: u32,
    /// As last seen.
    produced: u32,
}

#[expect(
    private_bounds,
    reason = "the kinds of entries are those of the kernel"
)]
impl<E: Entry> Consumer<E> {
    pub(crate) fn map(
        socket: impl AsFd,
        page_offset: u64,
        places: XdpRingOffset,
        count: u32,
    ) -> io::Result<Self> {
        let places = Places::map(socket, page_offset, places, count)?;
        let consumed = places.memory.load(places.consumer, Ordering::Relaxed);
        Ok(Self {
            consumed,
            produced: consumed,
            places,
        })
    }

    /// Reads the next entry, which stays the reader's until it is [released](Self::release).
    pub fn pop(&mut self) -> Option<E> {
        if self.produced == self.consumed {
            let places = &self.places;
            // Acquire, with the kernel's release: the entries are written.
            self.produced = places.memory.load(places.producer, Ordering::Acquire);
            if self.produced == self.consumed {
                return None;
            }
        }
        let entry = E::read(&self.places.memory, self.places.place(self.consumed));
        self.consumed = self.consumed.wrapping_add(1);
        Some(entry)
    }

    /// Gives all entries back that were read.
    pub fn release(&mut self) {
        let places = &self.places;
        // Release, with the kernel's acquire: the entries are read.
        places
            .memory
            .store(places.consumer, self.consumed, Ordering::Release);
    }

    /// Has something come?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let places = &self.places;
        self.produced == self.consumed
            && places.memory.load(places.producer, Ordering::Acquire) == self.consumed
    }
}

/// A receive ring whose consumer is another process: what that has given back is read here, for the
/// fill ring.
///
/// It works because the ring has as many entries as the region has chunks to receive into: the
/// kernel writes no entry anew before its chunk was filled again, which is done by who reads here.
/// The other process may write anything to the words and entries.
#[derive(Debug)]
pub struct Observer {
    places: Places<Frame>,
    read: u32,
}

/// A process has moved its word beyond what can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImpossibleWord(pub u32);

impl Observer {
    pub(crate) fn map(
        socket: impl AsFd,
        page_offset: u64,
        places: XdpRingOffset,
        count: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            places: Places::map(socket, page_offset, places, count)?,
            read: 0,
        })
    }

    /// Gives `take` what the process has given back since the last time.
    ///
    /// # Errors
    /// It says to have given back more than the ring has.
    pub fn given_back(&mut self, take: impl FnMut(Frame)) -> Result<(), ImpossibleWord> {
        self.read_to(self.places.consumer, take)
    }

    /// How many frames have come that were not given back as of the last look; no more than the
    /// ring has, whatever the process writes.
    #[must_use]
    pub fn held(&self) -> u32 {
        // Relaxed: for who judges, not for who reads the entries.
        let come = self
            .places
            .memory
            .load(self.places.producer, Ordering::Relaxed);
        come.wrapping_sub(self.read).min(self.places.count)
    }

    /// Gives `take` also what has come and was not taken: of a process that is gone, when nothing
    /// comes for it any more.
    ///
    /// # Errors
    /// As [`given_back`](Self::given_back).
    pub fn left_over(&mut self, take: impl FnMut(Frame)) -> Result<(), ImpossibleWord> {
        self.read_to(self.places.producer, take)
    }

    fn read_to(&mut self, word: usize, mut take: impl FnMut(Frame)) -> Result<(), ImpossibleWord> {
        // Acquire, with the release of the process: it does not read the chunks any more.
        let end = self.places.memory.load(word, Ordering::Acquire);
        if end.wrapping_sub(self.read) > self.places.count {
            return Err(ImpossibleWord(end));
        }
        while self.read != end {
            take(Frame::read(
                &self.places.memory,
                self.places.place(self.read),
            ));
            self.read = self.read.wrapping_add(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: XdpRingOffset = XdpRingOffset {
        producer: 0,
        consumer: 64,
        desc: 192,
        flags: Some(128),
    };

    fn file() -> rustix::fd::OwnedFd {
        let file = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).expect("made");
        rustix::fs::ftruncate(&file, 4096).expect("sized");
        file
    }

    #[test]
    fn entries_arrive_in_their_order_and_no_more_than_fit() {
        let file = file();
        let mut producer = Producer::<Address>::map(&file, 0, PLACES, 4).expect("mapped");
        let mut consumer = Consumer::<Address>::map(&file, 0, PLACES, 4).expect("mapped");
        let mut next = 0;
        for round in 0..10 {
            let pushed = (0..5).filter(|index| producer.push(Address(round * 4 + index)));
            assert_eq!(pushed.count(), 4);
            assert!(consumer.is_empty(), "nothing was published");
            assert_eq!(consumer.pop(), None);
            producer.publish();
            assert!(!consumer.is_empty());
            while let Some(entry) = consumer.pop() {
                assert_eq!(entry, Address(next));
                next += 1;
            }
            assert!(!producer.push(Address(0)), "none was released");
            consumer.release();
        }
        assert_eq!(next, 40);
    }

    #[test]
    fn ring_returns_each_chunk_once_and_refuses_bad_words() {
        let file = file();
        let mut producer = Producer::<Frame>::map(&file, 0, PLACES, 4).expect("mapped");
        let mut consumer = Consumer::<Frame>::map(&file, 0, PLACES, 4).expect("mapped");
        let mut observer = Observer::map(&file, 0, PLACES, 4).expect("mapped");
        let frame = |address| Frame { address, bytes: 60 };
        (0..3).for_each(|address| assert!(producer.push(frame(address))));
        producer.publish();
        assert_eq!(consumer.pop(), Some(frame(0)));
        let mut seen = Vec::new();
        observer
            .given_back(|frame| seen.push(frame))
            .expect("sound");
        assert_eq!((seen.len(), observer.held()), (0, 3), "none was released");
        consumer.release();
        observer
            .given_back(|frame| seen.push(frame))
            .expect("sound");
        observer
            .given_back(|frame| seen.push(frame))
            .expect("sound");
        assert_eq!(seen, [frame(0)]);
        assert_eq!(observer.held(), 2);
        observer.left_over(|frame| seen.push(frame)).expect("sound");
        assert_eq!(seen, [frame(0), frame(1), frame(2)]);
        consumer.places.memory.store(64, 100, Ordering::Relaxed);
        let refused = observer.given_back(|_| panic!("nothing"));
        assert_eq!(refused, Err(ImpossibleWord(100)));
        producer.places.memory.store(0, 100, Ordering::Relaxed);
        assert_eq!(observer.held(), 4, "the ring has no more");
    }

    #[test]
    fn frame_in_pieces_is_pushed_whole_or_not_at_all() {
        let file = file();
        let mut producer = Producer::<Frame>::map(&file, 0, PLACES, 4).expect("mapped");
        let mut consumer = Consumer::<Frame>::map(&file, 0, PLACES, 4).expect("mapped");
        let pieces = [1, 2, 3].map(|address| Frame { address, bytes: 9 });
        assert!(producer.push_pieces(&pieces));
        assert!(!producer.push_pieces(&pieces[..2]), "one is free");
        assert!(producer.push_pieces(&pieces[..1]));
        producer.publish();
        let options = |index: usize| {
            let at = PLACES.desc as usize + index * 16 + 12;
            producer.places.memory.load(at, Ordering::Relaxed)
        };
        assert_eq!([0, 1, 2, 3].map(options), [1, 1, 0, 0]);
        let popped: Vec<_> = std::iter::from_fn(|| consumer.pop()).collect();
        assert_eq!(popped[..3], pieces);
        consumer.release();
        assert!(producer.push_pieces(&pieces));
    }

    #[test]
    fn flag_says_whether_the_kernel_is_to_be_called() {
        let file = file();
        let producer = Producer::<Frame>::map(&file, 0, PLACES, 4).expect("mapped");
        assert!(!producer.needs_wakeup());
        producer.places.memory.store(128, 1, Ordering::Relaxed);
        assert!(producer.needs_wakeup());
    }
}
