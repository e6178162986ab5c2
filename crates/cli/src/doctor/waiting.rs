//! Bells and wait sets: futexes, waiting on several of them, io_uring; hearing of the death of a
//! peer.

use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU32;

use hythe_sys::peer;
use hythe_sys::probe::try_io_uring;
use rustix::io::Errno;
use rustix::thread::futex::{Flags, Wait, WaitFlags, WaitPtr, WaitvFlags, wait, waitv, wake};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::kernel::read;
use super::{Group, Probe};

/// How long a wait that nobody ends lasts.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

pub(super) fn probe() -> Vec<Probe> {
    vec![futex(), futex_waitv(), io_uring(), peer_pidfd()]
}

fn futex() -> Probe {
    let (group, name) = (Group::Waiting, "futex");
    let word = AtomicU32::new(7);
    let waited = wait(&word, Flags::empty(), 7, Some(&WAIT));
    let refused = wait(&word, Flags::empty(), 8, Some(&WAIT));
    let woken = wake(&word, Flags::empty(), 1);
    if (waited, refused, woken) == (Err(Errno::TIMEDOUT), Err(Errno::AGAIN), Ok(0)) {
        return Probe::works(
            group,
            name,
            "a wait ended at its time-out, a late one was refused",
        );
    }
    Probe::missing(
        group,
        name,
        format!("wait {waited:?}, late wait {refused:?}, wake {woken:?}"),
    )
}

fn futex_waitv() -> Probe {
    let (group, name) = (Group::Waiting, "futex_waitv");
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let wait_sets = words.each_ref().map(|word| {
        let mut wait = Wait::new();
        wait.uaddr = WaitPtr::new(word.as_ptr().cast());
        wait.flags = WaitFlags::SIZE_U32;
        wait
    });
    // This call takes a point in time, not a length.
    let now = clock_gettime(ClockId::Monotonic);
    let end = now + WAIT;
    match waitv(
        &wait_sets,
        WaitvFlags::empty(),
        Some(&end),
        ClockId::Monotonic,
    ) {
        Err(Errno::TIMEDOUT) => {
            Probe::works(group, name, "a wait on two words ended at its time-out")
        }
        Err(Errno::NOSYS) => Probe::missing(group, name, "the kernel does not have it")
            .enable("Linux 5.16 or later; until then one bell word per participant is waited on"),
        other => Probe::missing(group, name, format!("a wait on two words gave {other:?}")),
    }
}

fn io_uring() -> Probe {
    let (group, name) = (Group::Waiting, "io_uring");
    match try_io_uring() {
        Ok(()) => Probe::works(group, name, "a ring was set up"),
        Err(error) => {
            let disabled = read("/proc/sys/kernel/io_uring_disabled").filter(|value| value != "0");
            let (detail, how) = match disabled {
                Some(value) => (
                    format!("{error}: kernel.io_uring_disabled is {value}"),
                    "sysctl kernel.io_uring_disabled=0",
                ),
                None => (
                    format!("{error}: not compiled in, or filtered (containers do)"),
                    "CONFIG_IO_URING; in a container a seccomp profile that allows io_uring_setup",
                ),
            };
            Probe::missing(group, name, detail).enable(how)
        }
    }
}

/// What tells of a death in another container.
fn peer_pidfd() -> Probe {
    let (group, name) = (Group::Waiting, "SO_PEERPIDFD");
    match UnixStream::pair().and_then(|(one, _other)| peer::peer_pidfd(&one)) {
        Ok(_) => Probe::works(group, name, "a peer's death is seen across containers"),
        Err(error) => {
            let detail = format!(
                "{error}: across containers a death is seen when the peer's socket hangs up"
            );
            Probe::missing(group, name, detail).enable("Linux 6.5")
        }
    }
}
