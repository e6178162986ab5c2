//! No signal handler runs on this thread for a moment, but for those of faults.
//!
//! A fault of the thread itself is delivered whatever its mask says: where its signal is blocked,
//! the kernel ends the process instead of calling the handler. Memory of a pool that was cut away
//! is such a fault (SIGBUS, `hythe_memory::faults`), so these signals are never blocked here.

#![allow(
    unsafe_code,
    reason = "this is the island: signal masks, which rustix does not have"
)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// Signals by which the kernel reports a fault to the thread that caused it.
const FAULTS: [i32; 5] = [
    libc::SIGBUS,
    libc::SIGSEGV,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

/// While this value lives, signals to the calling thread wait: a handler that used the same lock
/// would wait for its own thread. Those of faults do not wait, also where the program blocks them.
#[derive(Debug)]
pub struct SignalsBlocked {
    before: Option<libc::sigset_t>,
    /// The mask is a thread's.
    _of_this_thread: PhantomData<*const ()>,
}

impl SignalsBlocked {
    /// Blocks all signals but those of faults. Where the kernel refuses that, it changes nothing.
    #[must_use]
    pub fn new() -> Self {
        let mut others = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` fills the set it is given.
        unsafe { libc::sigfillset(others.as_mut_ptr()) };
        for fault in FAULTS {
            // SAFETY: the set was filled, and these are numbers of signals.
            unsafe { libc::sigdelset(others.as_mut_ptr(), fault) };
        }
        // SAFETY: the first set was filled, the second is only written.
        let refused = unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, others.as_ptr(), before.as_mut_ptr())
        };
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

/// Lets the calling thread take the signals of its own faults. A thread inherits the mask of the
/// one that starts it, which may have blocked all of them: each thread of ours calls this first.
pub fn unblock_faults() {
    let mut faults = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` fills the set it is given.
    unsafe { libc::sigemptyset(faults.as_mut_ptr()) };
    for fault in FAULTS {
        // SAFETY: the set was filled, and these are numbers of signals.
        unsafe { libc::sigaddset(faults.as_mut_ptr(), fault) };
    }
    // SAFETY: the set was filled; nothing is asked back. Refused: the mask stays.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, faults.as_ptr(), ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_all() {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` fills the set it is given.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: the set was filled.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), ptr::null_mut()) };
    }

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
    #[test]
    fn faults_are_blocked_neither_by_us_nor_by_the_caller() {
        // In a thread of its own: the mask is changed for good.
        let test = std::thread::spawn(|| {
            block_all();
            let blocked = SignalsBlocked::new();
            assert!(FAULTS.iter().all(|fault| !is_blocked(*fault)));
            assert!(is_blocked(libc::SIGUSR1));
            drop(blocked);
            assert!(FAULTS.iter().all(|fault| is_blocked(*fault)));
        });
        test.join().unwrap();
    }

    #[test]
    fn threads_of_ours_take_their_faults() {
        let test = std::thread::spawn(|| {
            block_all();
            let started = crate::wait::spawn("faults", || {
                assert!(FAULTS.iter().all(|fault| !is_blocked(*fault)));
                assert!(is_blocked(libc::SIGUSR1));
            });
            started.unwrap().join().unwrap();
        });
        test.join().unwrap();
    }
}
