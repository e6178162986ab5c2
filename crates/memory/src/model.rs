//! Memory for loom models: the same facade over loom's atomics, small, each offset used at one
//! width.

#![allow(
    unsafe_code,
    reason = "this is the island: the tracker of plain words is shared between threads"
)]

use core::ops::Range;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::Memory;

/// Words and cells that loom schedules. Offsets are those the code under test computes; only those
/// used need to be small.
#[derive(Debug)]
pub struct ModelMemory {
    words: Vec<AtomicU32>,
    cells: Vec<AtomicU64>,
    plain: Range<usize>,
    accesses: Vec<Access>,
}

/// Tells loom of reads and writes of a word that others must order, as if it were plain memory.
#[derive(Debug)]
struct Access(UnsafeCell<()>);

// SAFETY: there is no data in the cell, and nothing ever looks behind its pointer; loom tracks
// accesses from any thread.
unsafe impl Sync for Access {}

impl ModelMemory {
    /// Zeroed memory of `words` words, the first `cells` x 8 bytes of which can also be used as
    /// cells (never both).
    #[must_use]
    pub fn new(words: usize, cells: usize) -> Self {
        Self::with_plain(words, cells, 0..0)
    }

    /// The same, with bytes that count as plain memory (queue entries, payload): relaxed words that
    /// only other words put in order. Two accesses of one of them that nothing orders, one of them
    /// a write, fail the model.
    #[must_use]
    pub fn with_plain(words: usize, cells: usize, plain: Range<usize>) -> Self {
        Self {
            words: (0..words).map(|_| AtomicU32::new(0)).collect(),
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            accesses: plain
                .clone()
                .step_by(4)
                .map(|_| Access(UnsafeCell::new(())))
                .collect(),
            plain,
        }
    }

    fn access(&self, at: usize) -> Option<&UnsafeCell<()>> {
        self.plain
            .contains(&at)
            .then(|| &self.accesses[(at - self.plain.start) / 4].0)
    }
}

impl Memory for ModelMemory {
    fn bytes(&self) -> usize {
        self.words.len() * 4
    }
    fn load(&self, at: usize, order: Ordering) -> u32 {
        if let Some(access) = self.access(at) {
            access.with(|_| ());
        }
        self.words[at / 4].load(order)
    }
    fn store(&self, at: usize, value: u32, order: Ordering) {
        if let Some(access) = self.access(at) {
            access.with_mut(|_| ());
        }
        self.words[at / 4].store(value, order);
    }
    fn add(&self, at: usize, value: u32, order: Ordering) -> u32 {
        self.words[at / 4].fetch_add(value, order)
    }
    fn load_cell(&self, at: usize, order: Ordering) -> u64 {
        self.cells[at / 8].load(order)
    }
    fn store_cell(&self, at: usize, value: u64, order: Ordering) {
        self.cells[at / 8].store(value, order);
    }
    fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64> {
        self.cells[at / 8]
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }
}
