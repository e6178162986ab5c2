//! The cell of a listener: events that were raised and not yet taken, one bit each.
//!
//! Notifiers raise bits, the listener takes all of them at once; an event raised again before it is
//! taken is taken once. Each is one swap, so there is nothing for a death to leave half done. The
//! upper bits say which opening of the port the events are for: a notifier that comes too late
//! finds another number there and changes nothing.
//!
//! Raising always swaps, also where the bit stands already: only a swap puts what the notifier
//! wrote before in front of the taking that clears the bit. Who raises then rings the listener's
//! bell, and the two sides of that find each other as always.

use hythe_abi::pool::EVENTS_MAX;
use hythe_memory::{Memory, Ordering};

/// All bits that are events.
const EVENTS: u64 = (1 << EVENTS_MAX) - 1;

/// Tries of one swap. Each failure means that another one has succeeded, or that somebody writes
/// nonsense without end.
const TRIES: u32 = 1024;

/// Why nothing was raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRaised {
    /// The cell is another opening's.
    Closed,
    /// The cell never stood still.
    Contended,
}

/// Where the cell stands, and for which opening of its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCell {
    at: usize,
    opening: u64,
}

impl EventCell {
    /// Begins another opening: no events. Only its owner calls this, before anyone else looks for
    /// it.
    pub fn begin<M: Memory>(memory: &M, at: usize) {
        // Relaxed: whoever is to see it sees the port's state, which is stored behind it.
        let opening = (memory.load_cell(at, Ordering::Relaxed) >> EVENTS_MAX) + 1;
        memory.store_cell(at, opening << EVENTS_MAX, Ordering::Relaxed);
    }

    /// The opening that stands there now. Notifiers look again afterwards whether the port is still
    /// the one they know.
    pub fn now<M: Memory>(memory: &M, at: usize) -> Self {
        // Relaxed: who comes here has seen the port's state.
        Self {
            at,
            opening: memory.load_cell(at, Ordering::Relaxed) >> EVENTS_MAX,
        }
    }

    /// Raises events. Ring the listener's bell afterwards, whatever stood there before.
    ///
    /// # Errors
    /// [`NotRaised`]; nothing was changed.
    pub fn raise<M: Memory>(&self, memory: &M, events: u64) -> Result<(), NotRaised> {
        let mut found = memory.load_cell(self.at, Ordering::Relaxed);
        for _ in 0..TRIES {
            if found >> EVENTS_MAX != self.opening {
                return Err(NotRaised::Closed);
            }
            // Pairs with the swap in `take`: what was written before the notification is visible to
            // whoever takes it.
            let after = found | (events & EVENTS);
            match memory.replace_cell(self.at, found, after) {
                Ok(()) => return Ok(()),
                Err(now) => found = now,
            }
        }
        Err(NotRaised::Contended)
    }

    /// Is there something to take?
    pub fn has_events<M: Memory>(&self, memory: &M) -> bool {
        // Relaxed: whoever takes it pairs with `raise`.
        memory.load_cell(self.at, Ordering::Relaxed) & EVENTS != 0
    }

    /// Takes what was raised; 0: nothing, or the cell never stood still.
    pub fn take<M: Memory>(&self, memory: &M) -> u64 {
        // Relaxed: the swap below is what pairs with `raise`.
        let mut found = memory.load_cell(self.at, Ordering::Relaxed);
        for _ in 0..TRIES {
            if found & EVENTS == 0 {
                return 0;
            }
            match memory.replace_cell(self.at, found, self.opening << EVENTS_MAX) {
                Ok(()) => return found & EVENTS,
                Err(now) => found = now,
            }
        }
        0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use hythe_memory::Mapped;

    fn opened() -> (Mapped, EventCell) {
        let memory = Mapped::anonymous(4096).expect("memory");
        EventCell::begin(&memory, 8);
        let cell = EventCell::now(&memory, 8);
        (memory, cell)
    }

    #[test]
    fn events_coalesce_and_are_taken_once() {
        let (memory, cell) = opened();
        assert_eq!(cell.take(&memory), 0);
        for events in [1, 1 << 39, 1] {
            assert_eq!(cell.raise(&memory, events), Ok(()));
        }
        assert_eq!(cell.take(&memory), 1 | 1 << 39);
        assert_eq!(cell.take(&memory), 0);
    }

    #[test]
    fn event_does_not_reach_the_next_opening() {
        let (memory, cell) = opened();
        EventCell::begin(&memory, 8);
        assert_eq!(cell.raise(&memory, 1), Err(NotRaised::Closed));
        assert_eq!(EventCell::now(&memory, 8).take(&memory), 0);
    }

    #[test]
    fn bits_that_are_no_events_change_nothing() {
        let (memory, cell) = opened();
        assert_eq!(cell.raise(&memory, u64::MAX), Ok(()));
        assert_eq!(cell.take(&memory), EVENTS);
        assert_eq!(cell.raise(&memory, 2), Ok(()), "the opening was changed");
        // The upper bits are the listener's own word, not a peer's.
        memory.store_cell(8, u64::MAX, Ordering::Relaxed);
        assert_eq!(cell.take(&memory), EVENTS);
        assert_eq!(cell.raise(&memory, 2), Ok(()), "the cell was not mended");
    }

    #[test]
    fn number_of_openings_wraps() {
        let memory = Mapped::anonymous(4096).expect("memory");
        memory.store_cell(8, u64::MAX, Ordering::Relaxed);
        EventCell::begin(&memory, 8);
        let cell = EventCell::now(&memory, 8);
        assert_eq!(cell.raise(&memory, 1), Ok(()));
        assert_eq!(cell.take(&memory), 1);
    }
}
