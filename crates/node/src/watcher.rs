//! The watcher: one thread per node that waits for the death of peers and recovers what they held.
//!
//! It sleeps in `poll` on the pidfds of all peers it can see. New peers are noticed by the pool's membership word, looked at
//! each [`LOOK`]; a peer that joins and dies between two looks is found dead at the next.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

use hythe_pool::{MemberIndex, MemberInfo, MemberStatus, Recoverer};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::pool::Pool;
use crate::process::{Life, has_ended, life_of};
use crate::{clock, wait};

/// How often a watcher looks for new peers.
const LOOK: Duration = Duration::from_millis(50);

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
    ) -> std::io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let stopped = rustix::io::fcntl_dupfd_cloexec(&stop, 0)?;
        let mut watch = Watch {
            pool,
            me,
            recoverer,
            peers: HashMap::new(),
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

struct Watch {
    pool: Pool,
    me: MemberIndex,
    recoverer: Recoverer,
    peers: HashMap<(MemberIndex, u32), OwnedFd>,
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

    /// Recovers the dead, and keeps a descriptor of each of the living.
    fn look_at_all(&mut self) {
        let members: Vec<MemberInfo> = self.pool.control().members().collect();
        self.peers.retain(|key, _| {
            members
                .iter()
                .any(|member| (member.index, member.session) == *key)
        });
        for member in members.iter().filter(|member| member.index != self.me) {
            let key = (member.index, member.session);
            match self.peers.get(&key) {
                // Its descriptor is proof enough, also where no more can be opened.
                Some(known) if !has_ended(known) => continue,
                Some(_) => {
                    // It stays readable: kept, it would make us spin while another recovers the peer.
                    self.peers.remove(&key);
                    self.recover(member);
                    continue;
                }
                None => {}
            }
            match life_of(&member.identity) {
                Life::Dead => self.recover(member),
                Life::Alive(descriptor) => {
                    self.peers.insert(key, descriptor);
                }
                Life::Unknown => {}
            }
        }
    }

    /// Recovers a participant whose death is proven.
    fn recover(&self, dead: &MemberInfo) {
        let control = self.pool.control();
        let mut is_dead = |member: &MemberInfo| {
            (member.index, member.session) == (dead.index, dead.session)
                || matches!(life_of(&member.identity), Life::Dead)
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
    fn sleep(&self, stop: &OwnedFd, membership: u32) -> bool {
        let nap = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK.subsec_nanos().into(),
        };
        loop {
            let mut waited_for = vec![PollFd::new(stop, PollFlags::IN)];
            let peers = self
                .peers
                .values()
                .map(|peer| PollFd::from_borrowed_fd(peer.as_fd(), PollFlags::IN));
            waited_for.extend(peers);
            // An interrupted poll is a short nap.
            let ready = poll(&mut waited_for, Some(&nap)).unwrap_or(0);
            if !waited_for[0].revents().is_empty() {
                return true;
            }
            if ready > 0 || self.pool.control().membership() != membership || self.someone_waits() {
                return false;
            }
        }
    }

    /// A record whose owner is dead but not recovered yet, because another recoverer may have died over it; or one whose owner
    /// may die before it raises the membership word.
    fn someone_waits(&self) -> bool {
        let mut members = self.pool.control().members();
        members.any(|member| member.status != MemberStatus::Alive)
    }
}
