//! Which node of this process a port or a buffer is of.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ffi_guard::{Process, Refusal};

/// What everything that was opened through a node, leased or taken by it, knows of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) process: Process,
    /// Different for each node of this process.
    number: u64,
    pub(crate) trusts: bool,
}

impl Origin {
    /// Of the next node.
    pub(crate) fn new(trusts: bool) -> Self {
        static NODES: AtomicU64 = AtomicU64::new(0);
        Self {
            process: Process::own(),
            number: NODES.fetch_add(1, Ordering::Relaxed),
            trusts,
        }
    }

    /// Is that buffer of the node of this port? The facade takes it for an error of the program,
    /// and panics.
    pub(crate) fn check(self, buffer: Self) -> Result<(), Refusal> {
        if self.number == buffer.number {
            return Ok(());
        }
        Err(Refusal::argument(
            "this buffer is another node's: it is published by the node that leased or took it",
        ))
    }
}
