//! No signal handler runs on this thread for a moment.

#![allow(
    unsafe_code,
    reason = "this is the island: signal masks, which rustix does not have"
)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// While this value lives, signals to the calling thread wait: a handler that used the same lock
/// would wait for its own thread.
#[derive(Debug)]
pub struct SignalsBlocked {
    before: Option<libc::sigset_t>,
    /// The mask is a thread's.
    _of_this_thread: PhantomData<*const ()>,
}

impl SignalsBlocked {
    /// Blocks all signals. Where the kernel refuses that, it changes nothing.
    #[must_use]
    pub fn new() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` fills the set it is given.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: the first set was filled, the second is only written.
        let refused =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        Self {
            // SAFETY: the call succeeded, so it has written the set.
            before: (refused == 0).then(|| unsafe { before.assume_init() }),
            _of_this_thread: PhantomData,
        }
    }
}

impl Default for SignalsBlocked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: the set is one that the kernel gave; nothing is asked back.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: i32) -> bool {
        let mut now = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: nothing is set; the second set is only written.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr()) };
        // SAFETY: a call with these arguments does not fail, so it has written the set.
        let now = unsafe { now.assume_init() };
        // SAFETY: the set is whole.
        unsafe { libc::sigismember(&raw const now, signal) == 1 }
    }

    #[test]
    fn blocked_as_long_as_the_value_lives_also_inside_another() {
        assert!(!is_blocked(libc::SIGUSR1));
        let outer = SignalsBlocked::new();
        drop(SignalsBlocked::new());
        assert!(is_blocked(libc::SIGUSR1));
        drop(outer);
        assert!(!is_blocked(libc::SIGUSR1));
    }
}
