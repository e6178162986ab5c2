//! Calls that return -1 and set errno, as those whose place they take. Used by segments,
//! semaphores and message queues.

use core::ffi::c_int;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::message;

/// An error with a number for errno.
pub(crate) trait Numbered: Display {
    fn number(&self) -> c_int;
}

/// Runs the inside of a public function; an error becomes errno, and a message.
pub(crate) fn cross<T, E: Numbered>(refused: T, inside: impl FnOnce() -> Result<T, E>) -> T {
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => {
            message::keep(&error.to_string());
            set_errno(error.number());
            refused
        }
        Err(_) => {
            message::keep("this is an error of the library, please report it");
            set_errno(libc::EIO);
            refused
        }
    }
}

pub(crate) fn set_errno(number: c_int) {
    // SAFETY: the thread's own place, always there.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = number };
}
