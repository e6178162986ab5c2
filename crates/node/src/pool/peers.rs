//! What this process knows of its peers by itself, since it first saw each of them.
//!
//! A participant's record lies in the control file, which every member may write, also one that may
//! only read payload. So a record is believed once, at first sight ([`crate::pool::life`]). From
//! then on a peer is judged by what is kept here: its session, its process (a pidfd), and a
//! connection to its socket, which hangs up when the process ends, leaves the pool, or calls
//! `exec`. A record that says something else while its owner is there is damage: counted and
//! reported, never a death.
//!
//! The watchers of a process fill this and forget who is gone; whoever judges a participant asks.
//! One lock, never held over a system call.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hythe_pool::{Identity, MemberIndex, MemberInfo, MemberKind, MemberStatus};
use hythe_sys::own_file::OwnFile;
use rustix::event::{PollFd, PollFlags};

use crate::pool::Pool;
use crate::pool::liveness_socket::{self, Seen};
use crate::pool::process::{Process, has_ended, has_hung_up, is_here, maps_file, process_of};

/// Looks at which the record of a peer that is there was another's, until that counts as damage:
/// whoever leaves frees its record a moment before it closes its socket.
const LOOKS_OF_GRACE: u32 = 3;

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

/// The peers that a process knows, by the number of their record.
#[derive(Debug)]
pub(crate) struct Peers {
    known: Mutex<BTreeMap<MemberIndex, Arc<Peer>>>,
    /// Record and session of the nodes of this process: who dies with it needs no watching by it.
    /// The agent of the host hop has one for each other host.
    nodes: Mutex<BTreeSet<(MemberIndex, u32)>>,
    damaged: AtomicU64,
    process: u32,
    /// Those of a child that was forked, which may open nodes of its own: a thread of the parent
    /// may have had the lock meanwhile.
    after_fork: OnceLock<Box<Self>>,
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            nodes: Mutex::default(),
            damaged: AtomicU64::new(0),
            process: std::process::id(),
            after_fork: OnceLock::new(),
        }
    }
}

/// A peer as this process first saw it.
#[derive(Debug)]
pub(crate) struct Peer {
    index: MemberIndex,
    session: u32,
    kind: MemberKind,
    identity: Identity,
    name: String,
    /// Its pidfd: readable when the process has ended.
    process: Option<OwnFile<OwnedFd>>,
    /// To its socket. `None`: it hung up, or there was no way to it; it is asked for again from
    /// time to time.
    connection: Mutex<Option<Arc<OwnFile<OwnedFd>>>>,
    other_records_seen: AtomicU32,
    is_reported: AtomicBool,
}

/// What the descriptors of a peer say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Quiet,
    HungUp,
    Ended,
    /// Nothing: the program has closed them, with others that it found open.
    Closed,
}

/// The descriptors of a peer, to wait for.
#[derive(Debug)]
pub(crate) struct Watched {
    peer: Arc<Peer>,
    connection: Option<Arc<OwnFile<OwnedFd>>>,
}

impl Watched {
    /// For `poll`. Of a connection only the hang-up is asked for: what is sent over it means
    /// nothing.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let process = self.peer.process.as_ref();
        let process = process.map(|process| PollFd::new(process, PollFlags::IN));
        let connection = self.connection.as_ref();
        process
            .into_iter()
            .chain(connection.map(|connection| PollFd::new(connection, PollFlags::empty())))
    }
}

impl Peers {
    /// Those of this process.
    fn own(&self) -> &Self {
        if self.process == std::process::id() {
            self
        } else {
            self.after_fork.get_or_init(Box::default).own()
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<MemberIndex, Arc<Peer>>> {
        // It is whole between any two calls of the map.
        let known = self.own().known.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeSet<(MemberIndex, u32)>> {
        let nodes = self.own().nodes.lock();
        nodes.unwrap_or_else(PoisonError::into_inner)
    }

    /// A node of this process has joined.
    pub(crate) fn add_node(&self, index: MemberIndex, session: u32) {
        self.nodes().insert((index, session));
    }

    /// A node of this process has left.
    pub(crate) fn remove_node(&self, index: MemberIndex, session: u32) {
        self.nodes().remove(&(index, session));
    }

    /// Is it a node of this process?
    pub(crate) fn is_node(&self, member: &MemberInfo) -> bool {
        self.nodes().contains(&(member.index, member.session))
    }

    pub(crate) fn get(&self, index: MemberIndex) -> Option<Arc<Peer>> {
        self.known().get(&index).cloned()
    }

    fn all(&self) -> Vec<Arc<Peer>> {
        self.known().values().cloned().collect()
    }

    pub(crate) fn keep(&self, peer: Peer) {
        self.known().insert(peer.index, Arc::new(peer));
    }

    pub(crate) fn forget(&self, peer: &Peer) {
        let mut known = self.known();
        if known.get(&peer.index).map(|kept| kept.session) == Some(peer.session) {
            known.remove(&peer.index);
        }
    }

    /// Forgets the peers whose record is free, or another's, and who are gone indeed.
    pub(crate) fn forget_departed(&self, pool: &Pool, members: &[MemberInfo]) {
        for peer in self.all() {
            let stands =
                |member: &MemberInfo| (member.index, member.session) == (peer.index, peer.session);
            if !members.iter().any(stands) && !peer.is_there(pool) {
                self.forget(&peer);
            }
        }
    }

    /// The descriptors of all but one, to wait for.
    pub(crate) fn watched(&self, but: MemberIndex) -> Vec<Watched> {
        let peers = self.all().into_iter().filter(|peer| peer.index != but);
        peers
            .map(|peer| Watched {
                connection: peer.connection(),
                peer,
            })
            .collect()
    }

    /// A peer of a process that has no connection to it: each time another.
    pub(crate) fn without_connection(&self, turn: usize) -> Option<Arc<Peer>> {
        let mut peers = self.all();
        peers.retain(|peer| peer.kind.is_process() && peer.connection().is_none());
        let count = peers.len();
        (count > 0).then(|| peers.swap_remove(turn % count))
    }

    /// How many peers had their records changed while they were there.
    pub(crate) fn damaged(&self) -> u64 {
        self.own().damaged.load(Ordering::Relaxed)
    }
}

impl Peer {
    /// `process` and `connection` are those of the participant as `member` describes it.
    pub(crate) fn new(
        member: &MemberInfo,
        process: Option<OwnedFd>,
        connection: Option<OwnedFd>,
    ) -> Self {
        Self {
            index: member.index,
            session: member.session,
            kind: member.kind,
            identity: member.identity,
            name: member.name.clone(),
            process: process.map(OwnFile::new),
            connection: Mutex::new(connection.map(|connection| Arc::new(OwnFile::new(connection)))),
            other_records_seen: AtomicU32::new(0),
            is_reported: AtomicBool::new(false),
        }
    }

    fn kept_connection(&self) -> MutexGuard<'_, Option<Arc<OwnFile<OwnedFd>>>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> Option<Arc<OwnFile<OwnedFd>>> {
        self.kept_connection().clone()
    }

    /// Is what `member` says about this peer's record so that this peer decides? Then its life;
    /// `None`: the record is a stranger's.
    pub(crate) fn judge(&self, pool: &Pool, member: &MemberInfo) -> Option<Liveness> {
        if member.session != self.session {
            // What was read before this peer came is about somebody earlier.
            if !liveness_socket::still_stands(pool, member) || !self.is_there(pool) {
                return None;
            }
            if self.other_records_seen.fetch_add(1, Ordering::Relaxed) >= LOOKS_OF_GRACE {
                self.report(pool, member);
            }
            return Some(Liveness::Alive);
        }
        if member.identity != self.identity
            && self.sign() == Sign::Quiet
            && liveness_socket::still_stands(pool, member)
        {
            self.report(pool, member);
        }
        Some(match self.sign() {
            Sign::Quiet => Liveness::Alive,
            Sign::Ended => Liveness::Dead,
            Sign::Closed => Liveness::Unknown,
            Sign::HungUp => {
                // It stays hung up: kept, it would make the watcher spin.
                *self.kept_connection() = None;
                self.ask_again(pool, member)
            }
        })
    }

    /// Was its record another's at the last look, and is not damage yet? Then it is looked at again
    /// soon.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.other_records_seen.load(Ordering::Relaxed) > 0
            && !self.is_reported.load(Ordering::Relaxed)
    }

    /// Asks the socket that was there at first sight; a connection to it is kept from the next look
    /// on.
    fn ask_again(&self, pool: &Pool, member: &MemberInfo) -> Liveness {
        match liveness_socket::look_at(pool, self.session) {
            Seen::Ended => Liveness::Dead,
            Seen::There { .. } => Liveness::Alive,
            Seen::Refused => self.life_behind_refusal(pool, member),
            Seen::Nothing => Liveness::Unknown,
        }
    }

    /// Connects again, if it can. Dead: it is the participant no more.
    pub(crate) fn connect_again(&self, pool: &Pool) -> Option<MemberInfo> {
        let member = pool.control().tables().member(self.index);
        let member = member.filter(|member| member.session == self.session)?;
        match liveness_socket::look_at(pool, self.session) {
            Seen::Ended => Some(member),
            Seen::There { connection, .. } => {
                *self.kept_connection() = Some(Arc::new(OwnFile::new(connection)));
                None
            }
            Seen::Refused => {
                let life = self.life_behind_refusal(pool, &member);
                (life == Liveness::Dead).then_some(member)
            }
            Seen::Nothing => None,
        }
    }

    /// Its record names its process as it was at first sight.
    fn life_behind_refusal(&self, pool: &Pool, member: &MemberInfo) -> Liveness {
        let identity = self.identity;
        let known = MemberInfo {
            identity,
            ..member.clone()
        };
        let process = self.process.as_ref().filter(|process| process.is_open());
        life_behind_refusal(pool, &known, process.map(|process| &**process))
    }

    /// Does it still take part, whatever its record says? A core does as long as its process runs.
    fn is_there(&self, pool: &Pool) -> bool {
        match (self.sign(), self.kind) {
            (Sign::Ended, _) => false,
            (_, MemberKind::CoreEndpoint | MemberKind::MessageStore) => true,
            // A child that it forked may keep its socket open; the name goes when it leaves.
            (Sign::Quiet, _) if self.connection().is_some() => {
                liveness_socket::is_announced(pool, self.session)
            }
            _ => matches!(
                liveness_socket::look_at(pool, self.session),
                Seen::There { .. }
            ),
        }
    }

    fn sign(&self) -> Sign {
        let connection = self.connection();
        let sign = if self.process.as_deref().is_some_and(has_ended) {
            Sign::Ended
        } else if connection.as_deref().is_some_and(|it| has_hung_up(it)) {
            Sign::HungUp
        } else {
            return Sign::Quiet;
        };
        // One that the program has closed shows the same; its number may be a file's by now.
        let is_open = self.process.as_ref().is_none_or(OwnFile::is_open)
            && connection.is_none_or(|connection| connection.is_open());
        match is_open {
            true => sign,
            false => Sign::Closed,
        }
    }

    fn report(&self, pool: &Pool, member: &MemberInfo) {
        if self.is_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let peers = pool.peers().own();
        peers.damaged.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            name = self.name,
            pid = self.identity.pid,
            session = self.session,
            record_name = member.name,
            record_pid = member.identity.pid,
            record_session = member.session,
            "the record of a living participant was changed: some member of the pool writes what is not its own; it stays alive here"
        );
    }
}

/// Whether a participant lives whose socket refuses. It has ended, left, or become another program;
/// or its descriptors were closed under it, and it still writes what it has mapped: nothing of that
/// may be given to others. `process`: a pidfd of it, where one was taken before.
pub(crate) fn life_behind_refusal(
    pool: &Pool,
    member: &MemberInfo,
    process: Option<&OwnedFd>,
) -> Liveness {
    if !liveness_socket::still_stands(pool, member) {
        return Liveness::Unknown;
    }
    if process.is_some_and(has_ended) {
        return Liveness::Dead;
    }
    // One that is still joining holds nothing, and may have no identity yet.
    let is_joining = member.status == MemberStatus::Joining;
    if is_joining || !is_here(&member.identity) {
        return match process {
            Some(_) => Liveness::Unknown,
            None => Liveness::Dead,
        };
    }
    match process_of(&member.identity) {
        Process::Ended => Liveness::Dead,
        Process::Unknown => Liveness::Unknown,
        Process::Runs(process) => match maps_file(&process, pool.control_place()) {
            Some(true) => Liveness::Alive,
            Some(false) => Liveness::Dead,
            None => Liveness::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_testing::eventually;

    fn peer(index: u8) -> Peer {
        let member = MemberInfo {
            index: MemberIndex(index),
            session: 1,
            status: MemberStatus::Alive,
            kind: MemberKind::Process,
            identity: crate::own_identity(),
            name: "peer".to_owned(),
        };
        Peer::new(&member, None, None)
    }

    /// A descriptor that is none any more is ready for everything, as that of a dead process.
    #[test]
    fn closed_descriptors_prove_no_death() {
        let event = || rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC);
        let mut peer = Peer {
            process: Some(OwnFile::new(event().expect("made"))),
            ..peer(1)
        };
        assert_eq!(peer.sign(), Sign::Ended);
        peer.process.as_mut().expect("set above").abandon();
        assert_eq!(peer.sign(), Sign::Closed);
    }

    /// An agent has a node for each other host: watching each other, they would cost the square of
    /// their number.
    #[test]
    fn nodes_of_one_process_do_not_watch_each_other() {
        let root = std::env::temp_dir().join(format!("hythe-peers-{}", std::process::id()));
        let options = crate::PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let nodes: Vec<_> = (0..5)
            .map(|_| crate::Node::join(&pool, "one of many").expect("joins"))
            .collect();
        // As if another process had the pool: its node is watched by all.
        let elsewhere = Pool::open(&options).expect("opened");
        let other = crate::Node::join(&elsewhere, "other").expect("joins");
        eventually("it is watched", || {
            pool.peers().get(other.index()).is_some()
        });
        assert_eq!(pool.peers().all().len(), 1);
        assert_eq!(elsewhere.peers().all().len(), nodes.len());
        drop((nodes, other));
        assert_eq!(pool.peers().nodes().len(), 0);
        std::fs::remove_dir_all(root).expect("own");
    }

    /// A child forked while a thread of the parent has the lock would wait for ever.
    #[test]
    fn forked_child_has_peers_of_its_own() {
        let peers = Peers::default();
        peers.keep(peer(1));
        let locked = peers.known();
        let in_child = || {
            let empty = peers.get(MemberIndex(1)).is_none();
            peers.keep(peer(2));
            i32::from(empty && peers.all().len() == 1 && peers.damaged() == 0)
        };
        assert_eq!(hythe_sys::fork::run_in_child(in_child).expect("forked"), 1);
        drop(locked);
        assert_eq!(peers.all().len(), 1);
    }
}
