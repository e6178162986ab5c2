//! The watcher: one thread per node that waits for the death of peers and recovers what they held; and that reads the clock by
//! which holds are dated, so that no message has to.
//!
//! It sleeps in `poll` on what tells the end of each peer ([`crate::life`]). New peers are noticed by the pool's membership word,
//! looked at each [`LOOK`]; a peer that joins and dies between two looks is found dead at the next. At each look it also takes
//! in those who watch this process over its socket.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hythe_pool::{MemberIndex, MemberInfo, MemberKind, MemberStatus, Recoverer};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::clock::{self, CoarseTime};
use crate::life::{Life, Watched, life_by_socket, life_of};
use crate::pool::Pool;
use crate::presence::{self, Door};
use crate::spin::SpinGate;
use crate::wait;

/// How often a watcher looks for new peers.
const LOOK: Duration = Duration::from_millis(50);
/// After how many looks one more peer is asked by its socket whether it still is who it was ([`Watch::look_closer`]).
const LOOKS_BETWEEN: u32 = 20;
/// How many naps lie between two counts of the slots in use.
const NAPS_BETWEEN_COUNTS: u32 = 4;

/// Stops its thread when dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(crate) fn start(
        pool: Pool,
        me: MemberIndex,
        recoverer: Recoverer,
        keeps: Keeps,
    ) -> std::io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let stopped = rustix::io::fcntl_dupfd_cloexec(&stop, 0)?;
        let mut watch = Watch {
            pool,
            me,
            recoverer,
            keeps,
            peers: HashMap::new(),
            is_unsure: false,
            looks: 0,
            naps: 0,
        };
        // Before the node is used: what dead participants held is there for its first lease, also if nobody was left to recover them.
        watch.look_at_all();
        let thread = std::thread::Builder::new()
            .name("hythe-watcher".to_owned())
            .spawn(move || watch.run(&stopped))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // An eventfd that holds nothing takes a write at once.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A watcher that panicked has nothing to hand over.
            let _ = thread.join();
        }
    }
}

/// What the watcher does for its node beside watching, each look.
#[derive(Debug)]
pub(crate) struct Keeps {
    /// Where those who watch this process connect.
    pub(crate) door: Door,
    /// The clock by which holds are dated.
    pub(crate) time: Arc<CoarseTime>,
    /// Who may spin.
    pub(crate) spin_gate: Arc<SpinGate>,
}

struct Watch {
    pool: Pool,
    me: MemberIndex,
    recoverer: Recoverer,
    keeps: Keeps,
    peers: HashMap<(MemberIndex, u32), Watched>,
    /// Some peer has nothing to be watched by: look again soon.
    is_unsure: bool,
    looks: u32,
    naps: u32,
}

impl Watch {
    fn run(mut self, stop: &OwnedFd) {
        loop {
            let membership = self.pool.control().membership();
            self.look_at_all();
            if self.sleep(stop, membership) {
                // Once more: a dead core's rows may only have waited for the ports of this node to go.
                self.look_at_all();
                return;
            }
        }
    }

    /// Recovers the dead, and keeps what tells the end of each of the living.
    fn look_at_all(&mut self) {
        let members: Vec<MemberInfo> = self.pool.control().members().collect();
        self.peers.retain(|key, _| {
            members
                .iter()
                .any(|member| (member.index, member.session) == *key)
        });
        self.is_unsure = false;
        let me = self.me;
        for member in members.iter().filter(|member| member.index != me) {
            let key = (member.index, member.session);
            match self.peers.get(&key) {
                // What is known is proof enough, also where no more can be opened.
                Some(known) if !known.is_ready() => continue,
                // It stays ready: kept, it would make us spin while another recovers the peer.
                Some(_) => match self.peers.remove(&key) {
                    Some(Watched::Process(_)) => {
                        self.recover(member);
                        continue;
                    }
                    // At once it would make us spin against a peer that hangs up on us again and again.
                    Some(Watched::Connection(_)) if self.outlived(member) => continue,
                    _ => {}
                },
                None => {}
            }
            match life_of(&self.pool, member) {
                Life::Dead => self.recover(member),
                // What tells of a joiner's end may be another's: a core's row is joined by its agent. It is looked at again soon.
                Life::Alive(_) if member.status == MemberStatus::Joining => {}
                Life::Alive(watched) => {
                    self.peers.insert(key, watched);
                }
                Life::Unknown => self.is_unsure = true,
            }
        }
    }

    /// Is a peer that hung up there all the same? Then it is watched again from the next look on.
    fn outlived(&mut self, member: &MemberInfo) -> bool {
        let lives = !matches!(life_of(&self.pool, member), Life::Dead);
        self.is_unsure |= lives;
        lives
    }

    /// A process that calls `exec` keeps its id and start time, but is the participant no more: its socket is closed then. That
    /// wakes nobody, so from time to time one peer is asked, each time another.
    fn look_closer(&mut self) {
        self.looks += 1;
        if !self.looks.is_multiple_of(LOOKS_BETWEEN) {
            return;
        }
        let turn = (self.looks / LOOKS_BETWEEN) as usize;
        let mut members: Vec<MemberInfo> = self.pool.control().members().collect();
        members.retain(|member| {
            member.index != self.me
                && member.kind == MemberKind::Process
                && member.status == MemberStatus::Alive
        });
        if members.is_empty() {
            return;
        }
        let member = &members[(turn + usize::from(self.me.0)) % members.len()];
        if matches!(life_by_socket(&self.pool, member), Life::Dead) {
            self.recover(member);
        }
    }

    /// Recovers a participant whose death is proven.
    fn recover(&self, dead: &MemberInfo) {
        let control = self.pool.control();
        let mut is_dead = |member: &MemberInfo| {
            (member.index, member.session) == (dead.index, dead.session)
                || matches!(life_of(&self.pool, member), Life::Dead)
        };
        let now = clock::coarse_ms();
        let recovered =
            self.recoverer
                .recover(control, self.pool.regions(), dead, now, &mut is_dead);
        match recovered {
            Ok(None) => {}
            Ok(Some(recovered)) => {
                tracing::info!(
                    name = dead.name,
                    pid = dead.identity.pid,
                    references = recovered.references,
                    slots = recovered.slots,
                    "recovered a dead participant"
                );
                presence::forget(&self.pool, dead.session);
                for member in control.members() {
                    wait::ring_always(control, member.index);
                }
            }
            Err(error) => {
                tracing::error!(name = dead.name, %error, "recovery failed, will be tried again")
            }
        }
    }

    /// Sleeps until a peer dies, a new one appears, or the node goes (true).
    fn sleep(&mut self, stop: &OwnedFd, membership: u32) -> bool {
        let nap = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK.subsec_nanos().into(),
        };
        loop {
            let mut waited_for = vec![PollFd::new(stop, PollFlags::IN)];
            waited_for.extend(self.peers.values().map(Watched::poll_fd));
            let Keeps { spin_gate, .. } = &self.keeps;
            spin_gate.refresh(self.pool.control(), self.me);
            // An interrupted poll is a short nap.
            let ready = poll(&mut waited_for, Some(&nap)).unwrap_or(0);
            self.keeps.time.read_clock();
            if !waited_for[0].revents().is_empty() {
                return true;
            }
            self.keeps.door.look();
            self.count_slots();
            if ready == 0 {
                self.look_closer();
            }
            if ready > 0
                || self.is_unsure
                || self.pool.control().membership() != membership
                || self.someone_waits()
            {
                return false;
            }
        }
    }

    /// Notes how many slots are in use, for the high-water marks: one process of the pool does, now and then.
    fn count_slots(&mut self) {
        self.naps = self.naps.wrapping_add(1);
        if !self.naps.is_multiple_of(NAPS_BETWEEN_COUNTS) {
            return;
        }
        let control = self.pool.control();
        let first = control.members().find(|member| {
            member.status == MemberStatus::Alive && member.kind == MemberKind::Process
        });
        if first.is_some_and(|first| first.index == self.me) {
            control.note_slots(self.pool.regions());
        }
    }

    /// A record whose owner is dead but not recovered yet, because another recoverer may have died over it; or one whose owner
    /// may die before it raises the membership word.
    fn someone_waits(&self) -> bool {
        let mut members = self.pool.control().members();
        members.any(|member| member.status != MemberStatus::Alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolOptions;
    use crate::presence::Presence;
    use hythe_pool::{Identity, Member};

    /// A participant as if of another container, with the socket that proves its life.
    fn foreigner(pool: &Pool) -> (Member, Presence) {
        let presence = Presence::announce(pool).expect("listens");
        let identity = Identity {
            pid: 1,
            start_time: 1,
            pid_namespace: 1,
            uid: 0,
        };
        let (control, kind) = (pool.control(), MemberKind::Process);
        let member =
            Member::join_with_session(control, kind, identity, "foreign", presence.session());
        (member.expect("a free record"), presence)
    }

    /// As on a kernel that gives no pidfd of a peer: what is watched is a connection.
    #[test]
    fn a_connection_that_hangs_up_is_a_reason_to_look_again() {
        let name = format!("hythe-watcher-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let (me, own) = foreigner(&pool);
        let (other, theirs) = foreigner(&pool);
        let mut door = theirs.door().expect("opened");
        let mut watch = Watch {
            pool: pool.clone(),
            me: me.index(),
            recoverer: me.recoverer(),
            keeps: Keeps {
                door: own.door().expect("opened"),
                time: Arc::new(CoarseTime::now()),
                spin_gate: Arc::new(SpinGate::new(Duration::ZERO)),
            },
            peers: HashMap::new(),
            is_unsure: false,
            looks: 0,
            naps: 0,
        };
        let key = (other.index(), other.session());
        let connect = || presence::connection(&pool, other.session()).expect("connects");

        watch.peers.insert(key, Watched::Connection(connect()));
        watch.look_at_all();
        assert!(!watch.is_unsure && watch.peers.contains_key(&key), "quiet");

        // Too many for the other: it hangs up, but lives.
        let many: Vec<OwnedFd> = (0..256)
            .map(|number| {
                if number % 32 == 0 {
                    door.look();
                }
                connect()
            })
            .collect();
        door.look();
        let last = many.into_iter().next_back().expect("many");
        watch.peers.insert(key, Watched::Connection(last));
        watch.look_at_all();
        assert!(watch.is_unsure, "looks again soon");
        assert!(pool.control().is_current(key.0, key.1), "it lives");

        watch.peers.insert(key, Watched::Connection(connect()));
        drop((theirs, door));
        watch.look_at_all();
        assert!(!pool.control().is_current(key.0, key.1), "recovered");
        std::fs::remove_dir_all(root).expect("own");
    }
}
