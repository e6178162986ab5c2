//! The watcher: one thread per node that waits for the death of peers and recovers what they held;
//! and that reads the clock by which holds are dated, so that no message has to.
//!
//! It sleeps in `poll` on what tells the end of each peer ([`crate::pool::peers`]): that of its
//! process, and the hang-up of its socket, which also tells that it has left or become another
//! program. New peers are noticed by the pool's membership word, looked at each [`LOOK`]; a peer
//! that joins and dies between two looks is found dead at the next. At each look it also takes in
//! those who watch this process over its socket. Where `poll` is refused it sleeps otherwise, and
//! looks at each peer at each look.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hythe_pool::{MemberIndex, MemberInfo, MemberKind, MemberStatus, Recoverer};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::clock::{self, CoarseTime};
use crate::pool::Pool;
use crate::pool::files::Place;
use crate::pool::life::{Sight, first_sight, is_store};
use crate::pool::liveness_socket::{self, LivenessAcceptor, Seen};
use crate::pool::peers::{Liveness, Watched};
use crate::spin::SpinGate;
use crate::wait;

/// How often a watcher looks for new peers.
const LOOK: Duration = Duration::from_millis(50);
/// That of an agent of hosts, which holds nothing.
const AGENT_LOOK: Duration = Duration::from_millis(250);
/// How many naps lie between two counts of the slots in use.
const NAPS_BETWEEN_COUNTS: u32 = 4;

/// Stops its thread when dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the thread to stop: by the event at once, by the word at its next look, also where no
/// event can be written.
#[derive(Debug)]
struct Stop {
    is_asked: AtomicBool,
    event: OwnedFd,
    /// Of the event: no file that a program writes has it.
    place: Place,
}

impl Watcher {
    pub(crate) fn start(
        pool: Pool,
        me: (MemberIndex, u32),
        recoverer: Recoverer,
        keeps: Keeps,
    ) -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let found = rustix::fs::fstat(&event)?;
        let stop = Arc::new(Stop {
            is_asked: AtomicBool::new(false),
            event,
            place: Place::of(&found),
        });
        let stopped = Arc::clone(&stop);
        let mut watch = Watch::new(pool, me, recoverer, keeps);
        // Before the node is used: what dead participants held is there for its first lease, also
        // if nobody was left to recover them.
        watch.look_at_all();
        let thread = hythe_sys::wait::spawn("hythe-watcher", move || watch.run(&stopped))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Release pairs with the acquire in `sleep`.
        self.stop.is_asked.store(true, Ordering::Release);
        // An eventfd that holds nothing takes a write at once. Where writing is refused, or the
        // program has closed the event and its number may be a file's, the word is seen at the next
        // look.
        let found = rustix::fs::fstat(&self.stop.event);
        if found.is_ok_and(|found| Place::of(&found) == self.stop.place) {
            let _ = rustix::io::write(&self.stop.event, &1_u64.to_ne_bytes());
        }
        if let Some(thread) = self.thread.take() {
            hythe_sys::wait::for_end_of(thread);
        }
    }
}

/// What the watcher does for its node beside watching, each look.
#[derive(Debug)]
pub(crate) struct Keeps {
    /// Where those who watch this process connect.
    pub(crate) acceptor: LivenessAcceptor,
    /// The clock by which holds are dated.
    pub(crate) time: Arc<CoarseTime>,
    /// Who may spin.
    pub(crate) spin_gate: Arc<SpinGate>,
}

/// Why a sleep has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    ToLook,
    ToStop,
    /// The program has closed them.
    WithoutDescriptors,
}

struct Watch {
    pool: Pool,
    me: MemberIndex,
    session: u32,
    recoverer: Recoverer,
    keeps: Keeps,
    look: Duration,
    /// Some peer has nothing to be watched by, or is dead and not recovered: look again soon.
    is_unsure: bool,
    /// That waiting is refused was reported.
    is_refusal_reported: bool,
    naps: u32,
}

impl Watch {
    fn new(pool: Pool, me: (MemberIndex, u32), recoverer: Recoverer, keeps: Keeps) -> Self {
        let (me, session) = me;
        let look = match pool.control().tables().member_kind(me) {
            Some(MemberKind::HostAgent) => AGENT_LOOK,
            _ => LOOK,
        };
        Self {
            pool,
            me,
            session,
            recoverer,
            keeps,
            look,
            is_unsure: false,
            is_refusal_reported: false,
            naps: 0,
        }
    }

    fn run(mut self, stop: &Arc<Stop>) {
        loop {
            let membership = self.pool.control().membership();
            self.look_at_all();
            match self.sleep(stop, membership) {
                Woken::ToLook => {}
                Woken::ToStop => {
                    // Once more: a dead core's rows may only have waited for the ports of this node
                    // to go.
                    self.look_at_all();
                    return;
                }
                Woken::WithoutDescriptors => {
                    self.lose_descriptors();
                    // Closed here, their numbers may be those of files of the program by now.
                    std::mem::forget((self, Arc::clone(stop)));
                    return;
                }
            }
        }
    }

    /// Recovers the dead, and keeps what tells the end of each of the living.
    fn look_at_all(&mut self) {
        let members: Vec<MemberInfo> = self.pool.control().tables().members().collect();
        self.pool.peers().forget_departed(&self.pool, &members);
        self.is_unsure = false;
        let me = self.me;
        let is_own = |member: &&MemberInfo| member.index == me || self.pool.peers().is_node(member);
        for member in members.iter().filter(|member| !is_own(member)) {
            match self.look_at(member) {
                // It may stay claimed by a recoverer that dies before it marks the record, and
                // nothing else tells of the end of one that has no record of its own.
                Liveness::Dead => self.is_unsure |= !self.recover(member),
                Liveness::Alive => {}
                Liveness::Unknown => self.is_unsure = true,
            }
        }
    }

    fn look_at(&self, member: &MemberInfo) -> Liveness {
        if is_store(member) {
            return Liveness::Alive;
        }
        let peers = self.pool.peers();
        if let Some(peer) = peers.get(member.index) {
            match peer.judge(&self.pool, member) {
                Some(Liveness::Dead) => {
                    // What told of its end stays ready: kept, it would make us spin while another
                    // recovers it.
                    peers.forget(&peer);
                    return Liveness::Dead;
                }
                Some(_) if peer.is_in_doubt() => return Liveness::Unknown,
                Some(life) => return life,
                // The record has changed since it was read.
                None if !liveness_socket::still_stands(&self.pool, member) => {
                    return Liveness::Unknown;
                }
                None => peers.forget(&peer),
            }
        }
        match first_sight(&self.pool, member) {
            // What tells of a joiner's end may be another's: a core's row is joined by its agent.
            // It is looked at again soon.
            Sight::Alive(peer) if member.status != MemberStatus::Joining => {
                peers.keep(peer);
                Liveness::Alive
            }
            seen => seen.liveness(),
        }
    }

    /// A peer hangs up also on one connection too many, and a socket may be out of reach for a
    /// while. So at each look one peer that there is no connection to is asked, each time another.
    fn look_closer(&mut self) {
        let turn = self.naps as usize + usize::from(self.me.0);
        let Some(peer) = self.pool.peers().without_connection(turn) else {
            return;
        };
        if let Some(dead) = peer.connect_again(&self.pool) {
            self.pool.peers().forget(&peer);
            self.is_unsure |= !self.recover(&dead);
        }
    }

    /// Recovers a participant whose death is proven. False: another recovers it, or it failed.
    fn recover(&self, dead: &MemberInfo) -> bool {
        let control = self.pool.control();
        let mut is_dead = |member: &MemberInfo| {
            (member.index, member.session) == (dead.index, dead.session)
                || self.pool.liveness(member) == Liveness::Dead
        };
        let now = clock::coarse_ms();
        let recovered =
            self.recoverer
                .recover(control, self.pool.regions(), dead, now, &mut is_dead);
        match recovered {
            Ok(None) => false,
            Ok(Some(recovered)) => {
                tracing::info!(
                    name = dead.name,
                    pid = dead.identity.pid,
                    references = recovered.references,
                    slots = recovered.slots,
                    "recovered a dead participant"
                );
                liveness_socket::forget(&self.pool, dead.session);
                for member in control.tables().members() {
                    wait::ring_always(control, member.index);
                }
                true
            }
            Err(error) => {
                tracing::error!(name = dead.name, %error, "recovery failed, will be tried again");
                false
            }
        }
    }

    /// Each act fails from now on, and each wait ends.
    fn lose_descriptors(&self) {
        self.pool.lose_descriptors(self.session);
        wait::ring_always(self.pool.control(), self.me);
    }

    /// Is this still the pool that newcomers find, and this process a member of it?
    fn check_membership(&self) {
        let control = self.pool.control();
        let was_lost = self.pool.check_whole().is_err();
        if !was_lost && self.is_record_gone() {
            self.pool.lose_record(self.session);
        }
        if self.pool.check_found().is_err() && !was_lost {
            wait::ring_always(control, self.me);
        }
    }

    /// Was the own record freed, or is it another's who lives? One that only names what is not
    /// there was forged: peers that know this process go by what they have seen themselves.
    fn is_record_gone(&self) -> bool {
        match self.pool.control().tables().member(self.me) {
            None => true,
            Some(member) if member.session == self.session => member.status != MemberStatus::Alive,
            Some(member) => {
                let seen = liveness_socket::look_at(&self.pool, member.session);
                matches!(seen, Seen::There { .. })
            }
        }
    }

    /// Sleeps until a peer dies, a new one appears, or the node goes.
    fn sleep(&mut self, stop: &Stop, membership: u32) -> Woken {
        loop {
            let watched = self.pool.peers().watched(self.me);
            let mut waited_for = vec![PollFd::new(&stop.event, PollFlags::IN)];
            waited_for.extend(watched.iter().flat_map(Watched::poll_fds));
            let Keeps { spin_gate, .. } = &self.keeps;
            spin_gate.refresh(self.pool.control(), self.me);
            let polled = hythe_sys::wait::poll_or_sleep(&mut waited_for, self.look);
            self.keeps.time.read_clock();
            // Acquire pairs with the release in `drop`.
            let is_asked = stop.is_asked.load(Ordering::Acquire);
            // The event is written behind the word: so it is another file.
            let is_other = !is_asked && !waited_for[0].revents().is_empty();
            // First: what is stopped closes its descriptors.
            if is_other || !self.keeps.acceptor.is_open() {
                return Woken::WithoutDescriptors;
            }
            if is_asked {
                return Woken::ToStop;
            }
            let is_refused = polled
                .as_ref()
                .err()
                .map(|error| self.report_refusal(error));
            let ready = polled.unwrap_or(0);
            self.keeps.acceptor.look();
            self.count_slots();
            if ready == 0 {
                self.look_closer();
            }
            if ready > 0
                || is_refused.is_some()
                || self.is_unsure
                || self.pool.control().membership() != membership
                || self.someone_waits()
            {
                return Woken::ToLook;
            }
        }
    }

    fn report_refusal(&mut self, error: &std::io::Error) {
        if !std::mem::replace(&mut self.is_refusal_reported, true) {
            tracing::warn!(
                %error,
                "waiting for the end of peers is refused (RLIMIT_NOFILE is below the number of peers, or a seccomp filter); they are looked at every 50 ms instead"
            );
        }
    }

    /// Notes how many slots are in use, for the high-water marks: one process of the pool does, now
    /// and then. Then, too, each looks whether the pool is still there.
    fn count_slots(&mut self) {
        self.naps = self.naps.wrapping_add(1);
        if !self.naps.is_multiple_of(NAPS_BETWEEN_COUNTS) {
            return;
        }
        self.check_membership();
        let control = self.pool.control();
        let counts = |member: &MemberInfo| {
            let is_alive = member.status == MemberStatus::Alive;
            is_alive && member.kind.is_process() && member.kind != MemberKind::HostAgent
        };
        let first = control.tables().members().find(counts);
        if first.is_some_and(|first| first.index == self.me) {
            control.note_slots(self.pool.regions());
        }
    }

    /// A record whose owner is dead but not recovered yet, because another recoverer may have died
    /// over it; or one whose owner may die before it raises the membership word.
    fn someone_waits(&self) -> bool {
        !self.pool.control().tables().all_are_alive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolOptions;
    use crate::pool::liveness_socket::LivenessSocket;
    use hythe_pool::{Identity, Member};

    /// A participant as if of another container, with the socket that proves its life.
    fn foreigner(pool: &Pool) -> (Member, LivenessSocket) {
        let liveness_socket = LivenessSocket::announce(pool).expect("listens");
        let identity = Identity {
            pid: 1,
            start_time: 1,
            pid_namespace: 1,
            uid: 0,
        };
        let (control, kind) = (pool.control(), MemberKind::Process);
        let member = Member::join_with_session(
            control,
            kind,
            identity,
            "foreign",
            liveness_socket.session(),
        );
        (member.expect("a free record"), liveness_socket)
    }

    fn watch(pool: &Pool, me: &Member, socket: &LivenessSocket) -> Watch {
        let keeps = Keeps {
            acceptor: socket.acceptor().expect("opened"),
            time: Arc::new(CoarseTime::now()),
            spin_gate: Arc::new(SpinGate::new(Duration::ZERO)),
        };
        let id = (me.index(), me.session());
        Watch::new(pool.clone(), id, me.recoverer(), keeps)
    }

    /// A recoverer without a record of its own has claimed a dead participant, and dies before it
    /// marks the record as being recovered.
    #[test]
    fn claim_by_a_dead_outsider_is_taken_over() {
        use hythe_abi::pool::participant;
        use hythe_memory::Memory;

        let name = format!("hythe-watcher-claim-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let (me, own) = foreigner(&pool);
        let (other, theirs) = foreigner(&pool);
        let mut watch = watch(&pool, &me, &own);
        let outsider = LivenessSocket::announce(&pool).expect("listens");
        let record = pool.control().layout().participant(other.index().0.into());
        let claim = 255 | u64::from(outsider.session()) << 40;
        let memory = pool.control().memory();
        memory.store_cell(record + participant::RECOVERER, claim, Ordering::Release);
        drop(theirs);
        watch.look_at_all();
        assert!(
            pool.control().tables().member(other.index()).is_some(),
            "claimed"
        );
        assert!(watch.is_unsure, "looked at again soon");

        // As in the test below.
        drop(outsider);
        hythe_testing::eventually("it is recovered", || {
            watch.look_at_all();
            pool.control().tables().member(other.index()).is_none()
        });
        std::fs::remove_dir_all(root).expect("own");
    }

    /// As on a kernel that gives no pidfd of a peer: what is watched is a connection.
    #[test]
    fn connection_that_hangs_up_is_a_reason_to_look_again() {
        let name = format!("hythe-watcher-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let (me, own) = foreigner(&pool);
        let (other, theirs) = foreigner(&pool);
        let mut acceptor = theirs.acceptor().expect("opened");
        let mut watch = watch(&pool, &me, &own);
        let key = (other.index(), other.session());
        let connect = || liveness_socket::connection(&pool, other.session()).expect("connects");
        let info = || pool.control().tables().member(key.0).expect("it is there");
        let keep = |connection| {
            let peer = crate::pool::peers::Peer::new(&info(), None, Some(connection));
            pool.peers().keep(peer);
        };
        let is_connected = || pool.peers().without_connection(0).is_none();

        keep(connect());
        watch.look_at_all();
        assert!(!watch.is_unsure && is_connected(), "quiet");

        // Too many for the other: it hangs up, but lives.
        let many: Vec<OwnedFd> = (0..512)
            .map(|number| {
                if number % 32 == 0 {
                    acceptor.look();
                }
                connect()
            })
            .collect();
        acceptor.look();
        let last = many.into_iter().next_back().expect("many");
        keep(last);
        watch.look_at_all();
        assert!(!is_connected(), "what hung up is not waited for any more");
        assert!(pool.control().tables().is_current(key.0, key.1), "it lives");
        acceptor.look();
        watch.look_closer();
        assert!(is_connected(), "asked again at the next look");

        // Another test that starts a process holds its connections for a moment.
        drop((theirs, acceptor));
        hythe_testing::eventually("it is recovered", || {
            watch.look_at_all();
            !pool.control().tables().is_current(key.0, key.1)
        });
        std::fs::remove_dir_all(root).expect("own");
    }
}
