//! What a `fork` without `exec` leaves behind: telling the copy from the original.

#![allow(
    unsafe_code,
    reason = "this is the island: memory that the kernel clears on fork, and fork itself"
)]

use std::io;
use std::process;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Calls `before` in each thread that forks with the C library's `fork`, and then `parent` in the
/// parent and `child` in the child, for as long as the program runs.
///
/// # Errors
/// No memory for the entry.
pub fn at_fork(
    before: extern "C" fn(),
    parent: extern "C" fn(),
    child: extern "C" fn(),
) -> io::Result<()> {
    // SAFETY: it keeps the three functions, which live as long as the program; they take nothing.
    let refused = unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
    match refused {
        0 => Ok(()),
        refused => Err(io::Error::from_raw_os_error(refused)),
    }
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
    fn a_copy_knows_that_it_is_one() {
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
