//! Slots of a pool that are filled from front to back, and published in parts while there is still
//! space behind them.
//!
//! What a receiver puts on a channel lies in them: datagrams as the kernel wrote them
//! ([`receive::memory`](crate::receive::memory)), and units that were put together from several
//! ([`depacketizer_for_channel`]). The [channel's sink](crate::sink::channel) finds a unit here by
//! its address and publishes that part of the slot: nothing is copied.
//!
//! A slot is ours until it is full and the last subscriber has released the last part of it. There
//! are never more than [`Slots::slots_max`], however slow somebody is: then, or when the pool has
//! none left, whoever wants to fill one is told so, and does with memory of its own, from which the
//! sink copies. [`Slots::counts`] says how often.
//!
//! Allocates two handles for each slot, nothing for a packet. Never waits.

mod memory;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hythe_node::{Lease, Node, NodeError, Publisher, RegionIndex, Sample, SlotClass, TrustPeers};
use hythe_sys::udp_receive::BATCH_BYTES;

pub use memory::{SlotMemory, depacketizer_for_channel};

/// Most bytes of a slot that is filled with many batches or units: larger ones are few, and for
/// those who need them. In small ones a batch of one packet, as a paced stream has them, would take
/// as much as one that the kernel joined.
const SLOT_BYTES_MAX: usize = 2 << 20;
/// Bytes of all slots together: as much as a receiver's own buffer has.
const BYTES_MAX: usize = 6 << 20;
/// Of all slots of a size not more than one in so many: the pool is not ours.
const SHARE: u32 = 4;
/// With one slot, nothing could be received while somebody reads.
const SLOTS_MIN: usize = 2;
/// After the pool had none left, it is asked again so many times later: a refusal costs more than a
/// copy.
const REST: u32 = 32;
/// So many references to a slot are taken at once: each taking costs about as much as copying a
/// packet of telephone audio.
const SPARE: u32 = 32;
/// Where the next batch or unit begins: a cache line of its own.
const ALIGNED: usize = 64;
/// Memory comes and goes by at least so much.
const PAGE_BYTES: usize = 4096;

/// What became of what was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were published where they lay.
    pub in_place: u64,
    /// Messages that were copied into a slot of their own.
    pub copied: u64,
    /// Messages that were not published, because the pool had no slot left for them.
    pub dropped: u64,
    /// Messages that were not published, because they are longer than any slot of the pool.
    pub too_large: u64,
    /// Bytes of units that were moved on to another slot, because the one they began in was full.
    pub moved_bytes: u64,
    /// Batches and units for which there was no slot, because subscribers held all that may be
    /// ours.
    pub none_back: u64,
    /// Batches and units for which there was no slot, because the pool had none left.
    pub none_free: u64,
}

/// Why there is no slot to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All that may be ours are held.
    NoneBack,
    /// The pool has none left, or none that is large enough.
    NoneFree,
}

/// The slots of one stream. Clones are the same slots.
#[derive(Clone, Debug)]
pub struct Slots {
    shared: Arc<Mutex<Shared>>,
    largest_bytes: usize,
    trust: TrustPeers,
}

#[derive(Debug)]
struct Shared {
    node: Node,
    region: RegionIndex,
    slot_bytes: usize,
    slots_max: usize,
    held: Vec<Held>,
    /// How many times the pool is not asked.
    rest: u32,
    counts: Counts,
}

/// A slot, and where it is mapped.
#[derive(Debug)]
struct Held {
    whole: Arc<Sample>,
    from: usize,
    /// References to it that the next parts take.
    spare: Vec<Sample>,
}

impl Held {
    /// Can nobody reach it any more but by this value?
    fn is_back(&self) -> bool {
        let ours = 1 + self.spare.len();
        Arc::strong_count(&self.whole) == 1 && self.whole.references() as usize == ours
    }

    fn part(&mut self, at: usize, bytes: usize) -> Option<Sample> {
        if self.spare.is_empty() {
            self.whole.repeat(SPARE, &mut self.spare).ok()?;
        }
        Some(self.spare.pop()?.narrow(at, bytes))
    }
}

impl Slots {
    /// For what `publisher`, a port of `node`, publishes. None is taken yet. The `trust` is that no
    /// other writer of the pool writes into our slots meanwhile.
    #[must_use]
    pub fn new(node: &Node, publisher: &Publisher, trust: TrustPeers) -> Self {
        let region = publisher.region();
        let classes = node.pool().region(region);
        let classes = classes.map(|region| region.classes).unwrap_or_default();
        let sizes = classes.iter().map(|class| {
            let bytes = class.payload_bytes();
            let share = (class.count / SHARE) as usize;
            (bytes, share.min(BYTES_MAX / bytes.max(1)))
        });
        let fitting = sizes.filter(|(bytes, count)| *bytes >= BATCH_BYTES && *count >= SLOTS_MIN);
        let all: Vec<(usize, usize)> = fitting.collect();
        let moderate = all.iter().rev().find(|(bytes, _)| *bytes <= SLOT_BYTES_MAX);
        // Without one, everything is copied.
        let (slot_bytes, slots_max) = *moderate.or(all.first()).unwrap_or(&(BATCH_BYTES, 0));
        let largest = classes.iter().map(SlotClass::payload_bytes).max();
        let shared = Shared {
            node: node.clone(),
            region,
            slot_bytes,
            slots_max,
            held: Vec::with_capacity(slots_max),
            rest: 0,
            counts: Counts::default(),
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
            largest_bytes: largest.unwrap_or(0),
            trust,
        }
    }

    /// Not more than so many: 0 copies everything, to measure what that costs.
    #[must_use]
    pub fn at_most(self, slots: usize) -> Self {
        let mut shared = self.lock();
        shared.slots_max = shared.slots_max.min(slots);
        drop(shared);
        self
    }

    /// Most slots that are held at any time, whoever reads them.
    #[must_use]
    pub fn slots_max(&self) -> usize {
        self.lock().slots_max
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Bytes of the largest slot that there may be.
    pub(crate) fn largest_bytes(&self) -> usize {
        self.largest_bytes
    }

    /// What reading them in place is about.
    pub(crate) fn trust(&self) -> TrustPeers {
        self.trust
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.lock().counts);
    }

    pub(crate) fn count_refusal(&self, refusal: Refusal) {
        self.count(|counts| match refusal {
            Refusal::NoneBack => counts.none_back += 1,
            Refusal::NoneFree => counts.none_free += 1,
        });
    }

    /// A slot with space for `bytes` at least.
    pub(crate) fn open(&self, bytes: usize) -> Result<Filling, Refusal> {
        let mut shared = self.lock();
        shared.held.retain(|held| !held.is_back());
        if shared.rest > 0 || shared.slots_max == 0 {
            shared.rest = shared.rest.saturating_sub(1);
            return Err(Refusal::NoneFree);
        }
        if shared.held.len() >= shared.slots_max {
            return Err(Refusal::NoneBack);
        }
        if bytes > self.largest_bytes {
            return Err(Refusal::NoneFree);
        }
        let Some((lease, whole)) = shared.lease(bytes) else {
            shared.rest = REST;
            return Err(Refusal::NoneFree);
        };
        let whole = Arc::new(whole);
        shared.held.push(Held {
            from: whole.as_slice(self.trust).as_ptr().addr(),
            whole: Arc::clone(&whole),
            spare: Vec::with_capacity(SPARE as usize),
        });
        Ok(Filling {
            lease,
            whole,
            filled: 0,
            trust: self.trust,
        })
    }

    /// A sample of where `pieces` lie one behind the other, each behind the bytes of `front`;
    /// `None`: not all of them lie so in one of these slots, or there are too many references to
    /// it.
    pub(crate) fn part(&self, pieces: &[&[u8]], front: &[u8]) -> Option<Sample> {
        let start = pieces.first()?.as_ptr().addr().checked_sub(front.len())?;
        let mut end = start;
        for piece in pieces {
            if piece.as_ptr().addr() != end + front.len() {
                return None;
            }
            end += front.len() + piece.len();
        }
        let mut shared = self.lock();
        let is_inside = |held: &&Held| start >= held.from && end <= held.from + held.whole.len();
        // The last one is being filled.
        let index = shared.held.iter().rposition(|held| is_inside(&held))?;
        let held = &mut shared.held[index];
        let mut at = start - held.from;
        let whole = held.whole.as_slice(self.trust);
        for piece in pieces {
            if !whole[at..].starts_with(front) {
                return None;
            }
            at += front.len() + piece.len();
        }
        let part = held.part(start - held.from, end - start)?;
        shared.counts.in_place += 1;
        Some(part)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Whole after every step: who panics here has changed nothing.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// A slot of the size that was chosen, or of the one that is needed. None of a larger kind in
    /// its place: those are few.
    fn lease(&self, bytes: usize) -> Option<(Lease, Sample)> {
        let wanted = bytes.max(self.slot_bytes);
        let lease = self.node.try_lease_in(self.region, wanted).ok()?;
        let is_fair = lease.capacity() == self.slot_bytes || bytes > self.slot_bytes;
        let whole = lease.share().ok()?;
        is_fair.then_some((lease, whole))
    }
}

/// A slot that is being filled.
#[derive(Debug)]
pub(crate) struct Filling {
    lease: Lease,
    whole: Arc<Sample>,
    filled: usize,
    trust: TrustPeers,
}

impl Filling {
    /// What is behind that which is filled.
    pub(crate) fn free_capacity(&mut self) -> &mut [u8] {
        self.lease.rest_mut(self.filled, self.trust)
    }

    /// The first `bytes` of the free capacity are there, and never written again; where they begin.
    pub(crate) fn fill(&mut self, bytes: usize) -> usize {
        let start = self.filled;
        let end = (start + bytes).next_multiple_of(ALIGNED);
        self.filled = end.min(self.lease.capacity());
        start
    }

    /// Bytes of free capacity.
    pub(crate) fn left(&self) -> usize {
        self.lease.capacity() - self.filled
    }

    /// The slot, to read.
    pub(crate) fn whole(&self) -> &Arc<Sample> {
        &self.whole
    }

    /// Is the pool whole, as far as the first [`BATCH_BYTES`] of the free capacity go? Touches
    /// them: where the kernel found no memory, it has told its caller and nobody else.
    ///
    /// # Errors
    /// [`NodeError::PoolLost`].
    pub(crate) fn check_whole(&self) -> Result<(), NodeError> {
        let end = self.lease.capacity().min(self.filled + BATCH_BYTES);
        for at in (self.filled..end).step_by(PAGE_BYTES) {
            self.lease.read(at, &mut [0]);
        }
        self.lease.check_whole()
    }

    /// The first `bytes` of the free capacity.
    pub(crate) fn begun(&self, bytes: usize) -> &[u8] {
        &self.whole.as_slice(self.trust)[self.filled..self.filled + bytes]
    }
}
