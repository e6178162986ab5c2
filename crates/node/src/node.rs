//! A node: this process as a participant of a pool.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hythe_abi::link::Direction;
use hythe_abi::pool::REGIONS_MAX;
use hythe_abi::{Generation, HEADROOM_BYTES, RegionIndex};
use hythe_memory::Memory;
use hythe_pool::{
    ChannelInfo, ChannelKind, ChannelType, CoreRegionPlan, Cursors, LEASES_AHEAD, LedgerSlot,
    Member, MemberIndex, PoolError, PortIndex, PortKind, PortPolicy, PortWishes, RegionGeometry,
    RegionKind,
};
use hythe_sys::fork::ForkMark;

use crate::buffer::{Lease, Reference};
use crate::clock::CoarseTime;
use crate::core_way::{LinkMap, caretaker};
use crate::event::{Listener, Notifier};
use crate::history::Histories;
use crate::pool::Pool;
use crate::presence::Presence;
use crate::publisher::{Publisher, PublisherOptions};
use crate::request::{Client, ClientOptions, Server, ServerOptions};
use crate::spin::SpinGate;
use crate::subscriber::{Subscriber, SubscriberOptions};
use crate::waiter::{Routes, Waiter};
use crate::watcher::{Keeps, Watcher};
use crate::wire::{self, WireOptions};
use crate::{NodeError, holders};

/// How long a message may be held up by those who should make room for it, unless a sender says
/// otherwise.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_millis(100);
/// A release rings nobody's bell: whoever waits for a free slot looks again after this long.
const LEASE_LOOK: Duration = Duration::from_millis(1);
/// How long somebody else may take to make a channel or region of the same name.
const BUSY_BOUND: Duration = Duration::from_secs(2);

/// A participant. Clones share it; it leaves the pool when the last clone, port, lease and sample is gone.
///
/// It is this process that takes part. A child made by `fork` alone (without `exec`) has copies of these values and is not the
/// participant: dropping them there does nothing, using them is [`NodeError::ForkedCopy`], and it may join with a node of its own.
/// The bytes of leases and samples are shared with the parent there as well: a child must not write them.
#[derive(Clone, Debug)]
pub struct Node {
    shared: Arc<Shared>,
}

/// What ports, leases and samples share with their node.
#[derive(Debug)]
pub(crate) struct Shared {
    pool: Pool,
    index: MemberIndex,
    session: u32,
    mark: ForkMark,
    process: u32,
    time: Arc<CoarseTime>,
    /// `None` only while the node goes.
    presence: Option<Presence>,
    acting: Mutex<Acting>,
    watcher: Option<Watcher>,
    histories: Histories,
    spin_gate: Arc<SpinGate>,
    routes: Routes,
}

/// The one place from which this participant acts on the ledger.
#[derive(Debug)]
pub(crate) struct Acting {
    /// `None` only while the node goes.
    member: Option<Member>,
    cursors: [Cursors; REGIONS_MAX],
}

impl Node {
    /// Joins a pool under a name.
    ///
    /// # Errors
    /// [`NodeError::Exhausted`] if the pool has as many living participants as it can, [`PoolError::BadName`];
    /// [`NodeError::NotLocked`] if its maker asks for locked memory and the limit is lower; no permission.
    pub fn join(pool: &Pool, name: &str) -> Result<Self, NodeError> {
        let mark = ForkMark::new().map_err(crate::error::file("map a page for", pool.path()))?;
        hythe_sys::wait::check_futex()
            .map_err(crate::error::file("wait on futexes of", pool.path()))?;
        crate::residence::settle(pool)?;
        let joined = crate::joining::join(pool, name);
        let (member, presence) = joined.map_err(|error| holders::named(pool, error))?;
        let time = Arc::new(CoarseTime::now());
        let spin_gate = Arc::new(SpinGate::new(pool.spin_limit()));
        spin_gate.refresh(pool.control(), member.index());
        let watcher = presence.door().and_then(|door| {
            let keeps = Keeps {
                door,
                time: Arc::clone(&time),
                spin_gate: Arc::clone(&spin_gate),
            };
            Watcher::start(pool.clone(), member.index(), member.recoverer(), keeps)
        });
        let (watcher, failed) = match watcher {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(error)),
        };
        let shared = Shared {
            pool: pool.clone(),
            index: member.index(),
            session: member.session(),
            mark,
            process: std::process::id(),
            time,
            presence: Some(presence),
            acting: Mutex::new(Acting {
                member: Some(member),
                cursors: [Cursors::default(); REGIONS_MAX],
            }),
            watcher,
            histories: Histories::default(),
            spin_gate,
            routes: Routes::default(),
        };
        // Made first, so that the record is given back if the thread could not be started.
        let node = Self {
            shared: Arc::new(shared),
        };
        match failed {
            None => Ok(node),
            Some(error) => Err(crate::error::file("start the watcher of", pool.path())(
                error,
            )),
        }
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// This participant's number.
    #[must_use]
    pub fn index(&self) -> MemberIndex {
        self.shared.index
    }

    /// This participant's session.
    #[must_use]
    pub fn session(&self) -> u32 {
        self.shared.session
    }

    /// Leases a buffer for at most `bytes` of payload, waiting for at most 100 ms until a slot is
    /// free. [`Publisher::lease`] waits as long as its options say, [`Node::try_lease_in`] not at
    /// all.
    ///
    /// # Errors
    /// [`PoolError::TooLarge`]; [`NodeError::Exhausted`] if all slots that are large enough stay
    /// held, also after what the publishers of this node keep as
    /// [history](PublisherOptions::history) was given up.
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        self.lease_in(RegionIndex(0), bytes)
    }

    /// Leases a buffer of a certain region: one that a core sees, for instance.
    ///
    /// # Errors
    /// As [`Node::lease`]; no such region.
    pub fn lease_in(&self, region: RegionIndex, bytes: usize) -> Result<Lease, NodeError> {
        named_lease_in(&self.shared, region, bytes, LeaseWait::default())
    }

    /// As [`Node::lease_in`], without waiting for a free slot.
    ///
    /// # Errors
    /// As [`Node::lease_in`].
    pub fn try_lease_in(&self, region: RegionIndex, bytes: usize) -> Result<Lease, NodeError> {
        named_lease_in(&self.shared, region, bytes, LeaseWait::NONE)
    }

    /// The region of the pool that the network stack may send from without a copy: found, or added as `options` say. A pool has
    /// one; many processes lease slots of it by [`Node::lease_in`], each time with fresh pages.
    ///
    /// Those cost about as much as four sends of the same bytes (ADR 0017): who knows that everything was sent by copying keeps its
    /// lease and writes it again.
    ///
    /// # Errors
    /// [`PoolError::TableFull`] if the ledger has no entries left for its slots; no room; only the pool's owner adds it;
    /// [`NodeError::Unsafe`] if the pool is not on a tmpfs, or on one with huge pages.
    pub fn wire_region(&self, options: &WireOptions) -> Result<RegionIndex, NodeError> {
        wire::find_or_add(&self.shared, options).map_err(|error| self.named(error))
    }

    /// The region that a core of this name shares, once it has run in this pool.
    #[must_use]
    pub fn core_region(&self, name: &str) -> Option<RegionIndex> {
        // A region that cannot be read is not there for us; opening the pool has said why.
        let _ = self
            .shared
            .pool
            .regions()
            .refresh(self.shared.pool.control());
        let mut regions = self.shared.pool.regions().iter();
        regions
            .find(|region| region.kind == RegionKind::Core && region.name == name)
            .map(|region| region.index)
    }

    /// Opens a publisher on a channel, which is made if there is none.
    ///
    /// # Errors
    /// Another type, a full table, a core endpoint that somebody else is attached to or that carries payload the other way.
    pub fn publisher(
        &self,
        channel: &str,
        options: &PublisherOptions,
    ) -> Result<Publisher, NodeError> {
        Publisher::open(&self.shared, channel, options).map_err(|error| self.named(error))
    }

    /// Opens a subscriber on a channel, which is made if there is none.
    ///
    /// # Errors
    /// As [`Node::publisher`].
    pub fn subscriber(
        &self,
        channel: &str,
        options: &SubscriberOptions,
    ) -> Result<Subscriber, NodeError> {
        Subscriber::open(&self.shared, channel, options).map_err(|error| self.named(error))
    }

    fn named(&self, error: NodeError) -> NodeError {
        holders::named(self.pool(), error)
    }

    /// One wait for many ports and file descriptors.
    ///
    /// # Errors
    /// [`NodeError::Waiter`]: too many open files.
    pub fn waiter(&self) -> Result<Waiter, NodeError> {
        Waiter::new(&self.shared)
    }

    /// Opens a client of a request/reply channel, which is made if there is none.
    ///
    /// # Errors
    /// Another kind or type, a full table.
    pub fn client(&self, channel: &str, options: &ClientOptions) -> Result<Client, NodeError> {
        Client::open(&self.shared, channel, options).map_err(|error| self.named(error))
    }

    /// Opens a server of a request/reply channel, which is made if there is none. Where there are several, requests go to them in
    /// turn.
    ///
    /// # Errors
    /// As [`Node::client`].
    pub fn server(&self, channel: &str, options: &ServerOptions) -> Result<Server, NodeError> {
        Server::open(&self.shared, channel, options).map_err(|error| self.named(error))
    }

    /// Opens a notifier of an event channel, which is made if there is none.
    ///
    /// # Errors
    /// Another kind, a full table.
    pub fn notifier(&self, channel: &str) -> Result<Notifier, NodeError> {
        Notifier::open(&self.shared, channel).map_err(|error| self.named(error))
    }

    /// Opens a listener of an event channel, which is made if there is none. It hears what is raised from now on.
    ///
    /// # Errors
    /// As [`Node::notifier`].
    pub fn listener(&self, channel: &str) -> Result<Listener, NodeError> {
        Listener::open(&self.shared, channel).map_err(|error| self.named(error))
    }

    /// Wakes a participant if it sleeps: for the crates that bring other hops.
    pub fn wake(&self, member: MemberIndex) {
        crate::wait::ring(self.shared.pool.control(), member);
    }

    /// Sleeps on the own bell until something comes of `attempt` or the time is over (`None`). Never spins, and looks again
    /// after `nap` at the latest.
    ///
    /// # Errors
    /// What `attempt` says.
    pub fn wait_until<T>(
        &self,
        nap: Duration,
        timeout: Duration,
        attempt: impl FnMut() -> Result<Option<T>, NodeError>,
    ) -> Result<Option<T>, NodeError> {
        self.shared.check_original()?;
        let plan = crate::wait::WaitPlan {
            spin: Duration::ZERO,
            nap,
        };
        let control = self.shared.pool.control();
        let waited = crate::wait::wait_for(control, self.shared.index, plan, timeout, attempt);
        self.shared.pool.unless_lost(waited)
    }

    /// Adds the region of a core, with its file of `file_bytes` (slots, and the link if it is in the same file) and the file of
    /// the link if it has one of its own. Both are zero-filled.
    ///
    /// # Errors
    /// [`PoolError::TableFull`] if the ledger has no entries left for its slots; no room; no permission.
    pub fn add_core_region(
        &self,
        plan: &CoreRegionPlan<'_>,
        file_bytes: u64,
    ) -> Result<RegionIndex, NodeError> {
        self.shared.check_original()?;
        let pool = &self.shared.pool;
        let added = self.shared.act(|member| {
            member.add_core_region(pool.control(), plan, |region| {
                pool.make_core_files(region, plan, file_bytes)
            })
        })?;
        pool.regions().refresh(pool.control())?;
        Ok(added)
    }

    /// Has the endpoint behind a channel, which nobody is attached to, something that belongs to nobody? For the agent.
    #[must_use]
    pub fn core_endpoint_is_left_alone(&self, link: &LinkMap, channel: &ChannelInfo) -> bool {
        caretaker::is_left_alone(&self.shared, link, channel)
    }

    /// Ends the session that a dead port left open at an endpoint, and takes back its slots once the core has let go of them.
    /// False: not within the bound, or a port was quicker. For the agent.
    ///
    /// # Errors
    /// [`PoolError::Damaged`].
    pub fn take_back_from_core(
        &self,
        link: &LinkMap,
        channel: &ChannelInfo,
        bound: Duration,
    ) -> Result<bool, NodeError> {
        self.shared.check_original()?;
        caretaker::take_back(&self.shared, link, channel, bound)
    }

    /// Finds or makes a channel, without a port on it: for the agent of a core.
    ///
    /// # Errors
    /// [`PoolError::TableFull`], [`PoolError::BadName`], [`PoolError::Busy`].
    pub fn open_channel(&self, name: &str) -> Result<ChannelInfo, NodeError> {
        self.shared.check_original()?;
        let kind = ChannelKind::PublishSubscribe;
        let opened = until_not_busy(|| self.shared.open_channel_once(kind, name, None));
        opened.map_err(|error| self.named(error))
    }

    /// Acts on the ledger as this participant: for the crates that bring other hops.
    ///
    /// # Errors
    /// [`NodeError::ForkedCopy`].
    pub fn act<T>(
        &self,
        step: impl FnOnce(&mut Member, &hythe_pool::Control<hythe_memory::Mapped>) -> T,
    ) -> Result<T, NodeError> {
        self.shared.check_original()?;
        let control = self.shared.pool.control();
        Ok(self.shared.act(|member| step(member, control)))
    }
}

impl Shared {
    #[inline]
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    #[inline]
    pub(crate) const fn index(&self) -> MemberIndex {
        self.index
    }

    pub(crate) const fn histories(&self) -> &Histories {
        &self.histories
    }

    pub(crate) fn spin_gate(&self) -> &SpinGate {
        &self.spin_gate
    }

    pub(crate) const fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Is this a copy in a forked child? Then its end is not that of the participant. One load.
    #[inline]
    pub(crate) fn is_a_copy(&self) -> bool {
        self.mark.is_copy()
    }

    /// Refuses what a copy in a forked child is asked to do: before any lock, which a thread of the parent may have held.
    #[inline]
    pub(crate) fn check_original(&self) -> Result<(), NodeError> {
        if self.is_a_copy() {
            let process = self.process;
            return Err(NodeError::ForkedCopy { process });
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn act<T>(&self, step: impl FnOnce(&mut Member) -> T) -> T {
        self.act_with_cursors(|member, _| step(member))
    }

    #[inline(always)]
    fn act_with_cursors<T>(
        &self,
        step: impl FnOnce(&mut Member, &mut [Cursors; REGIONS_MAX]) -> T,
    ) -> T {
        // A panic inside a step leaves the journal open, which recovery settles; what is here is still consistent.
        let mut acting = self.acting.lock().unwrap_or_else(PoisonError::into_inner);
        let Acting { member, cursors } = &mut *acting;
        #[allow(
            clippy::expect_used,
            reason = "proof: it is taken in `drop` only, when no one else has the value"
        )]
        let member = member.as_mut().expect("a node acts before it goes");
        member.set_time(self.time.monotonic_ms());
        step(member, cursors)
    }

    /// Gives one reference back, and remembers a slot that becomes free by that: it is warm.
    #[inline]
    pub(crate) fn release(&self, region: RegionIndex, slot: LedgerSlot) -> Result<(), PoolError> {
        let pool = &self.pool;
        self.act_with_cursors(|member, cursors| {
            if member.release(pool.control(), slot, 1)?
                && let Some(geometry) = pool.regions().region(region)
            {
                cursors[usize::from(region.0)].note_free(geometry, slot);
            }
            Ok(())
        })
    }

    /// Finds or makes a channel. `None` as type takes whatever an existing channel carries.
    fn open_channel_once(
        &self,
        kind: ChannelKind,
        name: &str,
        carries: Option<&ChannelType>,
    ) -> Result<ChannelInfo, NodeError> {
        let control = self.pool.control();
        let index = self.act(|member| member.open_channel_of(control, kind, name, carries))?;
        control
            .channel(index)
            .ok_or_else(|| PoolError::Busy("the channel").into())
    }

    /// Opens a port on a channel, which is made if there is none.
    pub(crate) fn open_port(
        &self,
        name: &str,
        carries: Option<&ChannelType>,
        plan: PortPlan,
    ) -> Result<(ChannelInfo, PortIndex), NodeError> {
        self.check_original()?;
        plan.check_depth(self, name)?;
        let control = self.pool.control();
        self.spin_gate.note_thread(control, self.index);
        let opened = until_not_busy(|| {
            let channel = self.open_channel_once(plan.kind.channel_kind(), name, carries)?;
            plan.check_direction(&channel)?;
            let PortPlan {
                kind,
                depth,
                policy,
                history,
            } = plan;
            let wishes = PortWishes {
                depth,
                policy,
                history,
            };
            let opened = self.act(|member| {
                let opened = member.open_port_with(control, channel.index, kind, wishes);
                // A channel made for a port that there is no room for goes again.
                opened.inspect_err(|_| member.retire_channel(control, channel.index))
            });
            let port = opened?;
            // Until it had a port, the channel could be retired, and its record taken by another.
            if control
                .channel(channel.index)
                .is_some_and(|now| now.is_like(&channel))
            {
                return Ok((channel, port));
            }
            self.act(|member| member.free_port(control, port));
            Err(PoolError::Busy("the channel").into())
        });
        self.pool.unless_lost(opened)
    }
}

/// The port that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortPlan {
    pub(crate) kind: PortKind,
    pub(crate) depth: u32,
    pub(crate) policy: PortPolicy,
    pub(crate) history: u32,
}

impl PortPlan {
    /// Refuses a depth that the ports which connect to this one, or the first of them, could not make queues for.
    fn check_depth(self, shared: &Shared, name: &str) -> Result<(), NodeError> {
        if self.depth as usize <= hythe_abi::pool::GRANULE_DESCRIPTORS {
            // Every connection has memory for that.
            return Ok(());
        }
        let control = shared.pool().control();
        let channel = control.find_channel(name);
        if channel.as_ref().is_some_and(|found| found.core.is_some()) {
            // Then it is how many empty slots the core gets.
            return Ok(());
        }
        let peers = control.ports().filter(|port| {
            let here = channel.as_ref().map(|found| found.index) == Some(port.channel);
            here && port.kind != self.kind
        });
        let room = control.deepest_queue(shared.index(), peers.count() as u32);
        if self.depth > room {
            let depth = self.depth;
            return Err(PoolError::QueueTooDeep { depth, room }.into());
        }
        Ok(())
    }

    /// A channel that ends on a core carries payload one way only.
    fn check_direction(self, channel: &ChannelInfo) -> Result<(), NodeError> {
        let (direction, port) = match (self.kind, channel.core.map(|core| core.direction)) {
            (PortKind::Publisher, Some(Direction::FromCore)) => ("from the core", "publisher"),
            (PortKind::Subscriber, Some(Direction::ToCore)) => ("to the core", "subscriber"),
            _ => return Ok(()),
        };
        Err(NodeError::WrongDirection {
            channel: channel.name.clone(),
            direction,
            port,
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_a_copy() {
            // Nor is its thread here, and what would stop it stops the parent's.
            std::mem::forget(self.watcher.take());
            return;
        }
        // First the watcher: it must not act for a participant that is gone.
        self.watcher = None;
        let acting = self
            .acting
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(member) = acting.member.take() else {
            return;
        };
        if let Err(error) = self.pool.check_whole() {
            tracing::error!(%error, "nothing to give back on leaving");
            return;
        }
        let control = self.pool.control();
        if let Err(error) = member.depart(control, self.pool.regions()) {
            tracing::error!(%error, "could not give everything back on leaving");
        }
        // Only now: while the record stands, a socket that refuses is the proof of our death.
        if let Some(presence) = self.presence.take() {
            presence.withdraw();
        }
        for member in control.members() {
            crate::wait::ring(control, member.index);
        }
    }
}

/// How to go on when no slot is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseWait {
    /// How long to wait for one.
    pub(crate) timeout: Duration,
    /// How many receivers there are for what is leased, if that is known: for the error.
    pub(crate) receivers: usize,
}

impl LeaseWait {
    pub(crate) const NONE: Self = Self {
        timeout: Duration::ZERO,
        receivers: 0,
    };
}

impl Default for LeaseWait {
    fn default() -> Self {
        Self {
            timeout: SEND_TIMEOUT,
            receivers: 0,
        }
    }
}

/// As [`lease_in`], with what a user of the crate wants besides: histories give way, a slot that
/// comes free is waited for, and an error names who holds the slots.
pub(crate) fn named_lease_in(
    shared: &Arc<Shared>,
    region: RegionIndex,
    bytes: usize,
    wait: LeaseWait,
) -> Result<Lease, NodeError> {
    lease_or(shared, region, bytes, |geometry, refusal| {
        lease_when_free(shared, geometry, bytes, wait, refusal)
    })
}

pub(crate) fn lease_in(
    shared: &Arc<Shared>,
    region: RegionIndex,
    bytes: usize,
) -> Result<Lease, NodeError> {
    lease_or(shared, region, bytes, |_, refusal| Err(refusal.into()))
}

/// Leases; what the pool refuses is `instead`'s. In each caller: the lease is made where it is returned, and moved nowhere.
#[inline(always)]
fn lease_or(
    shared: &Arc<Shared>,
    region: RegionIndex,
    bytes: usize,
    instead: impl FnOnce(&RegionGeometry, PoolError) -> Result<(u32, Generation), NodeError>,
) -> Result<Lease, NodeError> {
    shared.check_original()?;
    let pool = shared.pool();
    let memory = pool.map_to_write(region)?;
    let unknown = || PoolError::NotAPool(format!("it has no region {}", region.0));
    let geometry = pool.regions().region(region).ok_or_else(unknown)?;
    let leased = shared.act_with_cursors(|member, cursors| {
        let cursors = &mut cursors[usize::from(region.0)];
        member.lease_any(pool.control(), geometry, bytes, cursors)
    });
    pool.check_whole()?;
    let (slot, generation) = match leased {
        Ok(found) => found,
        Err(refusal) => {
            if matches!(refusal, PoolError::PoolFull { .. }) {
                pool.control().note_slots(pool.regions());
            }
            instead(geometry, refusal)?
        }
    };
    if geometry.kind == RegionKind::Wire {
        with_fresh_pages(shared, geometry, slot)?;
    }
    let room = geometry
        .class_of(slot)
        .map_or(0, hythe_pool::SlotClass::payload_bytes);
    // As the ledger's line of that slot: it comes while the messages before it are made.
    if let Some(at) = geometry.slot_offset(slot + LEASES_AHEAD) {
        let payload = at + HEADROOM_BYTES as usize;
        memory.expect_store(payload);
    }
    Ok(Lease::new(
        Reference::leased(shared, geometry, slot, generation),
        room,
    ))
}

/// Only with them is a lease of a wire region handed out; else the slot goes back.
#[cold]
fn with_fresh_pages(
    shared: &Shared,
    geometry: &RegionGeometry,
    slot: u32,
) -> Result<(), NodeError> {
    wire::renew(&shared.pool, geometry, slot).map_err(|error| {
        let released = shared.release(geometry.index, LedgerSlot(geometry.ledger_base + slot));
        released.map_or_else(NodeError::from, |()| error)
    })
}

/// Goes on after a refusal.
#[cold]
fn lease_when_free(
    shared: &Shared,
    geometry: &RegionGeometry,
    bytes: usize,
    wait: LeaseWait,
    mut refusal: PoolError,
) -> Result<(u32, Generation), NodeError> {
    let start = Instant::now();
    while matches!(refusal, PoolError::PoolFull { .. }) {
        // Each turn: a history has one sample less, or time has passed.
        if !shared.histories.give_up_one(shared, geometry.index, bytes) {
            let left = wait.timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(LEASE_LOOK.min(left));
        }
        let leased = shared.act_with_cursors(|member, cursors| {
            let cursors = &mut cursors[usize::from(geometry.index.0)];
            member.lease_any(shared.pool.control(), geometry, bytes, cursors)
        });
        shared.pool.check_whole()?;
        match leased {
            Ok(found) => return Ok(found),
            Err(again) => refusal = again,
        }
    }
    let full = holders::named(&shared.pool, refusal.into());
    Err(holders::with_remedy(&shared.pool, full, wait.receivers))
}

/// Tries again while somebody else is at it, a little later each time, not in step with the other.
pub(crate) fn until_not_busy<T>(
    mut attempt: impl FnMut() -> Result<T, NodeError>,
) -> Result<T, NodeError> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(NodeError::Pool(PoolError::Busy(_))) if start.elapsed() < BUSY_BOUND => {
                let jitter = u64::from(std::process::id() ^ start.elapsed().subsec_nanos()) % 400;
                hythe_sys::wait::sleep(Duration::from_micros(100 + jitter));
            }
            done => return done,
        }
    }
}
