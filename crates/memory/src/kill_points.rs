//! Death by SIGKILL in front of a chosen store into mapped memory: for tests of recovery with real
//! processes.
//!
//! Only with the feature `kill-points`, which no program but tests turns on. Stores are numbered
//! per thread, from the moment that the thread asks for it, or for all threads of the process
//! together; a swap counts whether or not it succeeds. Never unwinds, never runs a destructor: what
//! it leaves behind is what `kill -9` leaves.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};

thread_local! {
    /// Stores of this thread since [`arm`].
    static STORES: Cell<u32> = const { Cell::new(0) };
    /// The number of the store that is not reached any more; 0: none.
    static DIES_BEFORE: Cell<u32> = const { Cell::new(0) };
}

/// Stores of all threads since [`arm_process`].
static ALL_STORES: AtomicU32 = AtomicU32::new(0);
/// The number of the one of those that is not reached any more; 0: none.
static ALL_DIE_BEFORE: AtomicU32 = AtomicU32::new(0);

/// Numbers the stores of all threads from 1 on, as they come, and kills the process in front of
/// number `dies_before` (0: of none).
pub fn arm_process(dies_before: u32) {
    ALL_DIE_BEFORE.store(0, Ordering::Relaxed);
    ALL_STORES.store(0, Ordering::Relaxed);
    ALL_DIE_BEFORE.store(dies_before, Ordering::Relaxed);
}

/// Stores of all threads since [`arm_process`].
#[must_use]
pub fn process_stores() -> u32 {
    ALL_STORES.load(Ordering::Relaxed)
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
    let of_all = ALL_STORES.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    if store == DIES_BEFORE.get() || of_all == ALL_DIE_BEFORE.load(Ordering::Relaxed) {
        // A process can always kill itself; it does not come back from this call.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
