//! The floor: a ring of descriptors each way, the better of two, and slots to write to, in memory
//! that both processes map. No ledger, no recovery, no check of the peer; what a system with those
//! duties costs more is their price.

use std::os::fd::{AsFd, OwnedFd};

use hythe_memory::{Access, Mapped};
use hythe_node::TrustPeers;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use super::case::{Case, Pattern, Wait};
use super::end::{End, read_for};
use super::reuse::ReuseDistance;
use super::ring::{CAPACITY, Entry, Incoming, Kind, Outgoing, RING_BYTES};
use super::side::Side;
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::payload::{fill, is_message};

const PAGE_BYTES: usize = 4096;
const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

/// Where everything stands: a ring for each side, then the slots.
///
/// There and back, both sides write to one slot: what was just read is in the writer's cache, and
/// no other choice of slots was as quick (a slot for each side cost three times as much at 64 KiB).
#[derive(Clone, Copy, Debug)]
struct Layout {
    size: usize,
    /// One, or as many as can be under way.
    slots: u32,
}

impl Layout {
    const fn new(case: Case, size: usize) -> Self {
        let slots = match (case.pattern, case.pattern.stream_depth()) {
            // Beside those in the queue one that is written and one that is read.
            (_, Some(depth)) => depth + 2,
            (Pattern::Untouched | Pattern::Filled | Pattern::Request, None) => 1,
            (_, None) => CAPACITY,
        };
        Self { size, slots }
    }

    const fn ring(side: Side) -> usize {
        side as usize * RING_BYTES
    }

    const fn slot(self, slot: u32) -> usize {
        (2 * RING_BYTES).next_multiple_of(PAGE_BYTES) + slot as usize * self.size
    }

    const fn bytes(self) -> usize {
        self.slot(self.slots).next_multiple_of(PAGE_BYTES)
    }
}

/// The memory for a run; it has no name, and goes with the last of the two processes.
pub(super) fn make_memory(case: Case, size: usize) -> Result<OwnedFd, BenchError> {
    reserve(Layout::new(case, size).bytes())
}

/// Memory for both processes.
pub(super) fn reserve(bytes: usize) -> Result<OwnedFd, BenchError> {
    let memory = memfd_create("hythe-bench-floor", MemfdFlags::CLOEXEC)?;
    // Reserved at once, like the pool's: pages that come one by one at first touch were a tenth
    // slower.
    let bytes = bytes.next_multiple_of(PAGE_BYTES) as u64;
    fallocate(&memory, FallocateFlags::empty(), 0, bytes)?;
    Ok(memory)
}

/// One end of it.
#[derive(Debug)]
pub(super) struct FloorEnd {
    case: Case,
    layout: Layout,
    memory: Mapped,
    outgoing: Outgoing,
    incoming: Incoming,
    /// What was received last, to be forwarded.
    held: Entry,
    reuse: ReuseDistance,
    lookout: Lookout,
}

impl FloorEnd {
    pub(super) fn open(
        memory: impl AsFd,
        (side, kind): (Side, Kind),
        case: Case,
        size: usize,
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        let layout = Layout::new(case, size);
        let memory = Mapped::file(memory, 0, layout.bytes(), Access::Write)?;
        let _ = memory.prefault();
        if matches!((case.pattern, side), (Pattern::Untouched, Side::Near)) {
            fill(memory.trusted_mut(TRUST, layout.slot(0), size), 0);
        }
        // Where fewer slots than entries are written in turn, they bound what is under way.
        let limit = match layout.slots {
            1 => CAPACITY,
            slots => slots,
        };
        Ok(Self {
            case,
            layout,
            memory,
            outgoing: Outgoing::new(kind, Layout::ring(side)).limited(limit),
            incoming: Incoming::new(kind, Layout::ring(side.other())),
            held: [0, 1, 0, size as u32],
            reuse: ReuseDistance::default(),
            lookout,
        })
    }

    #[inline]
    fn push(&mut self, entry: Entry) -> Result<(), BenchError> {
        let signal = self.outgoing.push(self.memory.view(), entry);
        if self.case.wait == Wait::Block {
            self.memory.wake(signal);
        }
        Ok(())
    }

    #[inline]
    fn wait_for_capacity(&mut self) -> Result<(), BenchError> {
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        while !self.outgoing.has_capacity(self.memory.view()) {
            bounded_wait.spin()?;
        }
        Ok(())
    }

    #[inline]
    fn wait_for_entry(&mut self) -> Result<Entry, BenchError> {
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        loop {
            if let Some(entry) = self.incoming.peek(self.memory.view()) {
                return Ok(entry);
            }
            if self.case.wait == Wait::Block {
                let (at, value) = self.incoming.empty();
                self.memory.wait(at, value, NAP);
                if self.incoming.peek(self.memory.view()).is_none() {
                    bounded_wait.look_up()?;
                }
            } else {
                bounded_wait.spin()?;
            }
        }
    }
}

impl End for FloorEnd {
    #[inline]
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        self.wait_for_capacity()?;
        if self.case.pattern == Pattern::Untouched {
            return self.push(self.held);
        }
        let Layout { size, slots, .. } = self.layout;
        // Fits: the number of slots does.
        let slot = (number % u64::from(slots)) as u32;
        let at = self.layout.slot(slot);
        if self.case.pattern.stream_depth().is_some() {
            self.reuse.wrote(at);
        }
        fill(self.memory.trusted_mut(TRUST, at, size), number);
        self.push([slot, 1, 0, size as u32])
    }

    #[inline]
    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        let entry = self.wait_for_entry()?;
        let [slot, _, _, length] = entry;
        if length != 0 && self.case.pattern != Pattern::Untouched {
            let (at, size) = (self.layout.slot(slot), self.layout.size);
            let read = || is_message(self.memory.trusted(TRUST, at, size), number);
            if !read_for(self.case, read) {
                return Err(BenchError::Damaged { number });
            }
        }
        self.held = entry;
        self.incoming.advance(self.memory.view());
        Ok(length != 0)
    }

    fn reuse_slots(&self) -> Option<f64> {
        self.reuse.slots()
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        let (at, size) = (self.layout.slot(0), self.layout.size);
        let is_untouched = self.case.pattern == Pattern::Untouched;
        if is_untouched && !is_message(self.memory.trusted(TRUST, at, size), 0) {
            return Err(BenchError::Damaged { number: 0 });
        }
        self.wait_for_capacity()?;
        self.push([0; 4])
    }
}
