//! At which priority the calling thread's reads stand in the queue of a device.
//!
//! The storage hop calls it in each of its threads. Schedulers that know no priorities (`none`,
//! `kyber`) take the call and ignore it. Never touches another thread.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;

/// Classes, as `include/uapi/linux/ioprio.h` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// Before everybody else. Needs `CAP_SYS_ADMIN` or `CAP_SYS_NICE`.
    Realtime = 1,
    /// As everybody.
    BestEffort = 2,
    /// Only while nobody else reads or writes. Has no levels.
    Idle = 3,
}

const IOPRIO_CLASS_SHIFT: u32 = 13;
const LEVEL_MAX: u8 = 7;
const IOPRIO_WHO_PROCESS: libc::c_int = 1;

/// Sets class and level (0 first, 7 last) of the calling thread.
///
/// # Errors
///
/// What `ioprio_set` returns: not permitted, or a level that does not exist.
pub fn set_io_priority(class: IoClass, level: u8) -> io::Result<()> {
    if level > LEVEL_MAX {
        // Kernels from 6.5 on read the higher bits as hints and would take it.
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let value = ((class as libc::c_int) << IOPRIO_CLASS_SHIFT) | libc::c_int::from(level);
    // SAFETY: no pointers; 0 names the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) };
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
    fn priorities_are_taken_and_levels_that_do_not_exist_refused() {
        let tried = std::thread::spawn(|| {
            set_io_priority(IoClass::BestEffort, 7).unwrap();
            set_io_priority(IoClass::Idle, 0).unwrap();
            // SAFETY: no pointers; 0 names the calling thread.
            let now = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) };
            assert_eq!(now >> IOPRIO_CLASS_SHIFT, 3);
            set_io_priority(IoClass::BestEffort, 8).unwrap_err();
        });
        tried.join().unwrap();
    }
}
