//! Waits that end, whatever the kernel refuses.
//!
//! For threads that wait in a loop: a `poll` that fails returns at once, and a loop that takes the
//! failure for a short wait spins. Used by the watcher of a node, the agent of a core, and the
//! sleeps of commands and shows.

#![allow(
    unsafe_code,
    reason = "this is the island: pages mapped to see whether they are granted, and `select`"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{
    FdSetElement, FdSetIter, PollFd, Timespec, fd_set_insert, fd_set_num_elements, select,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;
use rustix::thread::{NanosleepRelativeResult, futex, nanosleep};

use crate::signals::unblock_faults;

/// Waits until a descriptor is ready, at most for `timeout`. Returns how many are; 0 also after an
/// interruption.
///
/// # Errors
/// The kernel refuses to wait: there are more descriptors than RLIMIT_NOFILE (`EINVAL`), or a
/// seccomp filter. `timeout` has been slept through then, and nothing is known about the
/// descriptors.
pub fn poll_or_sleep(descriptors: &mut [PollFd<'_>], timeout: Duration) -> io::Result<usize> {
    match rustix::event::poll(descriptors, Some(&timespec(timeout))) {
        Ok(ready) => Ok(ready),
        Err(Errno::INTR) => Ok(0),
        Err(error) => {
            sleep(timeout);
            Err(error.into())
        }
    }
}

/// As [`poll_or_sleep`], for a loop that must hear of what it waits for also where `poll` is
/// refused: `select` is asked then, which knows no limit of open files. Which of the descriptors
/// are ready, in their order; none after an interruption.
pub fn ready(descriptors: &mut [PollFd<'_>], timeout: Duration) -> Vec<bool> {
    match rustix::event::poll(descriptors, Some(&timespec(timeout))) {
        Ok(_) => descriptors
            .iter()
            .map(|one| !one.revents().is_empty())
            .collect(),
        Err(Errno::INTR) => vec![false; descriptors.len()],
        Err(_) => selected(descriptors, timeout).unwrap_or_else(|error| {
            if error != Errno::INTR {
                sleep(timeout);
            }
            vec![false; descriptors.len()]
        }),
    }
}

/// Only for descriptors that are waited for to become readable, which is all that a thread of ours
/// waits for in a loop.
fn selected(descriptors: &[PollFd<'_>], timeout: Duration) -> rustix::io::Result<Vec<bool>> {
    let numbers: Vec<RawFd> = descriptors
        .iter()
        .map(|one| one.as_fd().as_raw_fd())
        .collect();
    let count = numbers.iter().max().map_or(0, |most| most + 1);
    let mut readable = vec![FdSetElement::default(); fd_set_num_elements(numbers.len(), count)];
    for number in &numbers {
        fd_set_insert(&mut readable, *number);
    }
    let timeout = timespec(timeout);
    // SAFETY: every descriptor in the set is open: `descriptors` borrows it.
    unsafe { select(count, Some(&mut readable), None, None, Some(&timeout)) }?;
    let found: Vec<RawFd> = FdSetIter::new(&readable).collect();
    Ok(numbers
        .iter()
        .map(|number| found.contains(number))
        .collect())
}

/// Sleeps for so long, or less after an interruption. Unlike the sleep of the standard library it
/// does not panic where a seccomp filter refuses the system call: it sleeps on a futex that nobody
/// wakes.
pub fn sleep(duration: Duration) {
    let duration = timespec(duration);
    if let NanosleepRelativeResult::Err(_) = nanosleep(&duration) {
        let nobody = AtomicU32::new(0);
        // It times out, is interrupted, or is refused as well: then there is nothing left to sleep
        // by.
        let _ = futex::wait(&nobody, futex::Flags::PRIVATE, 0, Some(&duration));
    }
}

/// Does the kernel let this thread use futexes? Where it does not, the C library ends the process
/// in the middle of `pthread_join`.
///
/// # Errors
/// What `futex` says.
pub fn check_futex() -> io::Result<()> {
    let nobody = AtomicU32::new(0);
    futex::wake(&nobody, futex::Flags::PRIVATE, 1)?;
    Ok(())
}

/// Starts a thread, which takes the signals of its own faults. It needs fresh pages in its first
/// steps, some of them protected: where the kernel refuses that, the standard library or the C
/// library ends the process, so it is tried before.
///
/// # Errors
/// What `mmap`, `mprotect` or `clone` say.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    check_fresh_pages()?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(|| {
        unblock_faults();
        body();
    })
}

fn check_fresh_pages() -> io::Result<()> {
    let bytes = page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a null hint never replaces an existing mapping.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }?;
    // SAFETY: exactly the mapping made above, which nobody else knows.
    let protected = unsafe { mprotect(page, bytes, MprotectFlags::empty()) };
    // SAFETY: as above. Refused: the page stays.
    let _ = unsafe { munmap(page, bytes) };
    Ok(protected?)
}

/// Waits for the end of a thread that was told to end. One that panicked has ended, too.
///
/// Where futexes are refused `pthread_join` ends the process. There the end of what the thread runs
/// is waited for, and its last steps inside the C library are left to themselves.
pub fn for_end_of(thread: JoinHandle<()>) {
    if check_futex().is_ok() {
        let _ = thread.join();
        return;
    }
    while !thread.is_finished() {
        sleep(Duration::from_millis(1));
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, PollFlags, eventfd};
    use std::time::Instant;

    const NAP: Duration = Duration::from_millis(20);

    #[test]
    fn poll_that_is_refused_takes_its_time() {
        let event = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        assert_eq!(
            poll_or_sleep(&mut [PollFd::new(&event, PollFlags::IN)], NAP).unwrap(),
            1
        );
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let too_many = limit.current.unwrap_or(0) as usize + 1;
        if too_many > 1 << 21 {
            eprintln!("SKIPPED: the limit of open files is {too_many}: more are too many");
            return;
        }
        let mut descriptors: Vec<PollFd<'_>> = (0..too_many)
            .map(|_| PollFd::new(&event, PollFlags::IN))
            .collect();
        let start = Instant::now();
        let refused = poll_or_sleep(&mut descriptors, NAP).unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::INVAL));
        assert!(start.elapsed() >= NAP);
        assert_eq!(ready(&mut descriptors, NAP), vec![true; too_many]);
        rustix::io::read(&event, &mut [0; 8]).unwrap();
        let start = Instant::now();
        assert_eq!(ready(&mut descriptors, NAP), vec![false; too_many]);
        assert!(start.elapsed() >= NAP);
    }

    #[test]
    fn sleep_lasts_and_futexes_work_here() {
        let start = Instant::now();
        sleep(NAP);
        assert!(start.elapsed() >= NAP);
        check_futex().unwrap();
    }
}
