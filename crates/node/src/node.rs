//! A node: this process as a participant of a pool.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_abi::link::Direction;
use hythe_abi::pool::REGIONS_MAX;
use hythe_pool::{
    ChannelInfo, ChannelType, CoreRegionPlan, Member, MemberIndex, MemberKind, PoolError,
    PortIndex, PortKind, PortPolicy, RegionKind,
};

use crate::buffer::{Lease, Reference};
use crate::core_way::{LinkMap, caretaker};
use crate::pool::Pool;
use crate::process::own_identity;
use crate::publisher::{Publisher, PublisherOptions};
use crate::subscriber::{Subscriber, SubscriberOptions};
use crate::watcher::Watcher;
use crate::{NodeError, clock};

/// How long somebody else may take to make a channel or region of the same name.
const BUSY_BOUND: Duration = Duration::from_secs(2);

/// A participant. Clones share it; it leaves the pool when the last clone, port, lease and sample is gone.
///
/// It is this process that takes part. A child made by `fork` alone (without `exec`) has copies of these values and is not the
/// participant: it must use none of them, nor drop leases and samples, but may join with a node of its own.
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
    process: u32,
    acting: Mutex<Acting>,
    watcher: Option<Watcher>,
}

/// The one place from which this participant acts on the ledger.
#[derive(Debug)]
pub(crate) struct Acting {
    /// `None` only while the node goes.
    member: Option<Member>,
    cursors: [u32; REGIONS_MAX],
}

impl Node {
    /// Joins a pool under a name.
    ///
    /// # Errors
    /// [`PoolError::TableFull`] if the pool has as many participants as it can, [`PoolError::BadName`].
    pub fn join(pool: &Pool, name: &str) -> Result<Self, NodeError> {
        let member = Member::join(pool.control(), MemberKind::Process, own_identity(), name)?;
        let watcher = Watcher::start(pool.clone(), member.index(), member.recoverer());
        let (watcher, failed) = match watcher {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(error)),
        };
        let shared = Shared {
            pool: pool.clone(),
            index: member.index(),
            session: member.session(),
            process: std::process::id(),
            acting: Mutex::new(Acting {
                member: Some(member),
                cursors: [0; REGIONS_MAX],
            }),
            watcher,
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

    /// Leases a buffer for at most `bytes` of payload.
    ///
    /// # Errors
    /// [`PoolError::TooLarge`], [`PoolError::PoolFull`].
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        self.lease_in(RegionIndex(0), bytes)
    }

    /// Leases a buffer of a certain region: one that a core sees, for instance.
    ///
    /// # Errors
    /// As [`Node::lease`]; no such region.
    pub fn lease_in(&self, region: RegionIndex, bytes: usize) -> Result<Lease, NodeError> {
        lease_in(&self.shared, region, bytes)
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
        Publisher::open(&self.shared, channel, options)
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
        Subscriber::open(&self.shared, channel, options)
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
        let plan = crate::wait::WaitPlan {
            spin: Duration::ZERO,
            nap,
        };
        let control = self.shared.pool.control();
        crate::wait::wait_for(control, self.shared.index, plan, timeout, attempt)
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
        caretaker::take_back(&self.shared, link, channel, bound)
    }

    /// Finds or makes a channel, without a port on it: for the agent of a core.
    ///
    /// # Errors
    /// [`PoolError::TableFull`], [`PoolError::BadName`], [`PoolError::Busy`].
    pub fn open_channel(&self, name: &str) -> Result<ChannelInfo, NodeError> {
        self.shared.open_channel(name, None)
    }

    /// Acts on the ledger as this participant: for the crates that bring other hops.
    pub fn act<T>(
        &self,
        step: impl FnOnce(&mut Member, &hythe_pool::Control<hythe_memory::Mapped>) -> T,
    ) -> T {
        let control = self.shared.pool.control();
        self.shared.act(|member| step(member, control))
    }
}

impl Shared {
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) const fn index(&self) -> MemberIndex {
        self.index
    }

    /// Is this a copy in a forked child? Then its end is not that of the participant.
    pub(crate) fn is_a_copy(&self) -> bool {
        self.process != std::process::id()
    }

    pub(crate) fn act<T>(&self, step: impl FnOnce(&mut Member) -> T) -> T {
        self.act_with_cursors(|member, _| step(member))
    }

    fn act_with_cursors<T>(
        &self,
        step: impl FnOnce(&mut Member, &mut [u32; REGIONS_MAX]) -> T,
    ) -> T {
        // A panic inside a step leaves the journal open, which recovery settles; what is here is still consistent.
        let mut acting = self.acting.lock().unwrap_or_else(PoisonError::into_inner);
        let Acting { member, cursors } = &mut *acting;
        #[allow(
            clippy::expect_used,
            reason = "proof: it is taken in `drop` only, when no one else has the value"
        )]
        let member = member.as_mut().expect("a node acts before it goes");
        member.set_time(clock::coarse_ms());
        step(member, cursors)
    }

    /// Finds or makes a channel. `None` as type takes whatever an existing channel carries.
    fn open_channel(
        &self,
        name: &str,
        carries: Option<&ChannelType>,
    ) -> Result<ChannelInfo, NodeError> {
        until_not_busy(|| self.open_channel_once(name, carries))
    }

    fn open_channel_once(
        &self,
        name: &str,
        carries: Option<&ChannelType>,
    ) -> Result<ChannelInfo, NodeError> {
        let control = self.pool.control();
        if carries.is_none()
            && let Some(found) = control.find_channel(name)
        {
            return Ok(found);
        }
        let raw = ChannelType::default();
        let index =
            self.act(|member| member.open_channel(control, name, carries.unwrap_or(&raw)))?;
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
        let control = self.pool.control();
        until_not_busy(|| {
            let channel = self.open_channel_once(name, carries)?;
            plan.check_direction(&channel)?;
            let PortPlan {
                kind,
                depth,
                policy,
            } = plan;
            let opened = self.act(|member| {
                let opened = member.open_port(control, channel.index, kind, depth, policy);
                // A channel made for a port that there is no room for goes again.
                opened.inspect_err(|_| member.retire_channel(control, channel.index))
            });
            let port = opened?;
            // Until it had a port, the channel could be retired, and its record taken by another.
            if control
                .channel(channel.index)
                .is_some_and(|now| now.name == name)
            {
                return Ok((channel, port));
            }
            self.act(|member| member.free_port(control, port));
            Err(PoolError::Busy("the channel").into())
        })
    }
}

/// The port that is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortPlan {
    pub(crate) kind: PortKind,
    pub(crate) depth: u32,
    pub(crate) policy: PortPolicy,
}

impl PortPlan {
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
        let control = self.pool.control();
        if let Err(error) = member.depart(control, self.pool.regions()) {
            tracing::error!(%error, "could not give everything back on leaving");
        }
        for member in control.members() {
            crate::wait::ring(control, member.index);
        }
    }
}

pub(crate) fn lease_in(
    shared: &Arc<Shared>,
    region: RegionIndex,
    bytes: usize,
) -> Result<Lease, NodeError> {
    let pool = shared.pool();
    pool.map(region)?;
    let unknown = || PoolError::NotAPool(format!("it has no region {}", region.0));
    let geometry = pool.regions().region(region).ok_or_else(unknown)?;
    let (slot, generation) = shared.act_with_cursors(|member, cursors| {
        let cursor = &mut cursors[usize::from(region.0)];
        member.lease_any(pool.control(), geometry, bytes, cursor)
    })?;
    let room = geometry
        .class_of(slot)
        .map_or(0, hythe_pool::SlotClass::payload_bytes);
    Ok(Lease::new(
        Reference::leased(shared, geometry, slot, generation),
        room,
    ))
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
                std::thread::sleep(Duration::from_micros(100 + jitter));
            }
            done => return done,
        }
    }
}
