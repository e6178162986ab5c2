//! `libhythe_shm.so`, for `LD_PRELOAD`: System V shared memory of programs that do not know of
//! Hythe, in memory that a core sees.
//!
//! `shmget`, `shmat`, `shmdt` and `shmctl` stand here in the place of the C library's. A call is
//! about a segment that a core sees if the program says so (`HYTHE_SHM_DUAL` in `shmflg`), if the
//! environment does (`HYTHE_SHM`), or if the id is of such a segment; every other is the kernel's
//! own. Pool and core are those of `HYTHE_POOL` and `HYTHE_CORE`. With `HYTHE_SHM_LOG=1` what was
//! done and refused is told on standard error.
//!
//! Never keeps a descriptor open, or calls the C library's functions of these names. Starts a
//! thread only while a core is asked to make a segment (`HYTHE_SHM_ON_CORE`). Of signals it
//! handles SIGBUS alone, for memory of a pool that was cut away, and passes any other on.

#![allow(unsafe_code, reason = "an island: the functions that C programs call")]

mod log;
mod wanted;

use core::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use hythe_rtcore::segment::{SegmentError, process};
use hythe_sys::system_v::calls;

use wanted::Wanted;

/// Flags of ours, which the kernel takes for nothing.
const OURS: c_int = process::DUAL | process::ON_CORE;

/// As shmget(2).
#[unsafe(no_mangle)]
pub extern "C" fn shmget(key: libc::key_t, size: usize, shmflg: c_int) -> c_int {
    let of_the_kernel = || calls::get(key, size, shmflg & !OURS);
    let wanted = match shmflg & OURS {
        0 => wanted::by_environment(key),
        _ => Wanted::Yes,
    };
    if wanted == Wanted::No {
        return of_the_kernel();
    }
    let is_unasked = wanted == Wanted::IfNew;
    let answer = cross(Some(-1), || match process::get(key, size, shmflg) {
        // A program that knows nothing of cores finds what it found without us.
        Err(SegmentError::PlainKey { .. } | SegmentError::NoHugePages { .. }) if is_unasked => {
            Ok(None)
        }
        Err(_) if is_unasked && shmflg & libc::IPC_CREAT == 0 => Ok(None),
        found => found.map(Some),
    });
    match answer {
        Some(-1) => -1,
        Some(id) => {
            log::tell(format_args!(
                "shmget({key:#010x}, {size}) = {id}, which a core sees"
            ));
            id
        }
        None => of_the_kernel(),
    }
}

/// As shmat(2).
///
/// # Safety
/// As shmat(2) demands of `address`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, shmflg: c_int) -> *mut c_void {
    let refused = usize::MAX as *mut c_void;
    cross(refused, || {
        Ok(match process::attach(id, address as usize, shmflg)? {
            Some(attached) => {
                log::tell(format_args!(
                    "shmat({id}) = {attached:p}, which a core sees"
                ));
                attached.as_ptr().cast()
            }
            // SAFETY: the caller keeps to what shmat(2) demands.
            None => unsafe { calls::attach(id, address, shmflg) },
        })
    })
}

/// As shmdt(2).
///
/// # Safety
/// Nobody uses the bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    cross(-1, || {
        if process::detach(address as usize) {
            return Ok(0);
        }
        // SAFETY: the caller promises that nobody uses what is there.
        Ok(unsafe { calls::detach(address) })
    })
}

/// As shmctl(2).
///
/// # Safety
/// `buffer` is what shmctl(2) demands for `command`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmctl(id: c_int, command: c_int, buffer: *mut libc::shmid_ds) -> c_int {
    cross(-1, || {
        if command == libc::IPC_RMID && process::remove(id)? {
            log::tell(format_args!("removed segment {id}, which a core sees"));
            return Ok(0);
        }
        // Owner, mode, times and count are those of the kernel's own segment.
        // SAFETY: the caller keeps to what shmctl(2) demands.
        Ok(unsafe { calls::control(id, command, buffer) })
    })
}

/// As in `hythe.h`: 1 if a core sees the segment's bytes, 0 if not, -1 and errno if there is none.
/// For programs that look for this function (`dlsym`) to learn whether this library is there.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_shm_is_dual(id: c_int) -> c_int {
    cross(-1, || process::is_dual(id).map(c_int::from))
}

/// As in `hythe.h`: 0 if all `bytes` from `address` on lie in one segment that this process
/// attached and a core sees; else -1 and EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_shm_check(address: *const c_void, bytes: usize) -> c_int {
    cross(-1, || process::check(address as usize, bytes).map(|()| 0))
}

/// Runs the inside of a public function; an error becomes errno.
fn cross<T>(refused: T, inside: impl FnOnce() -> Result<T, SegmentError>) -> T {
    let (number, reason) = match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(done)) => return done,
        Ok(Err(error)) => (error.errno(), error.to_string()),
        Err(_) => (
            libc::EIO,
            "this is an error of the library, please report it".to_owned(),
        ),
    };
    log::tell(format_args!("{reason}"));
    // SAFETY: the thread's own place, always there.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = number };
    refused
}
