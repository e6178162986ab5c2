//! `hythe_shmget` and its family: shmget(2), shmat(2), shmdt(2) and shmctl(2), for segments that a
//! core sees as well. Never joins the pool: who uses segments only is no participant.
//!
//! These return -1 and set errno, as the calls do whose place they take; what failed is told by
//! `hythe_last_error()`, too. Handles are ids and addresses, which a forked child shares.

use core::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use hythe::segment::{Access, Attached, SegmentError, Segments};
use hythe::{Pool, PoolOptions};

use crate::errno::{self, Numbered, errno, set_errno};

/// For hythe_shmget(): bytes that a core can see, too.
pub const HYTHE_SHM_DUAL: c_int = 0x10000;

/// Flags of ours, which the kernel's calls do not know.
const OURS: c_int = 0x30000;

/// What is attached in this process. Inherited by a forked child, as the attachments are.
static ATTACHED: Mutex<Vec<Attached>> = Mutex::new(Vec::new());

/// As shmget(2). With HYTHE_SHM_DUAL in `shmflg`, the bytes of a new segment are in memory that a
/// core sees, and the key is looked for among such segments. The pool is that of the environment's
/// HYTHE_POOL, else `default`; the core that of HYTHE_CORE, else the first that has memory for
/// segments. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_shmget(key: libc::key_t, size: usize, shmflg: c_int) -> c_int {
    cross(-1, || {
        if shmflg & HYTHE_SHM_DUAL == 0 {
            // SAFETY: it takes numbers only.
            return Ok(unsafe { libc::shmget(key, size, shmflg & !OURS) });
        }
        segments()?.get(key, size, shmflg & !OURS)
    })
}

/// As shmat(2); SHM_REMAP is refused with EINVAL for a segment that a core sees. Any thread.
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
        let Some(segments) = segments_with(shmid)? else {
            // SAFETY: the caller keeps to what shmat(2) demands.
            return Ok(unsafe { libc::shmat(shmid, address, shmflg) });
        };
        let at = place(address as usize, shmflg)?;
        let access = match shmflg & libc::SHM_RDONLY {
            0 => Access::Write,
            _ => Access::Read,
        };
        // Before the table is locked: no lock is taken inside another.
        let attached = segments.attach(shmid, access, at)?;
        let address = attached.as_ptr();
        table().push(attached);
        Ok(address.cast())
    })
}

/// As shmdt(2). Any thread.
///
/// # Safety
/// Nobody uses the bytes any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_shmdt(address: *const c_void) -> c_int {
    cross(-1, || {
        let mut table = table();
        let mut attached = table.iter();
        match attached.position(|attached| attached.address() == address as usize) {
            Some(index) => {
                drop(table.swap_remove(index));
                Ok(0)
            }
            None => {
                drop(table);
                // SAFETY: the caller promises that nobody uses what is there.
                Ok(unsafe { libc::shmdt(address) })
            }
        }
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
        if command == libc::IPC_RMID
            && let Some(segments) = segments_with(shmid)?
        {
            return segments.remove(shmid).map(|()| 0);
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
    cross(-1, || {
        if segments_with(shmid)?.is_some() {
            return Ok(1);
        }
        let mut status = std::mem::MaybeUninit::<libc::shmid_ds>::uninit();
        // SAFETY: the record has the size that the kernel fills.
        let found = unsafe { libc::shmctl(shmid, libc::IPC_STAT, status.as_mut_ptr()) };
        // One that may not be read is there all the same.
        Ok(if found == 0 || errno() == libc::EACCES {
            0
        } else {
            -1
        })
    })
}

/// 0 if all `bytes` from `address` on lie in one segment that this process attached by
/// hythe_shmat() and a core sees; else -1 and EFAULT. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_shm_check(address: *const c_void, bytes: usize) -> c_int {
    let is_inside = |attached: &Attached| {
        let offset = (address as usize).checked_sub(attached.address());
        let end = offset.and_then(|offset| offset.checked_add(bytes));
        end.is_some_and(|end| end <= attached.len())
    };
    cross(-1, || {
        if table().iter().any(is_inside) {
            return Ok(0);
        }
        set_errno(libc::EFAULT);
        Ok(-1)
    })
}

/// Where shmat(2) attaches, if the caller says where.
fn place(address: usize, shmflg: c_int) -> Result<Option<usize>, SegmentError> {
    let refused = |reason| Err(SegmentError::BadAddress { address, reason });
    if shmflg & libc::SHM_REMAP != 0 {
        return refused("what is mapped there is never replaced (SHM_REMAP)");
    }
    // SHMLBA is the page size on all that we run on.
    // SAFETY: it takes a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    Ok(match (address, shmflg & libc::SHM_RND) {
        (0, _) => None,
        (_, 0) => Some(address),
        (_, _) => Some(address - address % page),
    })
}

/// Those of the environment's pool.
fn segments() -> Result<Segments, SegmentError> {
    let pool = std::env::var("HYTHE_POOL");
    let pool = pool.as_deref().unwrap_or("default");
    let board = std::env::var("HYTHE_CORE").ok();
    Segments::open(&Pool::open(&PoolOptions::new(pool))?, board.as_deref())
}

/// The same, if the id is of one of them. Without a pool there are none.
fn segments_with(id: c_int) -> Result<Option<Segments>, SegmentError> {
    match segments() {
        Ok(segments) => Ok(segments.knows(id)?.then_some(segments)),
        Err(SegmentError::NoArea { .. } | SegmentError::Pool(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

thread_local! {
    static FORKING: std::cell::RefCell<Option<MutexGuard<'static, Vec<Attached>>>> =
        const { std::cell::RefCell::new(None) };
}

/// The table. No fork happens while it is changed: the child could never lock it.
fn table() -> MutexGuard<'static, Vec<Attached>> {
    static GUARDED: Once = Once::new();
    GUARDED.call_once(|| {
        // SAFETY: it keeps the functions, which live as long as the program; they take nothing.
        let refused =
            unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
        // No memory for the entry: as documented of threads that fork while others attach.
        let _ = refused;
    });
    ATTACHED.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before_fork() {
    let guard = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = FORKING.try_with(|place| place.replace(Some(guard)));
}

extern "C" fn after_fork() {
    let _ = FORKING.try_with(std::cell::RefCell::take);
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
