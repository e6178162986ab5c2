//! A signal whose handler does not ask for restarting ends no read into a mapping.

// Miri maps no files and delivers no signals.
#![cfg(not(any(loom, miri)))]
#![allow(unsafe_code, reason = "a handler, and a signal to one thread")]

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use hythe_memory::{Access, Mapped};
use hythe_testing::eventually;

const PAGE: usize = 4096;
/// Only ends a test that has failed.
const BOUND: Duration = Duration::from_secs(60);

static CAUGHT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn caught(_: libc::c_int) {
    CAUGHT.fetch_add(1, Ordering::SeqCst);
}

fn catch_without_restart() {
    // SAFETY: zeroes are a `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = caught as extern "C" fn(libc::c_int) as usize;
    // SAFETY: the handler only counts.
    let set = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
}

fn sleeps(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, state)| state.starts_with('S'))
}

#[test]
fn read_from_a_pipe_goes_on_after_a_signal() {
    catch_without_restart();
    let file = rustix::fs::memfd_create("read", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    rustix::fs::ftruncate(&file, PAGE as u64).expect("length");
    let memory = Mapped::file(&file, 0, PAGE, Access::Write).expect("mapped");
    let (from, to) = rustix::pipe::pipe().expect("a pipe");
    let (tell, told) = channel();
    let into = memory.clone();
    let reader = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get())
            .expect("heard");
        into.read_stream(from.as_fd(), 0, PAGE)
    });
    let thread = told.recv_timeout(BOUND).expect("started");
    for times in 1..=3 {
        eventually("it waits in read", || {
            sleeps(thread) || reader.is_finished()
        });
        assert!(!reader.is_finished(), "a signal ended it");
        let process = std::process::id();
        // By number: the type of a thread's handle is not the same in every C library.
        // SAFETY: three numbers; the thread waits, so its number is no other's.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
        assert_eq!(sent, 0);
        eventually("the signal is caught", || {
            CAUGHT.load(Ordering::SeqCst) == times
        });
    }
    File::from(to).write_all(b"heard").expect("it listens");
    assert_eq!(reader.join().expect("no panic").expect("read"), 5);
    let mut found = [0; 5];
    memory.read(0, &mut found);
    assert_eq!(&found, b"heard");
}
