//! What a `fork` without `exec` leaves behind: telling the copy from the original, and no lock that
//! nobody gives back.

#![allow(
    unsafe_code,
    reason = "this is the island: memory that the kernel clears on fork, and fork itself"
)]

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::{Deref, DerefMut};
use std::process;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{
    Mutex, MutexGuard, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;

/// An advice that there is not. QEMU's user mode (7.2) says yes to any advice and does nothing:
/// where this one is taken, a yes means nothing.
const NO_ADVICE: i32 = -1;

/// A word that only the process which made it reads as set: the kernel clears its page in a child
/// (`MADV_WIPEONFORK`, Linux 4.14). Asking costs one load.
///
/// Where the kernel or an emulator cannot do that, asking costs a system call: the process id is
/// compared.
#[derive(Debug)]
pub struct ForkMark {
    page: NonNull<u32>,
    bytes: usize,
    /// Of the process that made it, where the page stays as it is on fork.
    process: Option<u32>,
}

// SAFETY: the page is reached through an atomic only, and is unmapped with the value.
unsafe impl Send for ForkMark {}
// SAFETY: as above.
unsafe impl Sync for ForkMark {}

impl ForkMark {
    /// Marks this process as the original.
    ///
    /// # Errors
    /// What `mmap` says: no memory.
    pub fn new() -> io::Result<Self> {
        let bytes = page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a null hint never replaces an existing mapping.
        let page =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
        // SAFETY: exactly the mapping made above; the kernel refuses to do what no number stands
        // for.
        let believable = unsafe { libc::madvise(page, bytes, NO_ADVICE) } != 0;
        // SAFETY: exactly the mapping made above; the advice changes nothing for this process.
        let wiped = unsafe { madvise(page, bytes, Advice::LinuxWipeOnFork) };
        let page = NonNull::new(page.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mark = Self {
            page,
            bytes,
            process: (!believable || wiped.is_err()).then(process::id),
        };
        mark.word().store(1, Ordering::Relaxed);
        Ok(mark)
    }

    /// Is this a copy in a forked child?
    #[inline]
    #[must_use]
    pub fn is_copy(&self) -> bool {
        match self.process {
            None => self.word().load(Ordering::Relaxed) == 0,
            Some(original) => original != process::id(),
        }
    }

    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped and aligned for as long as `self` lives, and only used as this
        // atomic.
        unsafe { AtomicU32::from_ptr(self.page.as_ptr()) }
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        // SAFETY: `page` and `bytes` are those of a mapping that this value alone owns; no
        // reference outlives it.
        let unmapped = unsafe { munmap(self.page.as_ptr().cast(), self.bytes) };
        // Refused by a seccomp filter: the page stays until the process ends.
        debug_assert_ne!(
            unmapped,
            Err(rustix::io::Errno::INVAL),
            "munmap of what is not a mapping"
        );
    }
}

/// Read by operations, written by forks.
static UNDER_WAY: RwLock<()> = RwLock::new(());

thread_local! {
    /// How many operations of this thread are under way, one inside the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Held by the thread that forks, from just before to just after.
    static FORKING: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// An operation is under way in this thread, and the C library's `fork` in another waits for its
/// end: a child has one thread, and would never get a lock that the operation has. So does not a
/// raw `clone`.
#[derive(Debug)]
pub struct ForksWait {
    /// `None` in an operation inside another.
    _shared: Option<RwLockReadGuard<'static, ()>>,
}

impl ForksWait {
    /// Until the value goes. Operations do not wait for each other.
    #[must_use]
    pub fn new() -> Self {
        static GUARDED: Once = Once::new();
        GUARDED.call_once(|| {
            let (before, after) = (before_fork, after_fork);
            // SAFETY: it keeps the functions, which live as long as the program and take nothing.
            let refused = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
            // No memory for the entry: a child may wait in vain, as above.
            let _ = refused;
        });
        // A thread that ends has no place any more, and begins nothing inside an operation.
        let depth = DEPTH.try_with(|depth| depth.replace(depth.get() + 1));
        let is_outermost = depth.is_ok_and(|depth| depth == 0);
        Self {
            _shared: is_outermost.then(|| UNDER_WAY.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl Default for ForksWait {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ForksWait {
    fn drop(&mut self) {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() - 1));
    }
}

/// A mutex that no child is born with taken: a [`ForksWait`] for as long as it is locked. What a
/// panic left is used as it is.
#[derive(Debug)]
pub struct ForkSafe<T>(Mutex<T>);

/// A [`ForkSafe`] that is locked.
#[derive(Debug)]
pub struct ForkSafeGuard<'m, T> {
    guard: MutexGuard<'m, T>,
    _forks: ForksWait,
}

impl<T> ForkSafe<T> {
    /// With this value in it.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for it.
    pub fn lock(&self) -> ForkSafeGuard<'_, T> {
        let forks = ForksWait::new();
        ForkSafeGuard {
            guard: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            _forks: forks,
        }
    }

    /// The value, if nobody has it.
    pub fn try_lock(&self) -> Option<ForkSafeGuard<'_, T>> {
        let forks = ForksWait::new();
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(ForkSafeGuard {
            guard,
            _forks: forks,
        })
    }
}

impl<T> Deref for ForkSafeGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for ForkSafeGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

extern "C" fn before_fork() {
    // A signal handler that forks in the middle of an operation would wait for its own thread.
    if DEPTH.try_with(Cell::get).is_ok_and(|depth| depth == 0) {
        let guard = UNDER_WAY.write().unwrap_or_else(PoisonError::into_inner);
        let _ = FORKING.try_with(|place| place.replace(Some(guard)));
    }
}

extern "C" fn after_fork() {
    let _ = FORKING.try_with(RefCell::take);
}

/// Runs `body` in a child made by `fork` alone and returns its exit status, or 128 and more if a
/// signal ended it. The child runs nothing but `body`: no destructors of the caller, no handlers at
/// exit. For tests of what such a child may do.
///
/// The child of a process with several threads may call only what does not wait for another thread:
/// those are not there.
///
/// # Errors
/// What `fork` or `waitpid` says.
pub fn run_in_child(body: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: the child runs `body`, which keeps to the rule above, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends the process at once; takes no pointer.
        unsafe { libc::_exit(ended.unwrap_or(101)) };
    }
    let child = rustix::process::Pid::from_raw(child).ok_or(io::ErrorKind::InvalidData)?;
    let options = rustix::process::WaitOptions::empty();
    let ended = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(child), options))?;
    let (_, status) = ended.ok_or(io::ErrorKind::InvalidData)?;
    let signal = status.terminating_signal().unwrap_or(0);
    Ok(status.exit_status().unwrap_or(128 + signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_knows_that_it_is_one() {
        let mark = ForkMark::new().unwrap();
        assert!(!mark.is_copy());
        assert_eq!(run_in_child(|| i32::from(mark.is_copy())).unwrap(), 1);
        let in_grandchild =
            || run_in_child(|| i32::from(mark.is_copy())).map_or(99, |status| status + 1);
        assert_eq!(run_in_child(in_grandchild).unwrap(), 2);
        let own = || i32::from(ForkMark::new().unwrap().is_copy());
        assert_eq!(run_in_child(own).unwrap(), 0);
        assert!(!mark.is_copy());
    }

    #[test]
    fn without_help_of_the_kernel_the_process_is_compared() {
        let mut mark = ForkMark::new().unwrap();
        mark.process = Some(process::id());
        assert!(!mark.is_copy());
        assert_eq!(run_in_child(|| i32::from(mark.is_copy())).unwrap(), 1);
    }

    /// Whether the lock is free in a child, forked while other threads take it all the time.
    fn is_free_in_child(lock: &'static ForkSafe<()>) -> bool {
        let ended = run_in_child(|| i32::from(lock.try_lock().is_none()));
        ended.unwrap() == 0
    }

    #[test]
    fn fork_waits_for_operations_and_they_for_no_other() {
        static LOCK: ForkSafe<()> = ForkSafe::new(());
        static ENDS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        let operations = || {
            while !ENDS.load(Ordering::Relaxed) {
                let _outer = ForksWait::new();
                drop(LOCK.lock());
            }
        };
        let threads = [(); 3].map(|()| std::thread::spawn(operations));
        let free = (0..200).filter(|_| is_free_in_child(&LOCK)).count();
        ENDS.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(free, 200);
    }

    #[test]
    fn fork_inside_an_operation_of_its_own_thread_goes_on() {
        let _operation = ForksWait::new();
        assert_eq!(run_in_child(|| 3).unwrap(), 3);
    }

    #[test]
    fn how_a_child_ended_is_told() {
        assert_eq!(run_in_child(|| 7).unwrap(), 7);
        let killed = || {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
            0
        };
        assert_eq!(run_in_child(killed).unwrap(), 128 + 9);
    }
}
