//! Under which policy the calling thread is scheduled.
//!
//! `hythe doctor` tries it, the measurements of real-time latency run under it. Never touches another thread.
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
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `parameters` is valid for reads of its size and the kernel keeps no pointer; 0 names
    // the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
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
    fn a_priority_that_does_not_exist_is_refused() {
        for priority in [-1, 0, 100, 1000] {
            assert!(enter_fifo(priority).is_err(), "{priority}");
        }
    }
}
