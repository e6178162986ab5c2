//! A peer that writes anything anywhere at any moment, as memory that changes between two accesses
//! of an honest member.
//!
//! Used by `hostile.rs` with seeded choices, and by `fuzz/` with the fuzzer's bytes. One
//! thread: a seed is a run that can be had again. What no honest member may do, whatever it reads:
//! panic, access anything outside the control file (the memory panics then), or go on for ever (the
//! budget of accesses panics then).

#![allow(dead_code, reason = "each user uses its part")]

pub(crate) mod choices;
pub(crate) mod member;
pub(crate) mod words;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use choices::Choices;
use hythe_abi::pool::ControlLayout;
use hythe_memory::{Mapped, Memory, Ordering};

/// Accesses that one operation may need: the longest honest one, and a cell that somebody keeps
/// changing (65,536 tries).
pub(crate) const ACCESSES_MAX: u64 = 3_000_000;

/// How the peer goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerFault {
    /// It leaves the memory alone.
    Quiet,
    /// Now and then, anywhere.
    Scattered,
    /// Whatever word is being looked at, just before, often.
    Aimed,
    /// The cell of every swap, just before it: no swap ever succeeds at the first try.
    Relentless,
    /// The same, always in one bit that decides nothing: no swap ever succeeds.
    Stubborn,
}

/// The peer.
#[derive(Debug)]
pub(crate) struct Peer {
    layout: ControlLayout,
    choices: RefCell<Choices>,
    fault: Cell<PeerFault>,
    /// Accesses until it writes next.
    pause: Cell<u32>,
    accesses: Cell<u64>,
    scribbles: Cell<u64>,
}

impl Peer {
    pub(crate) fn new(layout: ControlLayout, choices: Choices) -> Rc<Self> {
        Rc::new(Self {
            layout,
            choices: RefCell::new(choices),
            fault: Cell::new(PeerFault::Quiet),
            pause: Cell::new(0),
            accesses: Cell::new(0),
            scribbles: Cell::new(0),
        })
    }

    pub(crate) fn behave(&self, fault: PeerFault) {
        self.fault.set(fault);
        self.accesses.set(0);
    }

    pub(crate) fn below(&self, limit: u32) -> u32 {
        self.choices.borrow_mut().below(limit)
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.choices.borrow().is_exhausted()
    }

    /// Words it has written so far.
    pub(crate) fn scribbles(&self) -> u64 {
        self.scribbles.get()
    }

    /// Before an access of the member.
    fn step(&self, memory: &Mapped, at: usize) {
        self.accesses.set(self.accesses.get() + 1);
        assert!(
            self.accesses.get() < ACCESSES_MAX,
            "the member goes on for ever; last at {at}"
        );
        let fault = self.fault.get();
        if !matches!(fault, PeerFault::Scattered | PeerFault::Aimed) {
            return;
        }
        if self.pause.get() > 0 {
            self.pause.set(self.pause.get() - 1);
            return;
        }
        self.pause.set(self.below(256));
        let target = match fault {
            PeerFault::Aimed => at & !3,
            _ => self.anywhere(),
        };
        self.scribble(memory, target);
    }

    /// Before a swap of the member.
    fn step_swap(&self, memory: &Mapped, at: usize) {
        self.step(memory, at);
        let bit = match self.fault.get() {
            // The lowest byte, which is mostly a status, stays: the member believes that it only
            // has to try again.
            PeerFault::Relentless => 8 + self.below(56),
            // Of a mark in a counted cell; of the number of who frees a connection, which nobody
            // does yet.
            PeerFault::Stubborn => 39,
            PeerFault::Quiet | PeerFault::Scattered | PeerFault::Aimed => return,
        };
        let found = memory.load_cell(at, Ordering::Relaxed);
        memory.store_cell(at, found ^ 1 << bit, Ordering::Relaxed);
        self.scribbles.set(self.scribbles.get() + 1);
    }

    pub(crate) fn scribble_anywhere(&self, memory: &Mapped) {
        self.scribble(memory, self.anywhere());
    }

    fn anywhere(&self) -> usize {
        words::anywhere(&self.layout, &mut self.choices.borrow_mut())
    }

    fn scribble(&self, memory: &Mapped, at: usize) {
        let found = memory.load(at, Ordering::Relaxed);
        let value = words::lie(found, &mut self.choices.borrow_mut());
        memory.store(at, value, Ordering::Relaxed);
        self.scribbles.set(self.scribbles.get() + 1);
    }
}

/// Memory as an honest member sees it beside such a peer.
#[derive(Clone, Debug)]
pub(crate) struct FaultyMemory {
    pub(crate) memory: Mapped,
    pub(crate) peer: Rc<Peer>,
}

impl Memory for FaultyMemory {
    fn bytes(&self) -> usize {
        self.memory.bytes()
    }
    fn load(&self, at: usize, order: Ordering) -> u32 {
        self.peer.step(&self.memory, at);
        self.memory.load(at, order)
    }
    fn store(&self, at: usize, value: u32, order: Ordering) {
        self.peer.step(&self.memory, at);
        self.memory.store(at, value, order);
    }
    fn add(&self, at: usize, value: u32, order: Ordering) -> u32 {
        self.peer.step(&self.memory, at);
        if self.peer.fault.get() == PeerFault::Relentless {
            // The number after which a counter comes round.
            self.memory.store(at, u32::MAX, Ordering::Relaxed);
        }
        self.memory.add(at, value, order)
    }
    fn load_cell(&self, at: usize, order: Ordering) -> u64 {
        self.peer.step(&self.memory, at);
        self.memory.load_cell(at, order)
    }
    fn store_cell(&self, at: usize, value: u64, order: Ordering) {
        self.peer.step(&self.memory, at);
        self.memory.store_cell(at, value, order);
    }
    fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64> {
        self.peer.step_swap(&self.memory, at);
        self.memory.replace_cell(at, current, new)
    }
}
