//! Processes as the operating system knows them, in this PID namespace.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use hythe_pool::Identity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::pool::files::Place;

/// The identity of this process.
#[must_use]
pub fn own_identity() -> Identity {
    Identity {
        pid: std::process::id(),
        start_time: own_number()
            .and_then(|shown| start_time(&shown))
            .unwrap_or(0),
        pid_namespace: own_namespace(),
        uid: hythe_sys::identity::user(),
    }
}

/// The identity of another process in this PID namespace, if it exists.
#[must_use]
pub fn identity_of(pid: u32) -> Option<Identity> {
    let descriptor = open(pid).ok()?;
    let shown = shown_as(&descriptor)?;
    let uid = fs::metadata(format!("/proc/{shown}")).ok()?.uid();
    Some(Identity {
        pid,
        start_time: start_time(&shown)?,
        pid_namespace: own_namespace(),
        uid,
    })
}

fn own_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino())
}

/// Is it a process of this PID namespace, so that its process id means something here? Not if
/// either namespace is unknown.
pub(crate) fn is_here(identity: &Identity) -> bool {
    identity.pid_namespace != 0 && identity.pid_namespace == own_namespace()
}

/// The process id under which `/proc` shows the process of a pidfd: another one where `/proc` is
/// that of an outer namespace.
fn shown_as(descriptor: impl AsFd) -> Option<String> {
    let number = descriptor.as_fd().as_raw_fd();
    let shown = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let pid = shown.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    // 0: not to be seen in this `/proc`. -1: it has ended.
    let pid: u32 = pid.trim().parse().ok().filter(|pid| *pid > 0)?;
    Some(pid.to_string())
}

/// The process id under which `/proc` shows this process.
fn own_number() -> Option<String> {
    let shown = fs::read_link("/proc/self").ok()?;
    Some(shown.to_str()?.to_owned())
}

fn start_time(pid: &str) -> Option<u64> {
    stat_field(pid, 22)
}

/// A field of `stat`, behind the second, of the first thread: emulators of Linux make up their own
/// `stat` of the process, seen by nobody else. The name in field 2 may hold anything, so fields are
/// counted from its closing parenthesis.
fn stat_field(pid: &str, number: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    let field = after_name.split_ascii_whitespace().nth(number - 3)?;
    field.parse().ok()
}

/// Has a process ended, or begun to, as far as can be seen here? One that was killed closes its
/// files some time before the kernel says that it has ended.
pub(crate) fn is_ending(identity: &Identity) -> bool {
    /// Of `include/linux/sched.h`; `stat` shows it in field 9.
    const PF_EXITING: u64 = 4;
    match is_here(identity).then(|| process_of(identity)) {
        Some(Process::Ended) => true,
        None | Some(Process::Unknown) => false,
        Some(Process::Runs(process)) => {
            let flags = shown_as(&process).and_then(|shown| stat_field(&shown, 9));
            flags.is_some_and(|flags| flags & PF_EXITING != 0)
        }
    }
}

fn open(pid: u32) -> rustix::io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pidfd_open(pid.ok_or(rustix::io::Errno::INVAL)?, PidfdFlags::empty())
}

/// What a process of this namespace turned out to be.
#[derive(Debug)]
pub(crate) enum Process {
    /// It is over: proven by the kernel.
    Ended,
    /// It runs; the descriptor becomes readable when it ends.
    Runs(OwnedFd),
    /// It cannot be seen.
    Unknown,
}

/// Asks the kernel about a process of this namespace ([`is_here`]). A process id that now belongs
/// to another process (another start time) is a process that has ended.
pub(crate) fn process_of(identity: &Identity) -> Process {
    let descriptor = match open(identity.pid) {
        Err(rustix::io::Errno::SRCH) => return Process::Ended,
        // No descriptor left, or the call is refused: whether there is such a process can be asked
        // for all the same.
        Err(_) if !exists(identity.pid) => return Process::Ended,
        Err(_) => return Process::Unknown,
        Ok(descriptor) => descriptor,
    };
    // The start time is read after the descriptor was opened: if it is the right one, so is the
    // descriptor.
    let now = shown_as(&descriptor).and_then(|shown| start_time(&shown));
    let is_reused = identity.start_time != 0 && now.is_some_and(|now| now != identity.start_time);
    if is_reused || has_ended(&descriptor) {
        Process::Ended
    } else {
        Process::Runs(descriptor)
    }
}

/// Has the process of a pidfd this file mapped? `None`: it cannot be seen. One that has ended, or
/// become another program, has not.
pub(crate) fn maps_file(process: &OwnedFd, file: Place) -> Option<bool> {
    let shown = shown_as(process)?;
    // What the kernel shows of a mapping need not be what it says of the file: some file systems
    // have several devices.
    let own = mapped_files(&fs::read_to_string("/proc/self/maps").ok()?, file);
    if own.is_empty() {
        return None;
    }
    // The first thread may have ended before the others, and shows nothing then.
    let threads = match fs::read_dir(format!("/proc/{shown}/task")) {
        Ok(threads) => threads,
        Err(error) => return is_gone(&error).then_some(false),
    };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("maps")) {
            Ok(maps)
                if mapped_files(&maps, file)
                    .iter()
                    .any(|one| own.contains(one)) =>
            {
                return Some(true);
            }
            Ok(_) => {}
            Err(error) if is_gone(&error) => {}
            Err(_) => return None,
        }
    }
    Some(false)
}

/// Said of a thread that has ended meanwhile.
fn is_gone(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::NOENT | Errno::SRCH))
}

/// Device and inode of the mappings of this inode, as `maps` shows them.
fn mapped_files(maps: &str, file: Place) -> BTreeSet<(String, u64)> {
    let fields = maps.lines().map(str::split_ascii_whitespace);
    let files = fields.filter_map(|mut fields| {
        let device = fields.nth(3)?.to_owned();
        Some((device, fields.next()?.parse().ok()?))
    });
    files.filter(|(_, inode)| *inode == file.inode()).collect()
}

fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let asked = pid.map(rustix::process::test_kill_process);
    !matches!(asked, Some(Err(rustix::io::Errno::SRCH)))
}

/// Has the process of this pidfd ended?
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(process, PollFlags::IN)];
    match poll(&mut asked, Some(&Timespec::default())) {
        Ok(ready) => ready > 0,
        Err(Errno::INTR) => false,
        // Refused: a zombie is not seen to have ended then, but its connection has hung up.
        Err(_) => hythe_sys::peer::is_reaped(process),
    }
}

/// Has the other end of this connection been closed?
pub(crate) fn has_hung_up(connection: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(connection, PollFlags::empty())];
    match poll(&mut asked, Some(&Timespec::default())) {
        Ok(ready) => ready > 0,
        Err(Errno::INTR) => false,
        Err(_) => {
            let mut byte = [0_u8];
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            let received = recv(connection, &mut byte, flags);
            matches!(received, Ok((_, 0)) | Err(Errno::CONNRESET))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives() {
        assert!(matches!(process_of(&own_identity()), Process::Runs(_)));
    }

    #[test]
    fn reused_id_is_dead() {
        let other = Identity {
            start_time: 1,
            ..own_identity()
        };
        assert!(matches!(process_of(&other), Process::Ended));
    }

    #[test]
    fn zombie_is_dead() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let identity = identity_of(child.id()).expect("the child exists until it is waited for");
        while matches!(process_of(&identity), Process::Runs(_)) {
            std::thread::yield_now();
        }
        assert!(matches!(process_of(&identity), Process::Ended));
        assert!(is_ending(&identity) && !is_ending(&own_identity()));
        child.wait().expect("waited");
        assert!(matches!(process_of(&identity), Process::Ended));
    }

    #[test]
    fn another_namespace_is_not_here() {
        let own = own_identity();
        assert!(is_here(&own));
        for pid_namespace in [0, 1] {
            assert!(!is_here(&Identity {
                pid_namespace,
                ..own
            }));
        }
    }

    #[test]
    fn both_ways_to_an_identity_agree() {
        assert_eq!(identity_of(std::process::id()), Some(own_identity()));
    }
}
