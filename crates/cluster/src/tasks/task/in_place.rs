//! Slots that a program occupies with messages: those that it has received and not released, and
//! those that it is writing.
//!
//! A message stays in its slot only while few of that size are occupied so. Any other is copied
//! into the process's memory: a program that keeps what it has received, or leases without sending,
//! never occupies what others need to reach it.

use std::sync::Arc;

use hythe_node::Pool;
use hythe_node::hop::{self, SizeClass};

/// A task occupies less than this part of the slots of a class.
const OWN_PART: usize = 8;
/// While all tasks together leave less than this part of a class free, none occupies more of it.
const FREE_PART: u32 = 2;
/// Up to this part of a class, what is free is not counted: half of the class for 128 tasks.
const UNCOUNTED_PART: usize = 256;

/// The slots that a task occupies, by their classes.
#[derive(Debug, Default)]
pub(super) struct InPlace {
    classes: Vec<(SizeClass, Arc<()>)>,
}

/// One slot that is occupied, as long as this value is there.
#[derive(Debug)]
pub(super) struct Occupied {
    _count: Arc<()>,
}

impl InPlace {
    /// Occupies one more slot of a class. `None`: they would be too many.
    pub(super) fn occupy(&mut self, pool: &Pool, class: SizeClass) -> Option<Occupied> {
        let known = self.classes.iter().position(|(known, _)| *known == class);
        let index = known.unwrap_or_else(|| {
            self.classes.push((class, Arc::new(())));
            self.classes.len() - 1
        });
        let count = &self.classes[index].1;
        let (occupied, slots) = (Arc::strong_count(count) - 1, class.slots as usize);
        let is_uncounted = (occupied + 1) * UNCOUNTED_PART <= slots;
        let is_share = occupied * OWN_PART < slots;
        let has_free = || hop::has_free_slots(pool, class, class.slots.div_ceil(FREE_PART));
        let fits = is_uncounted || is_share && has_free();
        fits.then(|| Occupied {
            _count: Arc::clone(count),
        })
    }
}
