//! Death by SIGKILL in front of a chosen store into mapped memory: for tests of recovery with real
//! processes.
//!
//! Only with the feature `kill-points`, which no program but tests turns on. Stores are numbered
//! per thread, from the moment that the thread asks for it; a swap counts whether or not it
//! succeeds. Never unwinds, never runs a destructor: what it leaves behind is what `kill -9`
//! leaves.

use core::cell::Cell;

use rustix::process::{Signal, getpid, kill_process};

thread_local! {
    /// Stores of this thread since [`arm`].
    static STORES: Cell<u32> = const { Cell::new(0) };
    /// The number of the store that is not reached any more; 0: none.
    static DIES_BEFORE: Cell<u32> = const { Cell::new(0) };
}

/// Numbers the stores of this thread from 1 on, and kills the process in front of number
/// `dies_before` (0: of none).
pub fn arm(dies_before: u32) {
    STORES.set(0);
    DIES_BEFORE.set(dies_before);
}

/// Stores of this thread since [`arm`]. No death is in front of any later one.
#[must_use]
pub fn disarm() -> u32 {
    DIES_BEFORE.set(0);
    STORES.get()
}

#[inline]
pub(crate) fn step() {
    let store = STORES.get().wrapping_add(1);
    STORES.set(store);
    if store == DIES_BEFORE.get() {
        // A process can always kill itself; it does not come back from this call.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
