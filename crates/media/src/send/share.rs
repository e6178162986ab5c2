//! How many slots each of several sessions of one process may hold, so that none takes those that
//! the next one needs.
//!
//! Each session that joins is given a number of slots at once, or is refused. In those it builds
//! packets ahead of their time; what it may hold beyond them, for packets that may be asked for
//! again, becomes less as more sessions join: all together that is at most half of the region's
//! slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The slots of a region, shared by sessions.
#[derive(Debug)]
pub struct SlotShare {
    reserved: usize,
    sessions: AtomicUsize,
}

impl SlotShare {
    /// Of sessions that are given `reserved` slots each before their first packet.
    #[must_use]
    pub fn new(reserved: usize) -> Arc<Self> {
        Arc::new(Self {
            reserved,
            sessions: AtomicUsize::new(0),
        })
    }

    /// For one more session, of which each slot is one of `slots`.
    pub(super) fn join(self: &Arc<Self>, slots: usize) -> Share {
        self.sessions.fetch_add(1, Ordering::Relaxed); // guards nothing but itself
        Share {
            all: Arc::clone(self),
            slots,
        }
    }
}

/// What one session may hold. Dropped, the others may hold more.
#[derive(Debug)]
pub(super) struct Share {
    all: Arc<SlotShare>,
    slots: usize,
}

impl Share {
    /// Slots that it is given at once and keeps.
    pub(super) fn reserved(&self) -> usize {
        self.all.reserved
    }

    /// Slots that it may hold now.
    pub(super) fn limit(&self) -> usize {
        let sessions = self.all.sessions.load(Ordering::Relaxed).max(1);
        (self.slots / 2 / sessions).max(self.all.reserved)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_hold_half_of_slots_or_their_shares() {
        let share = SlotShare::new(2);
        let mut joined = Vec::new();
        for (sessions, limit) in [(1, 32), (2, 16), (5, 6), (16, 2), (40, 2)] {
            joined.resize_with(sessions, || share.join(64));
            assert!(joined.iter().all(|one| one.limit() == limit), "{sessions}");
        }
        joined.truncate(1);
        assert_eq!((joined[0].limit(), joined[0].reserved()), (32, 2));
    }
}
