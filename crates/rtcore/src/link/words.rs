//! The words of a link, as Linux reads and writes them.
//!
//! Every store passes here, so that a test can number them and die behind each
//! ([`call_at_each_store`]).

use std::sync::OnceLock;

use hythe_memory::{Mapped, Memory, Ordering, read_name};

static AT_EACH_STORE: OnceLock<fn()> = OnceLock::new();

/// Has a function called behind every store of this process into words of any link. For the kill
/// sweep: it may end the process. Once set it stays.
pub fn call_at_each_store(hook: fn()) {
    // A second one would number the same stores twice: the first stays.
    let _ = AT_EACH_STORE.set(hook);
}

fn stored() {
    if let Some(hook) = AT_EACH_STORE.get() {
        hook();
    }
}

/// Both sections of a link, mapped.
#[derive(Clone, Debug)]
pub(super) struct Words(Mapped);

impl Words {
    pub(super) const fn new(memory: Mapped) -> Self {
        Self(memory)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    pub(super) fn load(&self, at: usize, order: Ordering) -> u32 {
        self.0.load(at, order)
    }

    pub(super) fn store(&self, at: usize, value: u32, order: Ordering) {
        self.0.store(at, value, order);
        stored();
    }

    /// Several processes raise one word: atomically among them, and not read-modify-write for the
    /// core, which only reads it.
    pub(super) fn raise(&self, at: usize) {
        self.0.add(at, 1, Ordering::Release);
        stored();
    }

    pub(super) fn name(&self, at: usize, bytes: usize) -> String {
        read_name(&self.0, at, bytes)
    }
}
