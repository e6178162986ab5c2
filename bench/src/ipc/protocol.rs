//! What hythe's protocol costs at the least: the stores of a lease, a publishing, a take and a
//! release, in the order of `spec/pool.md`, and nothing else. No lock, no reference count, no check
//! of the peer, no recovery: what the product costs beyond it is the product's.
//!
//! Written apart from the product on purpose, on the floor's packed ring.

use std::os::fd::{AsFd, OwnedFd};

use hythe_memory::{Access, Mapped, Memory, Ordering, full_barrier};
use hythe_node::TrustPeers;

use super::case::{Case, Pattern};
use super::end::End;
use super::floor::reserve;
use super::ring::{CAPACITY, Entry, Incoming, Kind, Outgoing, RING_BYTES};
use super::side::Side;
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout};
use crate::payload::{fill, is_message};

const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();
const PAGE_BYTES: usize = 4096;
const LINE: usize = 64;
/// More than can be under way: a lease always finds one.
const SLOTS: u32 = 2 * CAPACITY;
// What a side writes: its journal, its counters, how many of it sleep, and what it holds, each at a
// distance from what the other reads.
const COUNTERS: usize = 128;
const SLEEPERS: usize = 256;
const HOLDS: usize = 384;
const SIDE_BYTES: usize = HOLDS + SLOTS as usize * 8;
const CELLS: usize = 2 * (RING_BYTES + SIDE_BYTES);
const PAYLOADS: usize = (CELLS + SLOTS as usize * LINE).next_multiple_of(PAGE_BYTES);
/// A lease raises the generation, above 40 bits, and holds one reference.
const LEASED: u64 = (1 << 40) + 1;
const REFERENCES: u64 = 0xFFF;

/// Steps, as the journal names them.
const LEASE: u32 = 1;
const RELEASE: u32 = 3;
const SEND: u32 = 4;
const TAKE: u32 = 5;

const fn own(side: Side) -> usize {
    2 * RING_BYTES + side as usize * SIDE_BYTES
}

const fn cell(slot: u32) -> usize {
    CELLS + slot as usize * LINE
}

/// The memory for a run.
pub(super) fn make_memory(size: usize) -> Result<OwnedFd, BenchError> {
    reserve(PAYLOADS + SLOTS as usize * size.next_multiple_of(LINE))
}

/// One end of it.
#[derive(Debug)]
pub(super) struct ProtocolEnd {
    pattern: Pattern,
    size: usize,
    memory: Mapped,
    /// Where its own words are, and the other side's.
    own: usize,
    other: usize,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Looked at first: what became free last.
    next: u32,
    step: u32,
    sent: u64,
    taken: u64,
    held: Entry,
    lookout: Lookout,
}

impl ProtocolEnd {
    pub(super) fn open(
        memory: impl AsFd,
        side: Side,
        case: Case,
        size: usize,
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        let bytes = PAYLOADS + SLOTS as usize * size.next_multiple_of(LINE);
        let memory = Mapped::file(memory, 0, bytes.next_multiple_of(PAGE_BYTES), Access::Write)?;
        let _ = memory.prefault();
        let mut end = Self {
            pattern: case.pattern,
            size,
            memory,
            own: own(side),
            other: own(side.other()),
            outgoing: Outgoing::new(Kind::Packed, side as usize * RING_BYTES),
            incoming: Incoming::new(Kind::Packed, side.other() as usize * RING_BYTES),
            next: 0,
            step: 0,
            sent: 0,
            taken: 0,
            held: [0; 4],
            lookout,
        };
        if matches!((case.pattern, side), (Pattern::Untouched, Side::Near)) {
            end.held = end.lease();
            fill(
                end.memory.trusted_mut(TRUST, end.payload(end.held), size),
                0,
            );
        }
        Ok(end)
    }

    const fn payload(&self, [slot, ..]: Entry) -> usize {
        PAYLOADS + slot as usize * self.size.next_multiple_of(LINE)
    }

    const fn hold(&self, slot: u32) -> usize {
        self.own + HOLDS + slot as usize * 8
    }

    /// Notes a step; one on a cell has a number and says what it does to it.
    #[inline(always)]
    fn begin(&self, memory: impl Memory, operation: u32, slot: u32, before: u64, position: u32) {
        let word = |index: usize, value| {
            memory.store(self.own + index * 4, value, Ordering::Relaxed);
        };
        if matches!(operation, LEASE | RELEASE) {
            memory.store(self.own + 4, self.step, Ordering::Release);
            word(3, 1);
            word(8, 0);
        }
        word(2, slot);
        memory.store_cell(self.own + 16, before, Ordering::Relaxed);
        word(6, 0);
        word(7, position);
        memory.store(self.own, operation, Ordering::Release);
    }

    /// The own hold, and the end of the step.
    #[inline(always)]
    fn end(&self, memory: impl Memory, slot: u32, hold: u64) {
        memory.store_cell(self.hold(slot), hold, Ordering::Release);
        memory.store(self.own, 0, Ordering::Release);
    }

    #[inline(always)]
    fn lease(&mut self) -> Entry {
        let memory = self.memory.view();
        loop {
            let slot = self.next % SLOTS;
            self.next = slot + 1;
            let free = memory.load_cell(cell(slot), Ordering::Acquire);
            if free & REFERENCES != 0 {
                continue;
            }
            let before = memory.load_cell(self.hold(slot), Ordering::Acquire);
            self.step += 1;
            self.begin(memory, LEASE, slot, before, 0);
            if memory.replace_cell(cell(slot), free, free + LEASED).is_ok() {
                self.end(memory, slot, before + 1);
                let generation = ((free + LEASED) >> 40) as u32;
                return [slot, generation, 0, self.size as u32];
            }
        }
    }

    #[inline(always)]
    fn release(&mut self, slot: u32) {
        let memory = self.memory.view();
        let before = memory.load_cell(self.hold(slot), Ordering::Acquire);
        let mut found = memory.load_cell(cell(slot), Ordering::Acquire);
        self.step += 1;
        self.begin(memory, RELEASE, slot, before, (found >> 40) as u32);
        while let Err(changed) = memory.replace_cell(cell(slot), found, found - 1) {
            found = changed;
        }
        self.end(memory, slot, before - 1);
        self.next = slot;
    }

    /// Moves a reference into the queue.
    #[inline(always)]
    fn push(&mut self, entry: Entry) -> Result<(), BenchError> {
        let mut bounded_wait = BoundedWait::new(&self.lookout);
        let memory = self.memory.view();
        while !self.outgoing.has_capacity(memory) {
            bounded_wait.spin()?;
        }
        let [slot, ..] = entry;
        let before = memory.load_cell(self.hold(slot), Ordering::Acquire);
        self.begin(memory, SEND, slot, before, self.outgoing.tail());
        self.outgoing.push(memory, entry);
        self.end(memory, slot, before.wrapping_sub(1));
        self.sent += 1;
        Ok(())
    }

    /// What follows a message, or a batch: the counters, and a look for sleepers.
    #[inline(always)]
    fn tell(&self) {
        let memory = self.memory.view();
        let counters = self.own + COUNTERS;
        memory.store_cell(counters, self.sent, Ordering::Relaxed);
        memory.store_cell(counters + 8, self.sent, Ordering::Relaxed);
        full_barrier();
        let sleepers = self.other + SLEEPERS;
        if memory.load(sleepers, Ordering::Relaxed) != 0 {
            self.memory.wake(sleepers);
        }
    }

    /// Sends a message without looking for sleepers.
    #[inline(always)]
    fn put(&mut self, number: u64) -> Result<(), BenchError> {
        if self.pattern == Pattern::Untouched {
            return self.push(self.held);
        }
        let entry = self.lease();
        let at = self.payload(entry);
        fill(self.memory.trusted_mut(TRUST, at, self.size), number);
        self.push(entry)
    }

    /// Takes the next message if there is one. Its length, if it is sound.
    #[inline(always)]
    fn take(&mut self, number: u64) -> Result<Option<u32>, BenchError> {
        let memory = self.memory.view();
        let Some(entry) = self.incoming.peek(memory) else {
            return Ok(None);
        };
        let [slot, generation, _, length] = entry;
        let found = memory.load_cell(cell(slot), Ordering::Acquire);
        if length != 0 && (found & REFERENCES == 0 || (found >> 40) as u32 != generation) {
            return Err(BenchError::Damaged { number });
        }
        let before = memory.load_cell(self.hold(slot), Ordering::Acquire);
        self.begin(memory, TAKE, slot, before, self.incoming.head());
        memory.store_cell(self.hold(slot), before.wrapping_add(1), Ordering::Release);
        self.incoming.advance(memory);
        memory.store(self.own, 0, Ordering::Release);
        self.taken += 1;
        let counters = self.own + COUNTERS + LINE;
        memory.store_cell(counters, self.taken, Ordering::Relaxed);
        memory.store_cell(counters + 8, self.taken, Ordering::Relaxed);
        if length != 0 && self.pattern != Pattern::Untouched {
            let at = self.payload(entry);
            if !is_message(self.memory.trusted(TRUST, at, self.size), number) {
                return Err(BenchError::Damaged { number });
            }
            self.release(slot);
        }
        self.held = entry;
        Ok(Some(length))
    }
}

impl End for ProtocolEnd {
    #[inline]
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        self.put(number)?;
        self.tell();
        Ok(())
    }

    #[inline]
    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        loop {
            if let Some(length) = self.take(number)? {
                return Ok(length != 0);
            }
            let mut bounded_wait = BoundedWait::new(&self.lookout);
            while self.incoming.peek(self.memory.view()).is_none() {
                bounded_wait.spin()?;
            }
        }
    }

    fn send_batch(&mut self, first: u64, count: u64) -> Result<(), BenchError> {
        (first..first + count).try_for_each(|number| self.put(number))?;
        self.tell();
        Ok(())
    }

    fn receive_batch(&mut self, first: u64, count: u64) -> Result<u64, BenchError> {
        let mut received = u64::from(self.receive(first)?);
        while received > 0 && received < count {
            match self.take(first + received)? {
                Some(length) if length != 0 => received += 1,
                _ => break,
            }
        }
        Ok(received)
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        let at = self.payload(self.held);
        let is_untouched = self.pattern == Pattern::Untouched;
        if is_untouched && !is_message(self.memory.trusted(TRUST, at, self.size), 0) {
            return Err(BenchError::Damaged { number: 0 });
        }
        self.push([0; 4])?;
        self.tell();
        Ok(())
    }
}
