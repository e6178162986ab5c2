//! `hythe_shmget` and its family: shmget(2), shmat(2), shmdt(2) and shmctl(2), for segments that a
//! core sees as well. Never joins the pool: who uses segments only is no participant.
//!
//! These return -1 and set errno, as the calls do whose place they take; what failed is told by
//! `hythe_last_error()`, too. Handles are ids and addresses, which a forked child shares.

use core::ffi::{c_int, c_void};

use hythe::segment::{SegmentError, process};

use crate::errno::{self, Numbered};

/// For hythe_shmget(): bytes that a core can see, too.
pub const HYTHE_SHM_DUAL: c_int = 0x10000;

/// For hythe_shmget(): the same, and a new segment is made by the core, which may refuse.
pub const HYTHE_SHM_ON_CORE: c_int = 0x20000;

/// Flags of ours, which the kernel's calls do not know.
const OURS: c_int = HYTHE_SHM_DUAL | HYTHE_SHM_ON_CORE;
const _: () = assert!(OURS == process::DUAL | process::ON_CORE);

/// As shmget(2). With HYTHE_SHM_DUAL in `shmflg`, the bytes of a new segment are in memory that a
/// core sees, and the key is looked for among such segments. With HYTHE_SHM_ON_CORE the core's
/// program is asked to make a new one, for 5 s at most: EACCES if it refuses, ENOSPC if it does not
/// answer; the process takes part in the pool meanwhile. The pool is that of the environment's
/// HYTHE_POOL, else `default`; the core that of HYTHE_CORE, else the first that has memory for
/// segments. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_shmget(key: libc::key_t, size: usize, shmflg: c_int) -> c_int {
    cross(-1, || {
        if shmflg & OURS == 0 {
            // SAFETY: it takes numbers only.
            return Ok(unsafe { libc::shmget(key, size, shmflg) });
        }
        process::get(key, size, shmflg)
    })
}

/// As shmat(2). For a segment that a core sees, SHM_REMAP is refused with EINVAL, SHM_EXEC with
/// EACCES. Any thread.
///
/// # Safety
/// As shmat(2) demands of `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_shmat(
    shmid: c_int,
    address: *const c_void,
    shmflg: c_int,
) -> *mut c_void {
    let refused = usize::MAX as *mut c_void;
    cross(refused, || {
        match process::attach(shmid, address as usize, shmflg)? {
            Some(attached) => Ok(attached.as_ptr().cast()),
            // SAFETY: the caller keeps to what shmat(2) demands.
            None => Ok(unsafe { libc::shmat(shmid, address, shmflg) }),
        }
    })
}

/// As shmdt(2). Any thread.
///
/// # Safety
/// Nobody uses the bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_shmdt(address: *const c_void) -> c_int {
    cross(-1, || {
        if process::detach(address as usize) {
            return Ok(0);
        }
        // SAFETY: the caller promises that nobody uses what is there.
        Ok(unsafe { libc::shmdt(address) })
    })
}

/// As shmctl(2). Any thread.
///
/// # Safety
/// `buffer` is what shmctl(2) demands for `command`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_shmctl(
    shmid: c_int,
    command: c_int,
    buffer: *mut libc::shmid_ds,
) -> c_int {
    cross(-1, || {
        if command == libc::IPC_RMID && process::remove(shmid)? {
            return Ok(0);
        }
        // The kernel's own segment has owner, mode, times and count.
        // SAFETY: the caller keeps to what shmctl(2) demands.
        Ok(unsafe { libc::shmctl(shmid, command, buffer) })
    })
}

/// 1 if a core sees the segment's bytes, 0 if not; -1 and EINVAL if there is no such segment. Any
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_shm_is_dual(shmid: c_int) -> c_int {
    cross(-1, || process::is_dual(shmid).map(c_int::from))
}

/// 0 if all `bytes` from `address` on lie in one segment that this process attached by
/// hythe_shmat() and a core sees; else -1 and EFAULT. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_shm_check(address: *const c_void, bytes: usize) -> c_int {
    cross(-1, || process::check(address as usize, bytes).map(|()| 0))
}

/// Runs the inside of a public function; an error becomes errno, and a message.
fn cross<T>(refused: T, inside: impl FnOnce() -> Result<T, SegmentError>) -> T {
    errno::cross(refused, inside)
}

impl Numbered for SegmentError {
    fn number(&self) -> c_int {
        self.errno()
    }
}
