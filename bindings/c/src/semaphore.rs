//! `hythe_sem_open` and its family: sem_open(3), sem_wait(3) and so on, for semaphores that live in
//! a pool.
//!
//! These return -1 and set errno, as the calls do whose place they take; what failed is told by
//! `hythe_last_error()`, too. The process takes part in the pool with the first of them
//! (`process`). A handle is the same for every opening of one semaphore, stays where it is until
//! the last close, and works in a forked child: there the first call on it joins the pool anew.

use core::ffi::{c_char, c_int, c_uint};
use std::os::fd::AsRawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use hythe::sync::{Deadline, Semaphore, SemaphoreOptions, SyncError};
use hythe_sys::fork::ForkSafe;

use crate::errno::set_errno;
use crate::ffi_guard::Process;
use crate::process::{self, cross};

/// For hythe_sem_open(): counts that a dead holder of a new semaphore had come back at once, and
/// its death is not reported.
pub const HYTHE_SEM_RECOVER: c_int = 0x2000_0000;

/// Most semaphores that a process has open.
const HANDLES_MAX: usize = 128;

/// A semaphore that is open. Any thread.
#[derive(Debug)]
pub struct hythe_sem {
    /// Never freed before the last close; replaced in a forked child.
    opened: AtomicPtr<OpenedHere>,
}

/// A semaphore as this process has it open.
#[derive(Debug)]
struct OpenedHere {
    semaphore: Semaphore,
    process: Process,
}

/// An entry of the table of handles.
#[derive(Debug)]
struct Entry {
    handle: Box<hythe_sem>,
    openings: usize,
}

static HANDLES: ForkSafe<Vec<Entry>> = ForkSafe::new(Vec::new());

/// A process that leaves by exit(3) closes its semaphores, as POSIX has it; one that is killed, or
/// leaves by _exit(2), dies with what it holds.
fn close_at_exit() {
    static ASKED: Once = Once::new();
    ASKED.call_once(|| {
        // SAFETY: it keeps the function, which lives as long as the program and takes nothing.
        let refused = unsafe { libc::atexit(forget_all) };
        // No memory for the entry: then its end counts as a death.
        let _ = refused;
    });
}

/// Other threads may go on, so nothing is freed.
extern "C" fn forget_all() {
    cross((), || {
        // The thread that exits may be the one that has it, in a signal handler.
        let Some(handles) = HANDLES.try_lock() else {
            return Ok(());
        };
        for entry in handles.iter() {
            let opened = entry.handle.opened.load(Ordering::Acquire);
            // SAFETY: it is what `here` made, and goes with the handle, which is in the table.
            let opened = unsafe { &*opened };
            if opened.process.is_own() {
                opened.semaphore.forget_holds()?;
            }
        }
        Ok(())
    });
}

impl hythe_sem {
    fn new(semaphore: Semaphore) -> Box<Self> {
        Box::new(Self {
            opened: AtomicPtr::new(Self::here(semaphore)),
        })
    }

    fn here(semaphore: Semaphore) -> *mut OpenedHere {
        let process = Process::own();
        Box::into_raw(Box::new(OpenedHere { semaphore, process }))
    }

    /// The semaphore, as this process has it.
    fn semaphore(&self) -> Result<&Semaphore, SyncError> {
        // Acquire pairs with the release in `reopen`.
        let opened = self.opened.load(Ordering::Acquire);
        // SAFETY: it is what `here` made, and goes with the handle, which the caller keeps open.
        let opened = unsafe { &*opened };
        if opened.process.is_own() {
            return Ok(&opened.semaphore);
        }
        self.reopen(&opened.semaphore)
    }

    /// In a forked child: the parent's is replaced. That value stays, as another thread may be
    /// about to look at it.
    #[cold]
    fn reopen(&self, inherited: &Semaphore) -> Result<&Semaphore, SyncError> {
        let node = process::node()?;
        let again = Self::here(inherited.reopen(&node)?);
        self.opened.store(again, Ordering::Release);
        // SAFETY: made just now, and goes with the handle.
        Ok(unsafe { &(*again).semaphore })
    }
}

/// As sem_open(3), with `mode` and `value` in any case: hythe_sem_open() of this header is the
/// function with the arguments of sem_open(3). NULL for SEM_FAILED. The pool is that of the
/// environment's HYTHE_POOL, else `default`. HYTHE_SEM_RECOVER may be in `oflag`. Any thread.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_sem_open_with(
    name: *const c_char,
    oflag: c_int,
    mode: c_uint,
    value: c_uint,
) -> *mut hythe_sem {
    cross(std::ptr::null_mut(), || {
        // SAFETY: the caller's word.
        let name = unsafe { process::name(name) }?;
        let mut options = SemaphoreOptions::default()
            .mode(mode & !process::mask())
            .exclusive(oflag & libc::O_EXCL != 0)
            .recover(oflag & HYTHE_SEM_RECOVER != 0);
        if oflag & libc::O_CREAT != 0 {
            options = options.create(value);
        }
        let node = process::node()?;
        close_at_exit();
        let semaphore = Semaphore::open(&node, name, &options)?;
        add(semaphore)
    })
}

/// A handle for it: the one that there is already, if there is.
fn add(semaphore: Semaphore) -> Result<*mut hythe_sem, SyncError> {
    let mut handles = HANDLES.lock();
    for entry in handles.iter_mut() {
        if entry
            .handle
            .semaphore()
            .is_ok_and(|open| open.is_same(&semaphore))
        {
            entry.openings += 1;
            return Ok(std::ptr::from_mut(entry.handle.as_mut()));
        }
    }
    if handles.len() == HANDLES_MAX {
        return Err(process::system("opening a semaphore", libc::EMFILE));
    }
    let mut handle = hythe_sem::new(semaphore);
    let given = std::ptr::from_mut(handle.as_mut());
    handles.push(Entry {
        handle,
        openings: 1,
    });
    Ok(given)
}

/// As sem_close(3): after the last, what this process has taken and not posted is nobody's hold any
/// more; so does exit(3). EINVAL for what is no open semaphore. Any thread.
///
/// # Safety
/// Nobody uses the handle after its last close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_sem_close(sem: *mut hythe_sem) -> c_int {
    cross(-1, || {
        let mut handles = HANDLES.lock();
        let mut entries = handles.iter();
        let found = entries.position(|entry| std::ptr::eq(&raw const *entry.handle, sem));
        let index = found.ok_or_else(no_semaphore)?;
        handles[index].openings -= 1;
        if handles[index].openings == 0 {
            let entry = handles.swap_remove(index);
            let opened = entry.handle.opened.load(Ordering::Acquire);
            // SAFETY: it is what `here` made, and this was the last that led to it.
            drop(unsafe { Box::from_raw(opened) });
        }
        Ok(0)
    })
}

/// As sem_unlink(3). Any thread.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_sem_unlink(name: *const c_char) -> c_int {
    cross(-1, || {
        // SAFETY: the caller's word.
        let name = unsafe { process::name(name) }?;
        let node = process::node()?;
        Semaphore::unlink(&node, name)?;
        Ok(0)
    })
}

/// As sem_wait(3). EOWNERDEAD, once, if a process died that had taken a count and not posted:
/// nothing was taken, and hythe_sem_recover() gives its counts back. A signal handler always ends
/// the wait with EINTR, also one with SA_RESTART. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sem_wait(sem: Option<&hythe_sem>) -> c_int {
    act(sem, |semaphore| semaphore.wait(Deadline::Never))
}

/// As sem_trywait(3); EOWNERDEAD as hythe_sem_wait(). Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sem_trywait(sem: Option<&hythe_sem>) -> c_int {
    act(sem, Semaphore::try_wait)
}

/// As sem_timedwait(3); EOWNERDEAD as hythe_sem_wait(). Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sem_timedwait(
    sem: Option<&hythe_sem>,
    abs_timeout: Option<&libc::timespec>,
) -> c_int {
    act(sem, |semaphore| match process::deadline(abs_timeout) {
        Ok(deadline) => semaphore.wait(deadline),
        // A wrong time is an error only if it is needed.
        Err(refused) => match semaphore.try_wait() {
            Err(SyncError::WouldBlock(_)) => Err(refused),
            done => done,
        },
    })
}

/// As sem_post(3): from a signal handler, too. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sem_post(sem: Option<&hythe_sem>) -> c_int {
    // No message is kept: that would allocate, which a signal handler must not.
    let posted = sem.map(|sem| sem.semaphore().and_then(Semaphore::post));
    match posted {
        Some(Ok(())) => 0,
        Some(Err(error)) => {
            set_errno(error.errno());
            -1
        }
        None => {
            set_errno(libc::EINVAL);
            -1
        }
    }
}

/// As sem_getvalue(3): 0 while others wait. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sem_getvalue(sem: Option<&hythe_sem>, value: Option<&mut c_int>) -> c_int {
    act(sem, |semaphore| {
        let found = semaphore.value()?;
        if let Some(place) = value {
            *place = found as c_int;
        }
        Ok(())
    })
}

/// Gives back what dead processes had taken and not posted. Returns how many counts those were, or
/// -1 and errno. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sem_recover(sem: Option<&hythe_sem>) -> c_int {
    cross(-1, || {
        let semaphore = sem.ok_or_else(no_semaphore)?.semaphore()?;
        Ok(semaphore.recover()? as c_int)
    })
}

/// A file descriptor that is readable while the value is not 0, for poll(), epoll and
/// hythe_wait_set_attach_fd(). It belongs to the semaphore: never close or read it. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sem_fd(sem: Option<&hythe_sem>) -> c_int {
    cross(-1, || {
        let semaphore = sem.ok_or_else(no_semaphore)?.semaphore()?;
        Ok(semaphore.descriptor()?.as_raw_fd())
    })
}

fn act(sem: Option<&hythe_sem>, inside: impl FnOnce(&Semaphore) -> Result<(), SyncError>) -> c_int {
    cross(-1, || {
        inside(sem.ok_or_else(no_semaphore)?.semaphore()?)?;
        Ok(0)
    })
}

fn no_semaphore() -> SyncError {
    process::system("using a semaphore that is not open", libc::EINVAL)
}
