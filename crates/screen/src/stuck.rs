//! Threads that stand still in a library, and how a process ends that has some.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that are in a library now.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Lives as long as a thread may be in a library.
pub(crate) struct Busy(());

impl Busy {
    pub(crate) fn begin() -> Self {
        BUSY.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::Release);
    }
}

/// Ends the process with this code if a window or a sound device stands still, and else returns.
///
/// A program that has opened one calls it as the last thing that it does. Exit handlers of
/// libraries, such as those of OpenGL, wait for locks that a thread of ours may hold for ever, in a
/// call that a display does not answer. Nothing of them is needed: what the program itself has to
/// clean up it has done.
pub fn exit_if_stuck(code: u8) {
    // With `drop`: what such a thread did before it ended has happened.
    if BUSY.load(Ordering::Acquire) == 0 {
        return;
    }
    // Nobody may be left to read it.
    let _ = std::io::stdout().flush();
    // SAFETY: takes a number, and does not return.
    unsafe { libc::_exit(code.into()) }
}
