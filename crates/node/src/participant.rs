//! This process as a participant of a pool: its row in the ledger, and the one place from which it
//! changes the pool.
//!
//! All ports of a node share one [`Participant`]; leases and samples, which may outlive them, keep
//! the [`Joined`] behind it. It is the lowest layer and knows none of them. Ports register what
//! they can release when the pool is full as a [`Reserve`], and wait sets register for the marks of
//! their ports with [`Routes`].
//!
//! Steps on the ledger are taken under one lock, which costs nothing as long as one thread takes
//! them (`hythe_sys::biased_lock`). What a buffer keeps alive is not counted anew for each buffer:
//! counts of buffers that went elsewhere are kept for the next ones, as long as there are ports.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hythe_abi::RegionIndex;
use hythe_abi::pool::REGIONS_MAX;
use hythe_pool::{Cursors, LedgerSlot, Member, MemberIndex, MemberKind, PoolError};
use hythe_sys::biased_lock::{BiasedGuard, BiasedLock};
use hythe_sys::fork::ForkMark;

use crate::clock::CoarseTime;
use crate::crowd::Crowd;
use crate::doorbell::Doorbells;
use crate::interrupt::Interrupt;
use crate::open_counts::OpenCounts;
use crate::pool::Pool;
use crate::pool::liveness_socket::LivenessSocket;
use crate::reserve::Reserves;
use crate::routes::Routes;
use crate::sleep_words::SleepWords;
use crate::spin::SpinGate;
use crate::wait::{Awaited, SleepPlace, WaitPlan, WaitReport, wait_for, wait_reporting};
use crate::watcher::{Keeps, Watcher};
use crate::{NodeError, holders};

/// What an operation on a semaphore or queue waits for takes far less than a millisecond: a process
/// that has the object that long is stopped.
const OBJECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Counts that wait for the next buffers: as many as are under way in a queue of the usual depth.
const SPARE_MAX: usize = 32;

/// This process as a participant, as its ports share it.
#[derive(Debug)]
pub struct Participant {
    joined: Arc<Joined>,
}

/// This process as a participant. It leaves the pool when this goes: with the last port, lease and
/// sample.
#[derive(Debug)]
pub struct Joined {
    pool: Pool,
    index: MemberIndex,
    kind: MemberKind,
    session: u32,
    mark: Arc<ForkMark>,
    process: u32,
    time: Arc<CoarseTime>,
    /// `None` only while the node goes.
    liveness_socket: Option<LivenessSocket>,
    acting: BiasedLock<Acting>,
    watcher: Option<Watcher>,
    reserves: Reserves,
    spin_gate: Arc<SpinGate>,
    routes: Routes,
    sleep_words: SleepWords,
    crowd: Crowd,
    doorbells: Doorbells,
    open_objects: OpenCounts,
    /// How long an operation on a semaphore or queue waits for the end of another's, in
    /// microseconds.
    object_timeout_us: AtomicU32,
    interrupt: Interrupt,
}

/// The one place from which this participant acts on the ledger.
#[derive(Debug)]
pub(crate) struct Acting {
    /// `None` only while the node goes.
    member: Option<Member>,
    cursors: [Cursors; REGIONS_MAX],
    /// Of the same participant: of buffers that went elsewhere, for the next ones. `None` as soon
    /// as there are no ports: what waits here would keep it alive.
    spare: Option<Vec<Arc<Joined>>>,
}

impl Acting {
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut Member, &mut [Cursors; REGIONS_MAX]) {
        #[allow(
            clippy::expect_used,
            reason = "proof: it is taken in `drop` only, when no one else has the value"
        )]
        let member = self.member.as_mut().expect("a node acts before it goes");
        (member, &mut self.cursors)
    }
}

impl Participant {
    /// Joins a pool under a name, as itself or for another host.
    ///
    /// # Errors
    /// As [`crate::Node::join`].
    pub(crate) fn join(pool: &Pool, kind: MemberKind, name: &str) -> Result<Arc<Self>, NodeError> {
        let joined = pool.unless_lost(Joined::join(pool, kind, name))?;
        Ok(Arc::new(Self { joined }))
    }

    /// What a buffer keeps.
    #[inline(always)]
    pub(crate) fn keep(&self) -> Arc<Joined> {
        let spare = self.joined.acting.try_lock_as_owner();
        let kept = spare.and_then(|mut acting| acting.spare.as_mut()?.pop());
        kept.unwrap_or_else(|| Arc::clone(&self.joined))
    }

    /// Keeps what a buffer kept for the next one.
    #[inline(always)]
    pub(crate) fn unkeep(&self, joined: Arc<Joined>) {
        // What finds no place goes behind the lock: nobody drops a participant inside.
        let mut unplaced = Some(joined);
        if let Some(mut acting) = self.joined.acting.try_lock_as_owner()
            && let Some(spare) = acting.spare.as_mut()
            && spare.len() < SPARE_MAX
        {
            spare.extend(unplaced.take());
        }
        drop(unplaced);
    }

    /// Is it this one?
    #[inline(always)]
    pub(crate) fn is(&self, joined: &Arc<Joined>) -> bool {
        Arc::ptr_eq(&self.joined, joined)
    }
}

impl Deref for Participant {
    type Target = Joined;

    #[inline(always)]
    fn deref(&self) -> &Joined {
        &self.joined
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        // A thread of the parent may have been inside.
        if !self.joined.is_a_copy() {
            let spare = self.joined.acting.lock().spare.take();
            drop(spare);
        }
    }
}

impl Joined {
    fn join(pool: &Pool, kind: MemberKind, name: &str) -> Result<Arc<Self>, NodeError> {
        let mark = ForkMark::new()
            .map(Arc::new)
            .map_err(crate::error::file("map a page for", pool.path()))?;
        hythe_sys::wait::check_futex()
            .map_err(crate::error::file("wait on futexes of", pool.path()))?;
        pool.check_found()?;
        pool.prefault()?;
        let joined = crate::joining::join(pool, kind, name);
        let (member, liveness_socket) = joined.map_err(|error| holders::named(pool, error))?;
        pool.peers().add_node(member.index(), member.session());
        let time = Arc::new(CoarseTime::now());
        let spin_gate = Arc::new(SpinGate::new(pool.spin_limit()));
        spin_gate.refresh(pool.control(), member.index());
        let (index, session, recoverer) = (member.index(), member.session(), member.recoverer());
        // Before the first thread: what it asks the kernel for takes many milliseconds where there
        // are two.
        let acting = BiasedLock::new(Acting {
            member: Some(member),
            cursors: [Cursors::default(); REGIONS_MAX],
            spare: Some(Vec::with_capacity(SPARE_MAX)),
        });
        let watcher = liveness_socket.acceptor().and_then(|acceptor| {
            let keeps = Keeps {
                acceptor,
                time: Arc::clone(&time),
                spin_gate: Arc::clone(&spin_gate),
            };
            Watcher::start(pool.clone(), (index, session), recoverer, keeps)
        });
        let (watcher, failed) = match watcher {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(error)),
        };
        // Made first, so that the record is given back if the thread could not be started.
        let joined = Arc::new(Self {
            pool: pool.clone(),
            index,
            kind,
            session,
            mark: Arc::clone(&mark),
            process: std::process::id(),
            time,
            liveness_socket: Some(liveness_socket),
            acting,
            watcher,
            reserves: Reserves::default(),
            spin_gate,
            routes: Routes::default(),
            sleep_words: SleepWords::default(),
            crowd: Crowd::default(),
            doorbells: Doorbells::new(pool, index, &mark),
            open_objects: OpenCounts::default(),
            object_timeout_us: AtomicU32::new(OBJECT_TIMEOUT.as_micros() as u32),
            interrupt: Interrupt::default(),
        });
        match failed {
            None => Ok(joined),
            Some(error) => Err(crate::error::file("start the watcher of", pool.path())(
                error,
            )),
        }
    }

    /// The pool.
    #[must_use]
    #[inline]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub const fn index(&self) -> MemberIndex {
        self.index
    }

    /// Does it stand for another host?
    pub(crate) fn is_host(&self) -> bool {
        self.kind == MemberKind::Host
    }

    /// Does it act for other hosts?
    pub(crate) const fn is_for_hosts(&self) -> bool {
        matches!(self.kind, MemberKind::Host | MemberKind::HostAgent)
    }

    /// Changes with each participant of the same number.
    #[must_use]
    pub const fn session(&self) -> u32 {
        self.session
    }

    /// Did this process close descriptors of the pool? Looked at now: the watcher may not have
    /// noticed it yet.
    pub(crate) fn is_missing_descriptors(&self) -> bool {
        let is_open = self
            .liveness_socket
            .as_ref()
            .is_none_or(LivenessSocket::is_open);
        if !is_open && !self.is_a_copy() {
            self.pool.lose_descriptors(self.session);
        }
        !is_open || self.pool.is_missing_descriptors()
    }

    pub(crate) const fn reserves(&self) -> &Reserves {
        &self.reserves
    }

    pub(crate) fn spin_gate(&self) -> &SpinGate {
        &self.spin_gate
    }

    /// Who else wants the CPUs of its threads.
    pub(crate) const fn crowd(&self) -> &Crowd {
        &self.crowd
    }

    pub(crate) const fn sleep_words(&self) -> &SleepWords {
        &self.sleep_words
    }

    pub(crate) const fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(crate) const fn open_objects(&self) -> &OpenCounts {
        &self.open_objects
    }

    /// How long an operation on a semaphore or queue waits for the end of another's from now on;
    /// zero: it only looks. For who acts for several, and must not stand still for one.
    pub fn set_object_timeout(&self, timeout: Duration) {
        let micros = u32::try_from(timeout.as_micros()).unwrap_or(u32::MAX);
        self.object_timeout_us.store(micros, Ordering::Relaxed);
    }

    /// Does the program want its waits to end?
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.is_asked()
    }

    pub(crate) const fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    pub(crate) fn object_timeout(&self) -> Duration {
        Duration::from_micros(self.object_timeout_us.load(Ordering::Relaxed).into())
    }

    /// What rings it, and what it rings, beside bells.
    #[must_use]
    pub const fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    /// Is this a copy in a forked child? Then its end is not that of the participant. One load.
    #[must_use]
    #[inline]
    pub fn is_a_copy(&self) -> bool {
        self.mark.is_copy()
    }

    /// Refuses what a copy in a forked child is asked to do: before any lock, which a thread of the
    /// parent may have held.
    ///
    /// # Errors
    /// [`NodeError::ForkedCopy`].
    #[inline]
    pub fn check_original(&self) -> Result<(), NodeError> {
        if self.is_a_copy() {
            let process = self.process;
            return Err(NodeError::ForkedCopy { process });
        }
        Ok(())
    }

    /// Acts on the ledger. Not for a copy in a forked child.
    #[inline(always)]
    pub fn act<T>(&self, step: impl FnOnce(&mut Member) -> T) -> T {
        self.act_with_cursors(|member, _| step(member))
    }

    #[inline(always)]
    pub(crate) fn act_with_cursors<T>(
        &self,
        step: impl FnOnce(&mut Member, &mut [Cursors; REGIONS_MAX]) -> T,
    ) -> T {
        let mut acting = self.acting();
        let (member, cursors) = acting.parts();
        step(member, cursors)
    }

    /// The right to act on the ledger, as long as this is held: for steps that are to be compiled
    /// where they are taken.
    #[inline(always)]
    pub(crate) fn acting(&self) -> BiasedGuard<'_, Acting> {
        // A panic inside a step leaves the journal open, which recovery settles; what is here is
        // still consistent.
        let mut acting = self.acting.lock();
        acting.parts().0.set_time(self.time.monotonic_ms());
        acting
    }

    /// Gives one reference back, and remembers a slot that becomes free by that: it is warm.
    #[inline(always)]
    pub(crate) fn release(&self, region: RegionIndex, slot: LedgerSlot) -> Result<(), PoolError> {
        let mut acting = self.acting();
        let (member, cursors) = acting.parts();
        if member.release(&self.pool.control().view(), slot, 1)?
            && let Some(geometry) = self.pool.regions().region(region)
        {
            cursors[usize::from(region.0)].note_free(geometry, slot);
        }
        Ok(())
    }

    /// Where its waits sleep.
    pub(crate) fn place(&self) -> SleepPlace<'_> {
        SleepPlace {
            pool: &self.pool,
            me: self.index,
            doorbells: &self.doorbells,
            words: &self.sleep_words,
            crowd: &self.crowd,
            interrupt: None,
        }
    }

    /// Where waits sleep that are calls of the program: an interrupt ends them with an error.
    pub(crate) fn interruptible_place(&self) -> SleepPlace<'_> {
        SleepPlace {
            interrupt: Some(&self.interrupt),
            ..self.place()
        }
    }

    /// Tries until something comes of it or the time is over (`None`), spinning first as far as
    /// this place may.
    ///
    /// # Errors
    /// What `attempt` says.
    pub fn wait_for<T>(
        &self,
        plan: WaitPlan,
        timeout: Duration,
        attempt: impl FnMut() -> Result<Option<T>, NodeError>,
    ) -> Result<Option<T>, NodeError> {
        let plan = plan.gated(&self.spin_gate);
        wait_for(self.place(), plan, timeout, attempt)
    }

    /// As [`wait_for`](Self::wait_for), until an interrupt, too.
    pub(crate) fn wait_interruptibly<T>(
        &self,
        plan: WaitPlan,
        timeout: Duration,
        attempt: impl FnMut() -> Result<Option<T>, NodeError>,
    ) -> Result<Option<T>, NodeError> {
        let plan = plan.gated(&self.spin_gate);
        wait_for(self.interruptible_place(), plan, timeout, attempt)
    }

    /// As [`wait_interruptibly`](Self::wait_interruptibly), for what says itself how often it needs
    /// a look.
    pub(crate) fn wait_on<A: Awaited>(
        &self,
        plan: WaitPlan,
        timeout: Duration,
        awaited: &mut A,
    ) -> Result<Option<A::Found>, NodeError> {
        let plan = plan.gated(&self.spin_gate);
        let mut report = WaitReport::default();
        wait_reporting(
            self.interruptible_place(),
            plan,
            timeout,
            &mut report,
            awaited,
        )
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if self.is_a_copy() {
            // Nor is its thread here, and what would stop it stops the parent's.
            std::mem::forget(self.watcher.take());
            return;
        }
        // First the watcher: it must not act for a participant that is gone.
        self.watcher = None;
        let is_missing_descriptors = self.is_missing_descriptors();
        let Some(member) = self.acting.get_mut().member.take() else {
            return;
        };
        self.pool.peers().remove_node(self.index, self.session);
        if let Err(error) = self.pool.check_whole() {
            // Each call has reported it.
            tracing::debug!(%error, "nothing to give back on leaving");
            if is_missing_descriptors {
                // Its number is another file's by now, which closing it would close.
                std::mem::forget(self.liveness_socket.take());
            }
            return;
        }
        let control = self.pool.control();
        if let Err(error) = member.depart(control, self.pool.regions()) {
            tracing::error!(%error, "could not give everything back on leaving");
        }
        // Only now: while the record stands, a socket that refuses is the proof of our death.
        if let Some(liveness_socket) = self.liveness_socket.take() {
            liveness_socket.withdraw();
        }
        for member in control.tables().members() {
            crate::wait::ring(control, member.index);
        }
    }
}
