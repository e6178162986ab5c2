//! Doorbells of other hops: eventfds by which a peer that is no process is rung, and rings; and
//! other files that wake when something comes, sockets for instance.
//!
//! A hop that has the two eventfds of a peer adds them here ([`Doorbells::add`]); whoever waits for
//! such a peer sleeps on a [`Line`] in place of the participant's futex. A line is an epoll
//! instance, edge-triggered, which holds the eventfd of every doorbell and one that the
//! participant's own bell is forwarded to (`bridge`). Several processes wait on the same eventfd:
//! nobody ever reads it, each write wakes every line, and what came before a sleep ends it at once.
//! A line serves one sleeper at a time; those that are not in use are kept.
//!
//! Used by the waits of this crate. What holds between calls: every line holds every doorbell that
//! there is. Never blocks but for the lock, which nobody holds while asleep.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hythe_abi::RegionIndex;
use hythe_pool::MemberIndex;
use hythe_sys::fork::ForkMark;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use crate::bridge::Bridge;
use crate::pool::Pool;

/// Of a line, fetched by one call.
const BATCH: usize = 8;

/// One peer's two eventfds, of one of its lives, or another file. It does not wake this participant
/// any more when the last copy is dropped.
#[derive(Debug)]
pub struct Doorbell {
    registry: Weak<Registry>,
    /// Of a peer with eventfds: which it is, and what rings it.
    peer: Option<(DoorbellKey, OwnedFd)>,
    rung: OwnedFd,
}

/// Which peer, and which of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorbellKey {
    /// The region that the peer shares.
    pub region: RegionIndex,
    /// The session that began its life.
    pub session: u32,
}

/// The doorbells of a participant.
#[derive(Debug)]
pub struct Doorbells {
    registry: Arc<Registry>,
    pool: Pool,
    me: MemberIndex,
}

#[derive(Debug)]
struct Registry {
    mark: Arc<ForkMark>,
    /// How many doorbells there are; read before the lock is taken.
    count: AtomicUsize,
    refused: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    doorbells: Vec<Weak<Doorbell>>,
    /// Every line.
    lines: Vec<Weak<OwnedFd>>,
    /// Those that nobody sleeps on.
    idle: Vec<Arc<OwnedFd>>,
    /// Forwards the participant's bell to the lines.
    bell: Option<Arc<Bell>>,
}

#[derive(Debug)]
struct Bell {
    rung: OwnedFd,
    _bridge: Bridge,
}

/// What one sleeper sleeps on. Dropped, another may use it.
#[derive(Debug)]
pub(crate) struct Line {
    registry: Arc<Registry>,
    epoll: Arc<OwnedFd>,
    /// What forwards the participant's bell to it.
    bell: Option<Arc<Bell>>,
}

impl Doorbell {
    /// Rings the peer. An eventfd whose counter is full holds rings enough.
    pub fn ring(&self) {
        if let Some((_, ring)) = &self.peer {
            let _ = rustix::io::write(ring, &1_u64.to_ne_bytes());
        }
    }

    fn key(&self) -> Option<DoorbellKey> {
        self.peer.as_ref().map(|(key, _)| *key)
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        let registry = self.registry.upgrade();
        // What a forked copy does to an epoll instance it does to the original's.
        if let Some(registry) = registry.filter(|registry| !registry.mark.is_copy()) {
            registry.remove(self);
        }
    }
}

impl Doorbells {
    pub(crate) fn new(pool: &Pool, me: MemberIndex, mark: &Arc<ForkMark>) -> Self {
        Self {
            registry: Arc::new(Registry {
                mark: Arc::clone(mark),
                count: AtomicUsize::new(0),
                refused: AtomicBool::new(false),
                state: Mutex::default(),
            }),
            pool: pool.clone(),
            me,
        }
    }

    /// From now on a participant without: rings pass through agents.
    pub fn refuse(&self) {
        self.registry.refused.store(true, Ordering::Relaxed);
    }

    /// Does this participant do without doorbells?
    #[must_use]
    pub fn are_refused(&self) -> bool {
        self.registry.refused.load(Ordering::Relaxed)
    }

    /// The doorbell of a peer, if this participant has it.
    #[must_use]
    pub fn get(&self, key: DoorbellKey) -> Option<Arc<Doorbell>> {
        let known = self.registry.lock().known();
        known
            .into_iter()
            .find(|doorbell| doorbell.key() == Some(key))
    }

    /// The doorbell of the peer that shares a region, if this participant has it.
    #[must_use]
    pub fn of_region(&self, region: RegionIndex) -> Option<Arc<Doorbell>> {
        let known = self.registry.lock().known();
        let mut newest_first = known.into_iter().rev();
        newest_first.find(|doorbell| doorbell.key().is_some_and(|key| key.region == region))
    }

    /// Adds the doorbell of a peer: `ring` wakes it, and it adds to `rung`. One that is there
    /// already stays, and is returned.
    ///
    /// # Errors
    /// The kernel refuses to wait for `rung`.
    pub fn add(
        &self,
        key: DoorbellKey,
        (ring, rung): (OwnedFd, OwnedFd),
    ) -> io::Result<Arc<Doorbell>> {
        let state = self.registry.lock();
        let known = state.known();
        if let Some(known) = known.iter().find(|known| known.key() == Some(key)).cloned() {
            // Before the others, of which these may be the last copies.
            drop(state);
            return Ok(known);
        }
        self.add_to(state, Some((key, ring)), rung)
    }

    /// Adds a file: waits for peers of other hops end when it becomes readable once more.
    ///
    /// # Errors
    /// The kernel refuses to wait for it.
    pub fn add_file(&self, file: OwnedFd) -> io::Result<Arc<Doorbell>> {
        self.add_to(self.registry.lock(), None, file)
    }

    fn add_to(
        &self,
        mut state: MutexGuard<'_, State>,
        peer: Option<(DoorbellKey, OwnedFd)>,
        rung: OwnedFd,
    ) -> io::Result<Arc<Doorbell>> {
        let doorbell = Arc::new(Doorbell {
            registry: Arc::downgrade(&self.registry),
            peer,
            rung,
        });
        // Counted first: when it is dropped, also on an error, it is taken off again.
        self.registry.count.fetch_add(1, Ordering::Relaxed);
        let lines: Vec<_> = state.lines.iter().filter_map(Weak::upgrade).collect();
        let watched = lines
            .iter()
            .try_for_each(|line| watch(line, &doorbell.rung));
        state.doorbells.push(Arc::downgrade(&doorbell));
        // Before the doorbells, which take the lock again when they are dropped.
        drop(state);
        watched.map(|()| doorbell)
    }

    /// What to sleep on so that a doorbell wakes, and the participant's bell. `None`: there is no
    /// doorbell, or nothing could be made to sleep on.
    pub(crate) fn line(&self) -> Option<Line> {
        self.line_hearing(true)
    }

    /// As [`Doorbells::line`], but the participant's bell does not wake it.
    pub(crate) fn line_without_bell(&self) -> Option<Line> {
        self.line_hearing(false)
    }

    fn line_hearing(&self, bell: bool) -> Option<Line> {
        if self.registry.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let line = self.make_line(bell);
        line.inspect_err(|error| {
            tracing::warn!(%error, "cannot sleep on a doorbell; the nap of the wait bounds it");
        })
        .ok()
    }

    fn make_line(&self, hears_bell: bool) -> io::Result<Line> {
        let mut state = self.registry.lock();
        let bell = match (hears_bell, &state.bell) {
            (false, _) => None,
            (true, Some(bell)) => Some(Arc::clone(bell)),
            (true, None) => Some(Arc::new(Bell::forward(&self.pool, self.me)?)),
        };
        let line = |epoll, bell| Line {
            registry: Arc::clone(&self.registry),
            epoll,
            bell,
        };
        if let Some(bell) = &bell {
            state.bell = Some(Arc::clone(bell));
            if let Some(idle) = state.idle.pop() {
                return Ok(line(idle, Some(Arc::clone(bell))));
            }
        }
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        if let Some(bell) = &bell {
            watch(&epoll, &bell.rung)?;
        }
        let doorbells = state.known();
        let watched = doorbells
            .iter()
            .try_for_each(|doorbell| watch(&epoll, &doorbell.rung));
        state.lines.retain(|line| line.strong_count() > 0);
        state.lines.push(Arc::downgrade(&epoll));
        // Before the doorbells, of which these may be the last copies.
        drop(state);
        watched.map(|()| line(epoll, bell))
    }
}

impl State {
    /// Drop what is returned without the lock: it may be the last copies.
    fn known(&self) -> Vec<Arc<Doorbell>> {
        self.doorbells.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if self.mark.is_copy() {
            // Nor is its thread here, and the bell that it sleeps on is the parent's.
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(state.bell.take());
        }
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What is in there is whole after each statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A doorbell goes. With the last of them goes all that waits were woken by.
    fn remove(&self, doorbell: &Doorbell) {
        let mut state = self.lock();
        state.doorbells.retain(|known| known.strong_count() > 0);
        for line in state.lines.iter().filter_map(Weak::upgrade) {
            // Explicitly: other processes keep the file open, and with it the entry.
            let _ = epoll::delete(&line, &doorbell.rung);
        }
        let mut left = (Vec::new(), None);
        if self.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            left = (std::mem::take(&mut state.idle), state.bell.take());
        }
        // The end of the bridge is waited for without the lock.
        drop(state);
        drop(left);
    }
}

impl Bell {
    fn forward(pool: &Pool, me: MemberIndex) -> io::Result<Self> {
        let rung = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let written = rustix::io::fcntl_dupfd_cloexec(&rung, 0)?;
        let bridge = Bridge::start(pool.clone(), me, written)?;
        Ok(Self {
            rung,
            _bridge: bridge,
        })
    }
}

fn watch(line: &OwnedFd, rung: &OwnedFd) -> io::Result<()> {
    let flags = EventFlags::IN | EventFlags::ET;
    // Which of them it was makes no difference to who is woken.
    Ok(epoll::add(line, rung, EventData::new_u64(0), flags)?)
}

impl Line {
    /// Sleeps until it is rung, at most for `timeout`. Returns at once if it was rung since the
    /// last sleep of anybody on this line: the caller looks again, and sleeps again. True: rung.
    pub(crate) fn sleep(&self, timeout: Duration) -> bool {
        let mut fetched = [MaybeUninit::uninit(); BATCH];
        let wanted = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match epoll::wait(&self.epoll, &mut fetched, Some(&wanted)) {
            Ok((fetched, _)) => !fetched.is_empty(),
            Err(Errno::INTR) => false,
            // Refused, by a seccomp filter for instance: who looks again at once would spin.
            Err(_) => {
                hythe_sys::wait::sleep(timeout.min(Duration::from_millis(1)));
                false
            }
        }
    }

    /// Takes what has come, without sleeping.
    pub(crate) fn drain(&self) {
        self.sleep(Duration::ZERO);
    }

    /// Readable while it has been rung and nobody has slept on it since.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut state = self.registry.lock();
        // One whose bell is not forwarded any more is of no use to others.
        let is_usable = match (&self.bell, &state.bell) {
            (Some(own), Some(now)) => Arc::ptr_eq(own, now),
            _ => false,
        };
        if is_usable {
            state.idle.push(Arc::clone(&self.epoll));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolOptions;

    const LONG: Duration = Duration::from_secs(100);

    fn event() -> OwnedFd {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("made")
    }

    fn copy(file: &OwnedFd) -> OwnedFd {
        rustix::io::fcntl_dupfd_cloexec(file, 0).expect("duplicated")
    }

    fn write(file: &OwnedFd) {
        rustix::io::write(file, &1_u64.to_ne_bytes()).expect("written");
    }

    fn key(session: u32) -> DoorbellKey {
        DoorbellKey {
            region: RegionIndex(1),
            session,
        }
    }

    /// Runs a test with the doorbells of a participant of a pool of its own.
    fn with_doorbells(name: &str, test: impl FnOnce(&Doorbells, &Pool)) {
        let root = format!("hythe-doorbell-{name}-{}", std::process::id());
        let root = std::env::temp_dir().join(root);
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let node = crate::Node::join(&pool, "test").expect("joins");
        test(node.participant().doorbells(), &pool);
        drop(node);
        std::fs::remove_dir_all(root).expect("own");
    }

    #[test]
    fn one_write_ends_the_sleep_of_everybody_and_of_nobody_twice() {
        with_doorbells("all", |doorbells, _| {
            assert!(doorbells.line().is_none(), "nothing to hear");
            let (ring, rung) = (event(), event());
            let doorbell = doorbells.add(key(7), (copy(&ring), copy(&rung)));
            let doorbell = doorbell.expect("added");
            let lines = [doorbells.line(), doorbells.line()].map(|line| line.expect("made"));
            assert!(!lines[0].sleep(Duration::ZERO));
            for _ in 0..3 {
                // What came before the sleep ends it, also behind others that nobody has read.
                write(&rung);
                for line in &lines {
                    assert!(line.sleep(LONG));
                    assert!(!line.sleep(Duration::ZERO));
                }
            }
            write(&rung);
            lines[0].drain();
            assert!(!lines[0].sleep(Duration::ZERO));
            doorbell.ring();
            assert_eq!(rustix::io::read(&ring, &mut [0; 8]), Ok(8));
        });
    }

    #[test]
    fn line_hears_bell_and_later_doorbells_until_they_leave() {
        with_doorbells("bell", |doorbells, pool| {
            let (first, second) = (event(), event());
            let added = doorbells.add(key(1), (event(), copy(&first)));
            let one = added.expect("added");
            let line = doorbells.line().expect("made");
            crate::wait::ring_always(pool.control(), doorbells.me);
            assert!(line.sleep(LONG));
            let added = doorbells.add(key(2), (event(), copy(&second)));
            let two = added.expect("added");
            write(&second);
            assert!(line.sleep(LONG));
            let newest = doorbells.of_region(RegionIndex(1)).expect("known");
            assert!(Arc::ptr_eq(&newest, &two) && doorbells.get(key(3)).is_none());
            drop((newest, two));
            assert!(doorbells.get(key(2)).is_none());
            write(&second);
            // Although this process keeps the file open.
            assert!(!line.sleep(Duration::ZERO));
            drop(one);
            drop(line);
            assert!(doorbells.line().is_none());
            let state = doorbells.registry.lock();
            assert!(state.idle.is_empty() && state.bell.is_none());
        });
    }

    #[test]
    fn what_a_copy_drops_the_original_still_hears() {
        with_doorbells("copy", |doorbells, _| {
            let rung = event();
            let added = doorbells.add(key(1), (event(), copy(&rung)));
            let mut doorbell = Some(added.expect("added"));
            let line = doorbells.line().expect("made");
            let child = || {
                drop(doorbell.take());
                0
            };
            assert_eq!(hythe_sys::fork::run_in_child(child).expect("forked"), 0);
            write(&rung);
            assert!(line.sleep(LONG));
        });
    }
}
