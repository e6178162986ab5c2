//! Changes of all objects of a pool, for who waits for several of them: the agent of a core.

use std::time::Duration;

use hythe_abi::objects::header;
use hythe_memory::{Memory as _, Ordering};

use super::LONGEST_NAP;
use super::watch::Watcher;
use crate::pool::Pool;

/// Waits for changes of objects of a pool.
#[derive(Clone, Debug)]
pub struct ObjectChanges(Pool);

impl ObjectChanges {
    /// Of this pool.
    #[must_use]
    pub fn of(pool: &Pool) -> Self {
        Self(pool.clone())
    }

    /// Calls `look` now, and behind each change, or 100 ms after the last call, until it is false.
    /// Meanwhile whoever changes an object wakes this thread. Returns at once if the pool has no
    /// objects.
    pub fn follow(&self, mut look: impl FnMut() -> bool) {
        let Ok(Some(table)) = self.0.objects(false) else {
            return;
        };
        let memory = table.memory();
        let _watcher = Watcher::new(memory);
        loop {
            let seen = memory.load(header::CHANGES, Ordering::Acquire);
            if !look() {
                return;
            }
            memory.wait(header::CHANGES, seen, LONGEST_NAP);
        }
    }

    /// How long a change can go unnoticed: where the one who should have woken is dead.
    pub const LONGEST: Duration = LONGEST_NAP;
}
