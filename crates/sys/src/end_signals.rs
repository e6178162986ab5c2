//! A program that was asked to end by a signal and does not: a second signal ends it at once.
//!
//! One wish often comes as two signals: a terminal and `timeout` signal the process and its group,
//! a service manager sends two kinds. So a signal is a second one only if it comes
//! [`SECOND_AFTER_NS`] after the first.
//!
//! [`end_at_second`] is called once, before others register for the same signals: handlers that are
//! registered later have to call the one before, as those of the crate `signal-hook` do. Never
//! decides what the first signal does.

#![allow(
    unsafe_code,
    reason = "this is the island: a signal handler, which rustix does not have"
)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// More than a process needs to hear of one wish twice, less than a person needs to repeat it.
pub const SECOND_AFTER_NS: u64 = 200_000_000;
/// What is written to standard error then.
const LINE: &[u8] = b"hythe: ended at the second signal, without completing what was under way\n";

/// When the first signal came, by the monotonic clock; 0: none did.
static FIRST_NS: AtomicU64 = AtomicU64::new(0);

/// From now on, the first of these signals changes nothing by itself, and a later one ends the
/// process with exit code 1 and a line on standard error.
///
/// # Errors
///
/// What the kernel says to the number of a signal.
pub fn end_at_second(signals: &[i32]) -> io::Result<()> {
    for signal in signals {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all zeros are an action without handler, flags and blocked signals.
        let action = unsafe { action.assume_init_mut() };
        action.sa_sigaction = handle as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the action is whole, its handler calls what is safe in one; nothing is asked
        // back.
        let refused = unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        if refused != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Runs inside whatever was interrupted: nothing but what signal-safety(7) lists.
extern "C" fn handle(_signal: i32) {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes the time there; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr()) };
    // SAFETY: it was written.
    let now = unsafe { now.assume_init() };
    let now_ns = (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64;
    if is_second(&FIRST_NS, now_ns) {
        // SAFETY: the line is there for its length; one that is not written is not repeated.
        unsafe { libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len()) };
        // SAFETY: it ends the process and runs nothing of it.
        unsafe { libc::_exit(1) };
    }
}

/// Is the signal that came now a second wish? Keeps when the first came.
fn is_second(first_ns: &AtomicU64, now_ns: u64) -> bool {
    // A handler may interrupt another one; all of them are on one clock, and nothing else is read.
    match first_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => false,
        Err(first_ns) => now_ns.saturating_sub(first_ns) >= SECOND_AFTER_NS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_close_together_are_one_wish() {
        let first_ns = AtomicU64::new(0);
        for (now_ms, expected) in [(1000, false), (1000, false), (1001, false), (1199, false)] {
            assert_eq!(
                is_second(&first_ns, now_ms * 1_000_000),
                expected,
                "{now_ms}"
            );
        }
        // One that began earlier and was interrupted.
        assert!(!is_second(&first_ns, 999_000_000));
        assert!(is_second(&first_ns, 1_200_000_000));
    }
}
