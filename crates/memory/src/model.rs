//! Memory for loom models: the same facade over loom's atomics, small, each offset used at one width.

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::Memory;

/// Words and cells that loom schedules. Offsets are those the code under test computes; only those used need to be small.
#[derive(Debug)]
pub struct ModelMemory {
    words: Vec<AtomicU32>,
    cells: Vec<AtomicU64>,
}

impl ModelMemory {
    /// Zeroed memory of `words` words, the first `cells` x 8 bytes of which can also be used as cells (never both).
    #[must_use]
    pub fn new(words: usize, cells: usize) -> Self {
        Self {
            words: (0..words).map(|_| AtomicU32::new(0)).collect(),
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Memory for ModelMemory {
    fn bytes(&self) -> usize {
        self.words.len() * 4
    }
    fn load(&self, at: usize, order: Ordering) -> u32 {
        self.words[at / 4].load(order)
    }
    fn store(&self, at: usize, value: u32, order: Ordering) {
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
