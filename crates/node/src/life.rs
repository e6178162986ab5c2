//! Whether a participant still exists: asked of the kernel, never guessed by time.
//!
//! Within one PID namespace the process id and its start time say so; across namespaces, and while a participant joins, its
//! socket does ([`crate::presence`]). The watcher, joining and the commands ask. Nothing here changes anything.

use std::os::fd::OwnedFd;

use hythe_pool::{MemberIndex, MemberInfo, MemberKind, MemberStatus};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::pool::Pool;
use crate::presence::{self, Seen};
use crate::process::{Process, is_here, process_of};

/// Whether the process of a participant still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It does.
    Alive,
    /// It does not: proven by the kernel. What it held goes back when the next participant looks.
    Dead,
    /// It cannot be seen from here: no permission, or a core that runs in another PID namespace.
    Unknown,
}

/// What a participant turned out to be.
#[derive(Debug)]
pub(crate) enum Life {
    /// It is over: proven by the kernel.
    Dead,
    /// It lives; what is here tells when that ends.
    Alive(Watched),
    /// It cannot be seen from here.
    Unknown,
}

/// What becomes ready when a participant ends.
#[derive(Debug)]
pub(crate) enum Watched {
    /// A pidfd: when it is readable, the process has ended.
    Process(OwnedFd),
    /// A connection to its socket: when it hangs up, look again. The participant also hangs up on one too many.
    Connection(OwnedFd),
}

impl Watched {
    /// For `poll`. Of a connection only the hang-up is asked for: what is sent over it means nothing.
    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        match self {
            Self::Process(descriptor) => PollFd::new(descriptor, PollFlags::IN),
            Self::Connection(connection) => PollFd::new(connection, PollFlags::empty()),
        }
    }

    /// Has something happened to it?
    pub(crate) fn is_ready(&self) -> bool {
        let mut asked = [self.poll_fd()];
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

impl Pool {
    /// Asks the kernel whether the process of a participant still exists.
    #[must_use]
    pub fn liveness(&self, member: &MemberInfo) -> Liveness {
        match life_of(self, member) {
            Life::Alive(_) => Liveness::Alive,
            Life::Dead => Liveness::Dead,
            Life::Unknown => Liveness::Unknown,
        }
    }
}

/// Asks the kernel about a participant, or about a process that recovers others before it is one.
pub(crate) fn life_of(pool: &Pool, member: &MemberInfo) -> Life {
    if member.status != MemberStatus::Joining && is_here(&member.identity) {
        return match process_of(&member.identity) {
            Process::Ended => Life::Dead,
            Process::Runs(descriptor) => Life::Alive(Watched::Process(descriptor)),
            Process::Unknown => Life::Unknown,
        };
    }
    // The socket is the joiner's. For a core's row that is its agent, whose end is not yet that of the core.
    if member.kind == MemberKind::CoreEndpoint && member.status != MemberStatus::Joining {
        return Life::Unknown;
    }
    life_by_socket(pool, member)
}

/// Asks by its socket whether a participant still is the one it was.
pub(crate) fn life_by_socket(pool: &Pool, member: &MemberInfo) -> Life {
    match presence::look_at(pool, member.session) {
        Seen::Ended => Life::Dead,
        Seen::Process(descriptor) => {
            let watched = Watched::Process(descriptor);
            if watched.is_ready() {
                Life::Dead
            } else {
                Life::Alive(watched)
            }
        }
        Seen::Connection(connection) => Life::Alive(Watched::Connection(connection)),
        // Whoever goes in good order frees the record first, and closes the socket then.
        Seen::Refused
            if is_outsider(pool, member.index) || presence::still_stands(pool, member) =>
        {
            Life::Dead
        }
        Seen::Refused | Seen::Nothing => Life::Unknown,
    }
}

/// Does it recover others without a record of its own? It drops its claims before it closes its socket, and claims that are
/// gone meanwhile are not taken over.
fn is_outsider(pool: &Pool, index: MemberIndex) -> bool {
    u32::from(index.0) >= pool.control().layout().limits().participants
}
