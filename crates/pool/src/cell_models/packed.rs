//! Memory for the models of this crate.

use core::ops::Range;

use hythe_memory::model::ModelMemory;
use hythe_memory::{Memory, Ordering};

/// The few places of a control file that the steps use, packed: a model pays for every word.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) memory: ModelMemory,
    pub(crate) places: Vec<Range<usize>>,
}

impl Packed {
    fn at(&self, at: usize) -> usize {
        let mut base = 0;
        for place in &self.places {
            if place.contains(&at) {
                return base + at - place.start;
            }
            base += place.len();
        }
        panic!("the model has no word at {at}");
    }
}

impl Memory for Packed {
    fn bytes(&self) -> usize {
        self.memory.bytes()
    }
    fn load(&self, at: usize, order: Ordering) -> u32 {
        self.memory.load(self.at(at), order)
    }
    fn store(&self, at: usize, value: u32, order: Ordering) {
        self.memory.store(self.at(at), value, order);
    }
    fn add(&self, at: usize, value: u32, order: Ordering) -> u32 {
        self.memory.add(self.at(at), value, order)
    }
    fn load_cell(&self, at: usize, order: Ordering) -> u64 {
        self.memory.load_cell(self.at(at), order)
    }
    fn store_cell(&self, at: usize, value: u64, order: Ordering) {
        self.memory.store_cell(self.at(at), value, order);
    }
    fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64> {
        self.memory.replace_cell(self.at(at), current, new)
    }
}
