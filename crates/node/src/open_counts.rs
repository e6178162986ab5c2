//! How many handles a participant has to each semaphore and message queue. Never locks anything
//! else.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hythe_abi::objects::OBJECTS_MAX;

/// Handles by number of the object.
#[derive(Debug)]
pub(crate) struct OpenCounts(Mutex<[u32; OBJECTS_MAX]>);

impl Default for OpenCounts {
    fn default() -> Self {
        Self(Mutex::new([0; OBJECTS_MAX]))
    }
}

impl OpenCounts {
    /// Alone with them.
    pub(crate) fn lock(&self) -> MutexGuard<'_, [u32; OBJECTS_MAX]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
