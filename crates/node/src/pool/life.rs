//! Whether a participant still exists: asked of the kernel, never guessed by time.
//!
//! A peer that this process knows is judged by what it has of that peer itself
//! ([`crate::pool::peers`]). A stranger, here, by its record and its socket
//! ([`crate::pool::liveness_socket`]): the socket that the record names says who listens, and only
//! where it says nothing the process id and start time of the record decide, within one PID
//! namespace. The watcher, joining and the commands ask. Nothing here changes anything.

use std::os::fd::OwnedFd;

use hythe_pool::{Identity, MemberIndex, MemberInfo, MemberKind, MemberStatus};

use crate::pool::Pool;
use crate::pool::liveness_socket::{self, Seen};
use crate::pool::peers::{Liveness, Peer, life_behind_refusal};
use crate::pool::process::{Process, is_here, process_of};

/// What a participant turned out to be that this process does not know yet.
#[derive(Debug)]
pub(crate) enum Sight {
    /// It is over: proven by the kernel.
    Dead,
    /// It lives; this is how it is known from now on.
    Alive(Peer),
    /// It cannot be seen from here.
    Unknown,
}

impl Sight {
    pub(crate) const fn liveness(&self) -> Liveness {
        match self {
            Self::Dead => Liveness::Dead,
            Self::Alive(_) => Liveness::Alive,
            Self::Unknown => Liveness::Unknown,
        }
    }
}

impl Pool {
    /// Asks the kernel whether the process of a participant still exists. A peer of a node of this
    /// process is judged by what that node knows of it since it first saw it, whatever its record
    /// says by now.
    #[must_use]
    pub fn liveness(&self, member: &MemberInfo) -> Liveness {
        if is_store(member) {
            return Liveness::Alive;
        }
        let known = self.peers().get(member.index);
        known
            .and_then(|peer| peer.judge(self, member))
            .unwrap_or_else(|| first_sight(self, member).liveness())
    }
}

/// What holds messages never ends. Its joiner may.
pub(crate) fn is_store(member: &MemberInfo) -> bool {
    member.kind == MemberKind::MessageStore && member.status == MemberStatus::Alive
}

/// Asks the kernel about a stranger: a participant, or a process that recovers others before it is
/// one.
pub(crate) fn first_sight(pool: &Pool, member: &MemberInfo) -> Sight {
    let is_joining = member.status == MemberStatus::Joining;
    // A core has no socket: the one that its row names was that of its agent, while it joined.
    if member.kind == MemberKind::CoreEndpoint && !is_joining {
        return by_record(member, None);
    }
    match liveness_socket::look_at(pool, member.session) {
        Seen::Ended => Sight::Dead,
        Seen::There {
            connection,
            process: Some(process),
        } => Sight::Alive(Peer::new(member, Some(process), Some(connection))),
        Seen::There {
            connection,
            process: None,
        } => by_listener(member, connection),
        // Whoever goes in good order frees the record first, and closes the socket then.
        Seen::Refused if is_outsider(pool, member.index) => Sight::Dead,
        Seen::Refused if liveness_socket::still_stands(pool, member) => {
            match life_behind_refusal(pool, member, None) {
                Liveness::Dead => Sight::Dead,
                Liveness::Alive => by_record(member, None),
                Liveness::Unknown => Sight::Unknown,
            }
        }
        // A record that is being filled has no identity yet.
        Seen::Refused | Seen::Nothing if is_joining => Sight::Unknown,
        Seen::Refused | Seen::Nothing => by_record(member, None),
    }
}

/// On a kernel that gives no pidfd of who listens (before Linux 6.5) a forked child may keep the
/// socket of a process that is dead. So the process that called `listen` is asked for by its id,
/// which the kernel does give.
fn by_listener(member: &MemberInfo, connection: OwnedFd) -> Sight {
    let listener = hythe_sys::peer::peer_pid(&connection).ok().flatten();
    match listener.filter(|_| is_here(&member.identity)) {
        // It is of another PID namespace: its connection is all there is of it.
        None => Sight::Alive(Peer::new(member, None, Some(connection))),
        Some(pid) if pid == member.identity.pid => by_record(member, Some(connection)),
        Some(pid) => {
            let identity = Identity {
                pid,
                start_time: 0,
                ..member.identity
            };
            let listener = MemberInfo {
                identity,
                ..member.clone()
            };
            by_record(&listener, Some(connection))
        }
    }
}

/// Asks by process id and start time.
fn by_record(member: &MemberInfo, connection: Option<OwnedFd>) -> Sight {
    if !is_here(&member.identity) {
        return Sight::Unknown;
    }
    match process_of(&member.identity) {
        Process::Ended => Sight::Dead,
        Process::Runs(process) => Sight::Alive(Peer::new(member, Some(process), connection)),
        Process::Unknown if connection.is_some() => {
            Sight::Alive(Peer::new(member, None, connection))
        }
        Process::Unknown => Sight::Unknown,
    }
}

/// Does it recover others without a record of its own? It drops its claims before it closes its
/// socket, and claims that are gone meanwhile are not taken over.
fn is_outsider(pool: &Pool, index: MemberIndex) -> bool {
    u32::from(index.0) >= pool.control().layout().limits().participants
}

#[cfg(test)]
mod tests {
    use hythe_pool::Member;

    use super::*;
    use crate::PoolOptions;
    use crate::pool::liveness_socket::LivenessSocket;
    use crate::pool::process::{identity_of, own_identity};

    /// Descriptors can be closed by a program that does not know of them; its mappings stay.
    #[test]
    fn refusing_socket_proves_no_death_of_who_maps_the_pool() {
        let root = std::env::temp_dir().join(format!("hythe-refusing-{}", std::process::id()));
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        // It runs, and never had the pool: as one that has become another program.
        let mut other = std::process::Command::new("cat");
        let mut other = other
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat");
        let identities = [
            (own_identity(), Liveness::Alive),
            (identity_of(other.id()).expect("runs"), Liveness::Dead),
        ];
        for (identity, life) in identities {
            let socket = LivenessSocket::announce(&pool).expect("listens");
            let session = socket.session();
            let joined = Member::join_with_session(
                pool.control(),
                MemberKind::Process,
                identity,
                "refusing",
                session,
            );
            let member = joined.expect("a free record");
            drop(socket);
            let info = pool.control().tables().member(member.index());
            assert_eq!(pool.liveness(&info.expect("it stands")), life);
        }
        drop(other.stdin.take());
        other.wait().expect("own child");
        std::fs::remove_dir_all(root).expect("own");
    }
}
