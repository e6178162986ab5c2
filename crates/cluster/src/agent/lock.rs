//! Locks of data that a panic leaves whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic in between leaves what is in there whole: each change of it is one call.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
