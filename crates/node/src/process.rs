//! Processes as the operating system knows them.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use hythe_pool::Identity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The identity of this process.
#[must_use]
pub fn own_identity() -> Identity {
    let pid = std::process::id();
    identity_of(pid).unwrap_or(Identity {
        pid,
        start_time: 0,
        pid_namespace: own_namespace(),
        uid: rustix::process::getuid().as_raw(),
    })
}

/// The identity of another process in this PID namespace, if it exists.
#[must_use]
pub fn identity_of(pid: u32) -> Option<Identity> {
    let start_time = start_time(pid)?;
    let uid = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    Some(Identity {
        pid,
        start_time,
        pid_namespace: own_namespace(),
        uid,
    })
}

fn own_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino())
}

/// Field 22 of `/proc/PID/stat`. The name in field 2 may hold anything, so fields are counted from its closing parenthesis.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether the process of a participant still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It does.
    Alive,
    /// It does not: proven by the kernel. What it held goes back when the next participant looks.
    Dead,
    /// It cannot be seen from here: another PID namespace, or no permission.
    Unknown,
}

/// Asks the kernel whether the process of a participant still exists.
#[must_use]
pub fn liveness(member: &hythe_pool::MemberInfo) -> Liveness {
    match life_of(&member.identity) {
        Life::Alive(_) => Liveness::Alive,
        Life::Dead => Liveness::Dead,
        Life::Unknown => Liveness::Unknown,
    }
}

/// What a process turned out to be.
pub(crate) enum Life {
    /// It is over: proven by the kernel.
    Dead,
    /// It lives; the descriptor becomes readable when it dies.
    Alive(OwnedFd),
    /// It cannot be seen from here (another PID namespace, no permission).
    Unknown,
}

/// Asks the kernel. A process id that now belongs to another process (another start time) is a dead process.
pub(crate) fn life_of(identity: &Identity) -> Life {
    // Unknown while its owner joins: then it is looked for here.
    if identity.pid_namespace != 0 && identity.pid_namespace != own_namespace() {
        return Life::Unknown;
    }
    let Some(pid) = i32::try_from(identity.pid).ok().and_then(Pid::from_raw) else {
        return Life::Unknown;
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => Life::Dead,
        Err(_) => Life::Unknown,
        // The start time is read after the descriptor was opened: if it is the right one, so is the descriptor.
        Ok(descriptor) => {
            let reused = identity.start_time != 0
                && start_time(identity.pid).is_some_and(|now| now != identity.start_time);
            if reused || has_ended(&descriptor) {
                Life::Dead
            } else {
                Life::Alive(descriptor)
            }
        }
    }
}

/// Has the process of this descriptor ended?
pub(crate) fn has_ended(descriptor: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(descriptor, PollFlags::IN)];
    let no_wait = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut asked, Some(&no_wait)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives() {
        assert!(matches!(life_of(&own_identity()), Life::Alive(_)));
    }

    #[test]
    fn a_reused_id_is_dead() {
        let other = Identity {
            start_time: 1,
            ..own_identity()
        };
        assert!(matches!(life_of(&other), Life::Dead));
    }

    #[test]
    fn a_zombie_is_dead() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let identity = identity_of(child.id()).expect("the child exists until it is waited for");
        while matches!(life_of(&identity), Life::Alive(_)) {
            std::thread::yield_now();
        }
        assert!(matches!(life_of(&identity), Life::Dead));
        child.wait().expect("waited");
        assert!(matches!(life_of(&identity), Life::Dead));
    }

    #[test]
    fn another_namespace_is_unknown() {
        let other = Identity {
            pid_namespace: 1,
            ..own_identity()
        };
        assert!(matches!(life_of(&other), Life::Unknown));
    }
}
