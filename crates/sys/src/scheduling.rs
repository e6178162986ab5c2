//! Under which policy the calling thread is scheduled.
//!
//! `hythe doctor` tries it, the measurements of real-time latency run under it. Never touches
//! another thread.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;

/// Puts the calling thread under `SCHED_FIFO`. It stays there until it ends.
///
/// # Errors
///
/// Permission denied without `CAP_SYS_NICE` and beyond the limit `RLIMIT_RTPRIO`, or in a control
/// group without real-time budget; a priority that there is not (1 to 99).
pub fn enter_fifo(priority: i32) -> io::Result<()> {
    // By number: the C library's function fails always in musl, and its structure has more than
    // the kernel's one field there.
    let parameters: libc::c_int = priority;
    // SAFETY: the kernel's `struct sched_param` is one int; `parameters` is valid for reads of that
    // size, and the kernel keeps no pointer. 0 names the calling thread.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0_usize,
            libc::SCHED_FIFO as usize,
            &raw const parameters,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_that_does_not_exist_is_refused() {
        for priority in [-1, 0, 100, 1000] {
            assert!(enter_fifo(priority).is_err(), "{priority}");
        }
    }
}
