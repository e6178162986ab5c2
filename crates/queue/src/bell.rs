//! The bell: wakes a participant that sleeps, costs almost nothing when it does not.
//!
//! Sleeper: take a [`Ticket`], look for work once more, and only then sleep on the count while it
//! equals the ticket. Ringer: make the work visible, then [`Bell::ring`]. One of the two always
//! sees the other: both put a full barrier between their own write (ticket taken, work pushed) and
//! their look at the other's.

use hythe_memory::{Memory, Ordering, full_barrier};

/// Where a bell stands in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bell {
    /// Raised by every ring that found a sleeper. What the sleeper's futex waits on.
    pub count: usize,
    /// How many threads are about to sleep or sleep. Written by the bell's owner only.
    pub sleepers: usize,
}

/// The count a sleeper saw before its last look for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    count: u32,
}

impl Ticket {
    /// What the futex must still hold for the sleeper to sleep.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }
}

impl Bell {
    /// Announces a sleeper. The caller now looks for work again, sleeps if there is none, and then
    /// calls [`Bell::rise`].
    #[must_use]
    pub fn lie_down<M: Memory>(&self, memory: &M) -> Ticket {
        // Relaxed: the barrier below stands between it and the look for work, so a count seen here
        // brings the work rung for.
        let count = memory.load(self.count, Ordering::Relaxed);
        memory.add(self.sleepers, 1, Ordering::Relaxed);
        // Between the announcement and the look for work; its partner is the barrier in `ring`.
        full_barrier();
        Ticket { count }
    }

    /// Takes the announcement back.
    pub fn rise<M: Memory>(&self, memory: &M) {
        memory.add(self.sleepers, u32::MAX, Ordering::Relaxed);
    }

    /// Call after making work visible. True: somebody sleeps, and the caller must wake the futex on
    /// `count`.
    #[must_use]
    #[inline]
    pub fn ring<M: Memory>(&self, memory: &M) -> bool {
        // Between the work and the look for sleepers; its partner is the barrier in `lie_down`.
        full_barrier();
        self.ring_behind_barrier(memory)
    }

    /// As [`ring`](Self::ring), for a caller that has put one full barrier behind its work itself,
    /// perhaps for several bells.
    #[must_use]
    #[inline]
    pub fn ring_behind_barrier<M: Memory>(&self, memory: &M) -> bool {
        if !self.has_sleepers(memory) {
            return false;
        }
        // Relaxed: the barrier stands between it and the work.
        memory.add(self.count, 1, Ordering::Relaxed);
        true
    }

    /// Does somebody sleep, or is about to? The caller has put a full barrier behind its work.
    #[must_use]
    #[inline(always)]
    pub fn has_sleepers<M: Memory>(&self, memory: &M) -> bool {
        memory.load(self.sleepers, Ordering::Relaxed) != 0
    }

    /// Rings whether or not somebody sleeps: for a peer's death, and for links whose barriers an
    /// emulator may leave out.
    pub fn ring_always<M: Memory>(&self, memory: &M) {
        // Pairs with the acquire load in `is_quiet` and the barrier in `lie_down`.
        memory.add(self.count, 1, Ordering::Release);
    }

    /// Has nobody rung since the ticket was taken?
    #[must_use]
    pub fn is_quiet<M: Memory>(&self, memory: &M, ticket: Ticket) -> bool {
        // Pairs with the barrier of `ring` and the release half of `ring_always`: a moved count
        // brings the work.
        memory.load(self.count, Ordering::Acquire) == ticket.count
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use hythe_memory::Mapped;

    const BELL: Bell = Bell {
        count: 0,
        sleepers: 4,
    };

    #[test]
    fn rings_only_for_sleepers() {
        let memory = Mapped::anonymous(4096).expect("memory");
        assert!(!BELL.ring(&memory));
        let ticket = BELL.lie_down(&memory);
        assert!(BELL.is_quiet(&memory, ticket));
        assert!(BELL.ring(&memory));
        assert!(!BELL.is_quiet(&memory, ticket));
        BELL.rise(&memory);
        assert!(!BELL.ring(&memory));
    }
}
