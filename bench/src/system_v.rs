//! System V shared memory and semaphores, for the systems `sysv`: the calls themselves.
//!
//! No crate of the workspace has them behind safe functions, and the product does not call them, so
//! they stand here: one of the files that the rule on `unsafe` lists (`cargo xtask tidy`).
//!
//! Bytes are copied in and out, never lent: another process may write the segment at any moment.
//! Neither object outlives those who use it: a segment goes with the last process that has it
//! attached, a set of semaphores with the value that made it.
#![allow(
    unsafe_code,
    reason = "System V calls, which rustix does not have and the product does not need"
)]

use std::ffi::c_int;
use std::io;
use std::ptr::{self, NonNull};
use std::time::Duration;

// The crate libc does not declare it.
// SAFETY: the declaration of glibc's and musl's `sys/sem.h`.
unsafe extern "C" {
    fn semtimedop(
        set: c_int,
        operations: *mut libc::sembuf,
        count: libc::size_t,
        timeout: *const libc::timespec,
    ) -> c_int;
}

/// What only the own user may do.
const MODE: c_int = 0o600;

/// A segment of shared memory, attached to this process.
#[derive(Debug)]
pub(crate) struct Segment {
    id: c_int,
    base: NonNull<u8>,
    bytes: usize,
}

impl Segment {
    /// Makes a segment and attaches it.
    ///
    /// # Errors
    /// What `shmget` and `shmat` return: no memory, or more than the system's limit
    /// (`/proc/sys/kernel/shmmax`).
    pub(crate) fn create(bytes: usize) -> io::Result<Self> {
        Self::create_with(bytes, 0)
    }

    /// The same of huge pages.
    ///
    /// # Errors
    /// As [`Self::create`]; no huge pages are set aside (`/proc/sys/vm/nr_hugepages`).
    pub(crate) fn create_huge(bytes: usize) -> io::Result<Self> {
        Self::create_with(bytes, libc::SHM_HUGETLB)
    }

    fn create_with(bytes: usize, flags: c_int) -> io::Result<Self> {
        let flags = libc::IPC_CREAT | MODE | flags;
        // SAFETY: takes no pointer.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, flags) };
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        let segment = Self::attach(id);
        // From now on it goes with the last who has it attached; Linux lets others attach until
        // then. SAFETY: this command reads no buffer.
        unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) };
        segment
    }

    /// Attaches a segment that another process has made and still has attached.
    ///
    /// # Errors
    /// What `shmat` and `shmctl` return: there is none with this number, or it is another user's.
    pub(crate) fn attach(id: i32) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address, so nothing that is mapped is touched.
        let base = unsafe { libc::shmat(id, ptr::null(), 0) };
        // The error is the address -1.
        if base.addr() == usize::MAX {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut segment = Self { id, base, bytes: 0 };
        segment.bytes = segment.size()?;
        Ok(segment)
    }

    /// What another process attaches it by.
    #[must_use]
    pub(crate) const fn id(&self) -> i32 {
        self.id
    }

    /// Copies `from` into it, `at` bytes behind its start.
    ///
    /// # Panics
    /// If that is not inside it.
    #[inline]
    pub(crate) fn copy_in(&self, at: usize, from: &[u8]) {
        let to = self.place(at, from.len());
        // SAFETY: `place` has checked that the range is inside the mapping, which lives as long as
        // `self`; a slice of ours never overlaps it, because none over it is ever made. Another
        // process may write it meanwhile: no value but bytes comes of it.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Copies from it, `at` bytes behind its start, into the whole of `to`.
    ///
    /// # Panics
    /// If that is not inside it.
    #[inline]
    pub(crate) fn copy_out(&self, at: usize, to: &mut [u8]) {
        let from = self.place(at, to.len());
        // SAFETY: as in `copy_in`; `to` is ours alone.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    fn place(&self, at: usize, bytes: usize) -> *mut u8 {
        let end = at.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.bytes),
            "{bytes} bytes at {at} of a segment of {}",
            self.bytes
        );
        // Stays inside the mapping: checked above.
        self.base.as_ptr().wrapping_add(at)
    }

    fn size(&self) -> io::Result<usize> {
        // SAFETY: a structure of integers, for which all zeros is a value.
        let mut status: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the command writes one such structure, which lives until the call is over.
        check(unsafe { libc::shmctl(self.id, libc::IPC_STAT, &raw mut status) })?;
        Ok(status.shm_segsz)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: attached by us at this address and detached here only; nothing borrows from it.
        unsafe { libc::shmdt(self.base.as_ptr().cast()) };
    }
}

/// A set of semaphores.
#[derive(Debug)]
pub(crate) struct Semaphores {
    id: c_int,
    is_maker: bool,
}

impl Semaphores {
    /// Makes `count` semaphores, all 0.
    ///
    /// # Errors
    /// What `semget` returns: the system has no more sets.
    pub(crate) fn create(count: u16) -> io::Result<Self> {
        // SAFETY: takes no pointer.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, count.into(), libc::IPC_CREAT | MODE) };
        check(id)?;
        let is_maker = true;
        Ok(Self { id, is_maker })
    }

    /// Those that another process has made. Whether there are any shows at first use.
    #[must_use]
    pub(crate) const fn open(id: i32) -> Self {
        let is_maker = false;
        Self { id, is_maker }
    }

    /// What another process opens them by.
    #[must_use]
    pub(crate) const fn id(&self) -> i32 {
        self.id
    }

    /// Adds one to the semaphore `index`.
    ///
    /// # Errors
    /// What `semop` returns: the set is gone, or has no such semaphore.
    pub(crate) fn post(&self, index: u16) -> io::Result<()> {
        self.operate(index, 1, None)
    }

    /// Takes one from the semaphore `index`, sleeping while it is 0. False: it was so for all of
    /// `timeout`, or a signal came.
    ///
    /// # Errors
    /// What `semtimedop` returns: the set is gone, or has no such semaphore.
    pub(crate) fn take(&self, index: u16, timeout: Duration) -> io::Result<bool> {
        match self.operate(index, -1, Some(timeout)) {
            Ok(()) => Ok(true),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn operate(&self, index: u16, change: i16, timeout: Option<Duration>) -> io::Result<()> {
        let mut operation = libc::sembuf {
            sem_num: index,
            sem_op: change,
            sem_flg: 0,
        };
        let operation = &raw mut operation;
        let Some(timeout) = timeout else {
            // SAFETY: points to the one operation that the length says, alive until the call is
            // over.
            return check(unsafe { libc::semop(self.id, operation, 1) });
        };
        let bound = libc::timespec {
            // A time-out beyond the range is as good as the largest.
            tv_sec: timeout.as_secs().try_into().unwrap_or(i32::MAX.into()),
            // Fits: it is less than 10^9.
            tv_nsec: timeout.subsec_nanos() as libc::c_long,
        };
        // SAFETY: as above; the bound lives as long.
        check(unsafe { semtimedop(self.id, operation, 1, &raw const bound) })
    }
}

impl Drop for Semaphores {
    fn drop(&mut self) {
        if self.is_maker {
            // SAFETY: this command takes no fourth argument.
            unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
        }
    }
}

fn check(returned: c_int) -> io::Result<()> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_testing::watched;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn segment_carries_bytes_to_other_process() {
        let here = Segment::create(4096).expect("made");
        let there = Segment::attach(here.id()).expect("attached while the first is");
        assert_eq!((here.bytes, there.bytes), (4096, 4096));
        here.copy_in(4092, b"edge");
        let mut read = [0; 4];
        there.copy_out(4092, &mut read);
        assert_eq!(&read, b"edge");
        let id = here.id();
        drop((here, there));
        assert!(Segment::attach(id).is_err(), "it stayed behind");
    }

    #[test]
    #[should_panic(expected = "2 bytes at 4095 of a segment of 4096")]
    fn nothing_is_copied_past_the_end() {
        Segment::create(4096).expect("made").copy_in(4095, b"no");
    }

    #[test]
    fn semaphore_is_taken_as_often_as_it_was_posted() {
        let made = Semaphores::create(2).expect("made");
        let opened = Semaphores::open(made.id());
        opened.post(1).expect("posted");
        assert!(!made.take(0, SOON).expect("there"), "the other one's");
        assert!(made.take(1, SOON).expect("there"));
        assert!(!made.take(1, SOON).expect("there"), "taken already");
        assert!(made.post(2).is_err(), "there are two");
        drop(made);
        assert!(opened.post(0).is_err(), "they stayed behind");
    }

    #[test]
    fn sleeper_is_woken() {
        let made = Semaphores::create(1).expect("made");
        std::thread::scope(|scope| {
            let (thread, take) = watched(|| made.take(0, Duration::from_secs(60)));
            let sleeper = scope.spawn(take);
            thread.until_asleep();
            made.post(0).expect("posted");
            let taken = sleeper.join().expect("joined");
            assert!(taken.expect("there"));
        });
    }
}
