//! Sleeping on an object until it changes.

use std::time::{Duration, Instant};

use hythe_abi::objects::{header, object};
use hythe_memory::{Mapped, Memory, Ordering, full_barrier};
use hythe_pool::{ObjectIndex, ObjectTable};

/// Somebody who waits for a change of an object, as long as this value lives. If it dies, there are
/// wakes that nobody needs.
#[derive(Debug)]
pub(super) struct Sleeper<'t> {
    memory: &'t Mapped,
    changed_at: usize,
    sleepers_at: usize,
}

impl<'t> Sleeper<'t> {
    pub(super) fn new(table: &'t ObjectTable<Mapped>, index: ObjectIndex) -> Self {
        let changed_at = ObjectTable::<Mapped>::changed_at(index);
        let sleeper = Self {
            memory: table.memory(),
            changed_at,
            sleepers_at: sleepers_at(changed_at),
        };
        // Before the look. Whoever changes the object after that look has entered it later, and so
        // sees this.
        sleeper.memory.add(sleeper.sleepers_at, 1, Ordering::AcqRel);
        sleeper
    }

    /// The word to sleep on, as it stands before a look.
    pub(super) fn changed(&self) -> u32 {
        self.memory.load(self.changed_at, Ordering::Acquire)
    }

    /// Looks for a change for so long. True: there was one.
    pub(super) fn spin(&self, seen: u32, limit: Duration) -> bool {
        if limit.is_zero() {
            return false;
        }
        let begun = Instant::now();
        loop {
            for _ in 0..32 {
                if self.changed() != seen {
                    return true;
                }
                std::hint::spin_loop();
            }
            if begun.elapsed() >= limit {
                return false;
            }
        }
    }

    /// Sleeps until a change, for so long at most. True: a signal handler has run.
    pub(super) fn sleep(&self, seen: u32, nap: Duration) -> bool {
        self.memory.wait_interruptible(self.changed_at, seen, nap)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let one_fewer = 1_u32.wrapping_neg();
        self.memory
            .add(self.sleepers_at, one_fewer, Ordering::AcqRel);
    }
}

/// After a change, when the object was left: wakes so many of those who sleep on it, and those who
/// watch all.
pub(super) fn wake(table: &ObjectTable<Mapped>, index: ObjectIndex, most: u32) {
    let (memory, changed_at) = (table.memory(), ObjectTable::<Mapped>::changed_at(index));
    // Its partner is the entering of whoever counted itself among the sleepers before.
    full_barrier();
    if memory.load(sleepers_at(changed_at), Ordering::Relaxed) != 0 {
        memory.wake_some(changed_at, most);
    }
    if memory.load(header::WATCHERS, Ordering::Relaxed) != 0 {
        memory.add(header::CHANGES, 1, Ordering::Release);
        memory.wake(header::CHANGES);
    }
}

const fn sleepers_at(changed_at: usize) -> usize {
    changed_at - object::CHANGED + object::SLEEPERS
}
