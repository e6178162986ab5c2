//! The tables of a pool: who takes part, which channels, ports and connections there are.
//!
//! [`Tables`] reads the records of a control file, and checks them: no number that a peer wrote
//! leads outside a table. Records are made and freed by a [`Member`](crate::Member); only words
//! with one writer, such as a port's statistics, and counters of changes are written here. Never
//! touches the ledger.

pub(crate) mod channels;
pub(crate) mod connections;
pub(crate) mod core_counters;
pub(crate) mod ends;
pub(crate) mod indexes;
pub(crate) mod members;
pub(crate) mod missed;
pub(crate) mod ports;
pub(crate) mod questions;
pub(crate) mod queue_segments;

use hythe_abi::pool::ControlLayout;
use hythe_memory::Memory;

use crate::control::Control;

/// The tables of a control file.
#[derive(Debug)]
pub struct Tables<'c, M> {
    control: &'c Control<M>,
}

impl<M> Clone for Tables<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Tables<'_, M> {}

impl<M> Control<M> {
    /// Its tables.
    #[inline(always)]
    pub const fn tables(&self) -> Tables<'_, M> {
        Tables { control: self }
    }
}

impl<'c, M: Memory> Tables<'c, M> {
    #[inline(always)]
    const fn memory(self) -> &'c M {
        self.control.memory()
    }

    #[inline(always)]
    const fn layout(self) -> &'c ControlLayout {
        self.control.layout()
    }
}
