//! What the crates of other hops need of a node, and applications do not.
//!
//! A hop brings a [`Transport`]; `join` registers it with a node. Its targets and sources act on
//! the ledger as the [`Participant`] that has the port. The agent of a core, which is a node
//! itself, has what it needs as methods of [`HopNode`] and [`HopPool`]. Not re-exported by the
//! facade.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::{Descriptor, RegionIndex};
use hythe_memory::{Access, Mapped};
use hythe_pool::{
    ChannelIndex, ChannelInfo, ChannelKind, ChannelType, Control, CoreRegionPlan, Identity,
    LedgerSlot, Member, MemberIndex, MemberKind, Regions, Taken,
};

use crate::buffer::{Lease, Reference, Sample};
use crate::contention::retry_on_contention;
use crate::leasing;
use crate::node::Node;
use crate::pool::Pool;
use crate::pool::directory::open_file;
use crate::port::open_channel;
use crate::wait::ring;
use crate::{
    Client, NodeError, PendingReply, Published, Publisher, Responder, Subscriber, card, holders,
    joining, prefault,
};

pub use crate::buffer::SizeClass;
pub use crate::card::CardRegion;
pub use crate::doorbell::{Doorbell, DoorbellKey, Doorbells};
pub use crate::ends::{ChannelEnds, End, ends, epoch};
pub use crate::host_agent::HostAgent;
pub use crate::lost::descriptor_lost;
pub use crate::participant::{Joined, Participant};
pub use crate::pool::files::{PoolFiles, PoolStamp};
pub use crate::quota::receiver_share;
pub use crate::sleep_word_guard::SleepWordGuard;
pub use crate::sleep_words::SleepWord;
pub use crate::transport::{
    EventSource, EventTarget, FindSources, FindTargets, Message, Origin, PendingServer, Polled,
    Raised, Seeking, SenderHost, Sent, Source, SourceState, Target, TargetState, Transport,
    Unconfirmed, Watch,
};
pub use crate::wait::WaitPlan;

/// Joins a pool under a name, as a node that knows other transports than that between processes.
///
/// # Errors
/// As [`Node::join`].
pub fn join(pool: &Pool, name: &str, transports: &[Arc<dyn Transport>]) -> Result<Node, NodeError> {
    Node::join_with(pool, MemberKind::Process, name, transports)
}

/// Joins a pool for another host, as participant `host NAME`. A process may do so for many hosts:
/// each is a participant with a row, a journal and a watcher of its own. Ports of two participants
/// of this kind make no connection with each other: what came from a host is not sent on to
/// another, and never comes back.
///
/// # Errors
/// As [`Node::join`].
pub fn join_host(
    pool: &Pool,
    host: &str,
    transports: &[Arc<dyn Transport>],
) -> Result<Node, NodeError> {
    Node::join_with(
        pool,
        MemberKind::Host,
        &format!("{}{host}", SenderHost::PREFIX),
        transports,
    )
}

/// Wakes a participant if it sleeps. Call after making work for it visible.
pub fn wake(pool: &Pool, member: MemberIndex) {
    ring(pool.control(), member);
}

/// Did the program close descriptors of this node, with others that it found open (`closefrom(3)`)?
/// Their numbers may be those of its files by now: what has more of them closes none.
#[must_use]
pub fn is_missing_descriptors(node: &Node) -> bool {
    node.participant().is_missing_descriptors()
}

/// Has all ports of a channel look anew for their other ends, and wakes `member` for it: its target
/// or source there has come, or has gone.
pub fn announce_change(pool: &Pool, channel: ChannelIndex, member: MemberIndex) {
    pool.control().tables().note_ports_changed(channel);
    ring(pool.control(), member);
}

/// What a source gives for a sample: the port that polls it owns the reference from then on.
#[must_use]
pub fn taken(sample: Sample) -> Taken {
    sample.into_taken()
}

/// Leases a slot for what comes from outside, in the first region, without waiting.
///
/// # Errors
/// [`hythe_pool::PoolError::PoolFull`], [`hythe_pool::PoolError::TooLarge`].
pub fn lease(participant: &Arc<Participant>, bytes: usize) -> Result<Lease, NodeError> {
    leasing::lease_in(participant, RegionIndex(0), bytes)
}

/// The region of the participant's pool that network cards may send from: found, or added.
///
/// # Errors
/// [`hythe_pool::PoolError::LedgerFull`], [`hythe_pool::PoolError::TooManyRegions`]; no room; no
/// permission.
pub fn card_region(participant: &Arc<Participant>) -> Result<CardRegion, NodeError> {
    card::find_or_add(participant)
}

/// Which region a sample is in, and where its payload is from that one's first byte on.
#[must_use]
pub fn place_of(sample: &Sample) -> (RegionIndex, u64) {
    let descriptor = sample.descriptor();
    (descriptor.place.region, sample.offset_in_region())
}

/// The slots among which the one of a sample is.
#[must_use]
pub fn class_of(sample: &Sample) -> Option<SizeClass> {
    sample.size_class()
}

/// The slots among which the one of a lease is.
#[must_use]
pub fn class_of_lease(lease: &Lease) -> Option<SizeClass> {
    lease.size_class()
}

/// Are at least `count` of these slots free? A snapshot: others lease and release meanwhile.
#[must_use]
pub fn has_free_slots(pool: &Pool, class: SizeClass, count: u32) -> bool {
    let ledger = pool.control().ledger();
    ledger.free_slots(class.first, class.slots, count) >= count
}

/// Takes a record for a core, or for a port of an endpoint of one, which runs as this process. The
/// record stays until its process is dead and nobody uses it any more.
///
/// # Errors
/// [`NodeError::Exhausted`], [`hythe_pool::PoolError::BadName`].
pub fn join_core(pool: &Pool, core: Identity, name: &str) -> Result<MemberIndex, NodeError> {
    joining::join_core(pool, core, name)
}

/// One reference that is to be moved elsewhere; dropped, it is released.
#[derive(Debug)]
pub struct Outgoing(Reference);

impl Outgoing {
    /// Leases a slot with room for `bytes`, without waiting. The descriptor names all of its room.
    ///
    /// # Errors
    /// [`hythe_pool::PoolError::PoolFull`], [`hythe_pool::PoolError::TooLarge`].
    pub fn lease(
        participant: &Arc<Participant>,
        region: RegionIndex,
        bytes: usize,
    ) -> Result<Self, NodeError> {
        let lease = leasing::lease_in(participant, region, bytes)?;
        // Fits: a slot's size is 32 bits.
        let capacity = lease.capacity() as u32;
        Ok(Self(lease.into_reference(capacity)))
    }

    /// Its slot.
    #[must_use]
    pub const fn slot(&self) -> LedgerSlot {
        self.0.slot()
    }

    /// What names it in a queue.
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.0.descriptor()
    }

    /// The reference is another's now.
    pub fn moved(mut self) {
        self.0.moved();
    }
}

/// Takes the next sample of a subscriber if there is one, and says who sent it: a source has a
/// number that none had before.
///
/// # Errors
/// As [`Subscriber::try_take`].
pub fn try_take_from(subscriber: &mut Subscriber) -> Result<Option<(Sample, Origin)>, NodeError> {
    subscriber.try_take_with_origin()
}

/// On which host the publisher is of the sample that a subscriber has just taken: asked before
/// anything else is done with the subscriber. The agent of this host says so, not the publisher.
#[must_use]
pub fn last_host(subscriber: &Subscriber) -> SenderHost {
    subscriber.last_host()
}

/// Who sends to a subscriber, as of its last take. One that has closed its port stays until all
/// that it sent is taken.
pub fn origins(subscriber: &Subscriber) -> impl Iterator<Item = Origin> {
    subscriber.origins()
}

/// Closes the port of a subscriber if no publisher sends to it and nothing waits there: true, and
/// nothing comes any more. A publisher that connects meanwhile finds the port closed, or keeps it
/// open.
///
/// # Errors
/// As [`Subscriber::publishers`].
pub fn close_if_unused(subscriber: &mut Subscriber) -> Result<bool, NodeError> {
    subscriber.close_if_unused()
}

/// Closes the port of a subscriber, which is of no more use then, and releases what waits: how many
/// messages. A publisher that sends meanwhile finds the port closed, or its message is among them.
///
/// # Errors
/// As [`Subscriber::try_take`].
pub fn close(subscriber: &mut Subscriber) -> Result<u64, NodeError> {
    subscriber.close()
}

/// Tells the subscribers to which a publisher is connected that so many messages are missing before
/// the next one: each counts them as dropped, in their place among the messages. In a queue that
/// evicts the oldest they may move up to the next message. Cores are not told. For 0 nobody is
/// told. Never waits.
///
/// # Errors
/// [`NodeError::ForkedCopy`], [`NodeError::PoolLost`].
pub fn note_missed(publisher: &mut Publisher, messages: u32) -> Result<(), NodeError> {
    publisher.note_missed(messages)
}

/// Would subscribers that block hold a message up if it were published now, and for how long do
/// they ask for that at most? `None`: it would not be held up. Nothing is published, and this
/// never waits; the bell rings when a subscriber that was full has taken something, but not when
/// it has released a slot. One that was waited for in vain and has taken nothing since does not
/// count.
///
/// # Errors
/// As [`Publisher::subscribers`].
///
/// # Panics
/// As [`Publisher::publish`].
pub fn held_up(
    publisher: &mut Publisher,
    lease: &mut Lease,
    bytes: usize,
) -> Result<Option<Duration>, NodeError> {
    publisher.held_up(lease, bytes)
}

/// As [`Publisher::publish`], without waiting: a subscriber without free capacity misses it,
/// whatever its policy.
///
/// # Errors
/// As [`Publisher::publish`].
///
/// # Panics
/// As [`Publisher::publish`].
pub fn publish_at_once(
    publisher: &mut Publisher,
    lease: Lease,
    bytes: usize,
) -> Result<Published, NodeError> {
    publisher.publish_at_once(lease, bytes)
}

/// From now on a publisher keeps as many samples for later subscribers as this, if that is more
/// than [before](crate::PublisherOptions::history).
///
/// # Errors
/// [`NodeError::HistoryTooLong`], [`NodeError::ForkedCopy`].
pub fn extend_history(publisher: &mut Publisher, samples: u32) -> Result<(), NodeError> {
    publisher.extend_history(samples)
}

/// As [`Client::request`], without waiting: the lease comes back where no server takes it now, or
/// too many requests are open. The bell rings when a server has taken one, or changes.
///
/// # Errors
/// What cannot be tried again: a damaged or lost pool.
///
/// # Panics
/// As [`Client::request`].
pub fn try_request(
    client: &mut Client,
    lease: Lease,
    bytes: usize,
) -> Result<Result<PendingReply, Lease>, NodeError> {
    client.try_request(lease, bytes)
}

/// Ends the obligation to reply because who should have answered for this server is gone: its
/// client is told [`NodeError::ServerLost`].
pub fn lose(responder: Responder) {
    responder.lose();
}

/// A pool, for a hop.
pub trait HopPool {
    /// The control file.
    fn control(&self) -> &Control<Mapped>;

    /// The geometry of its regions.
    fn regions(&self) -> &Regions;

    /// Maps the link of a core's region: behind its slots, or a file of its own.
    ///
    /// # Errors
    /// [`NodeError::BadLink`] if there is none.
    fn map_link(&self, region: RegionIndex) -> Result<Mapped, NodeError>;

    /// The files of the pool by name: the slots of a core and its segments (`region.N`), the table
    /// of those (`segments.N`).
    ///
    /// # Errors
    /// What the system says of the pool's directory.
    fn files(&self) -> Result<PoolFiles, NodeError>;
}

impl HopPool for Pool {
    fn control(&self) -> &Control<Mapped> {
        Self::control(self)
    }

    fn regions(&self) -> &Regions {
        Self::regions(self)
    }

    fn map_link(&self, region: RegionIndex) -> Result<Mapped, NodeError> {
        let bad = |reason: &str| NodeError::BadLink {
            region,
            reason: reason.to_owned(),
        };
        let geometry = self.region(region).ok_or_else(|| bad("unknown region"))?;
        let place = geometry
            .link
            .ok_or_else(|| bad("the region belongs to no core"))?;
        if let Some(known) = self.link(region) {
            return Ok(known.clone());
        }
        let name = match place.offset {
            0 => format!("link.{}", region.0),
            _ => format!("region.{}", region.0),
        };
        let (file, bytes) = open_file(self.directory(), &name, true, self.options())?;
        if bytes < place.offset + u64::from(place.bytes) {
            return Err(bad("its file was cut"));
        }
        let bytes = place.bytes as usize;
        let map = Mapped::file(&file, place.offset, bytes, Access::Write)
            .map_err(crate::error::map(self.path().join(&name), bytes))?;
        prefault::treat(&map, self.prefault_options(), || self.path().join(&name))?;
        Ok(self.keep_link(region, map))
    }

    fn files(&self) -> Result<PoolFiles, NodeError> {
        PoolFiles::of(self.directory(), self.options())
    }
}

/// A node, for the agent of a core.
pub trait HopNode {
    /// The participant that it is.
    fn participant(&self) -> &Arc<Participant>;

    /// Acts on the ledger as this participant.
    ///
    /// # Errors
    /// [`NodeError::ForkedCopy`].
    fn act<T>(&self, step: impl FnOnce(&mut Member, &Control<Mapped>) -> T)
    -> Result<T, NodeError>;

    /// Adds the region of a core, with its file of `file_bytes` (slots, and the link if it is in
    /// the same file) and the file of the link if it has one of its own. Both are zero-filled.
    ///
    /// # Errors
    /// [`hythe_pool::PoolError::LedgerFull`] if the ledger has too few entries left for its slots;
    /// [`hythe_pool::PoolError::TooManyRegions`]; no room; no permission.
    fn add_core_region(
        &self,
        plan: &CoreRegionPlan<'_>,
        file_bytes: u64,
    ) -> Result<RegionIndex, NodeError>;

    /// Finds or makes a channel of that kind, without a port on it.
    ///
    /// # Errors
    /// [`hythe_pool::PoolError::TableFull`], [`hythe_pool::PoolError::BadName`],
    /// [`hythe_pool::PoolError::Busy`].
    fn open_channel(
        &self,
        kind: ChannelKind,
        name: &str,
        carries: Option<&ChannelType>,
    ) -> Result<ChannelInfo, NodeError>;

    /// Sleeps on the own bell until something comes of `attempt` or the time is over (`None`).
    /// Never spins, and looks again after `nap` at the latest.
    ///
    /// # Errors
    /// What `attempt` says.
    fn wait_until<T>(
        &self,
        nap: Duration,
        timeout: Duration,
        attempt: impl FnMut() -> Result<Option<T>, NodeError>,
    ) -> Result<Option<T>, NodeError>;
}

impl HopNode for Node {
    fn participant(&self) -> &Arc<Participant> {
        Self::participant(self)
    }

    fn act<T>(
        &self,
        step: impl FnOnce(&mut Member, &Control<Mapped>) -> T,
    ) -> Result<T, NodeError> {
        let participant = self.participant();
        participant.check_original()?;
        let control = participant.pool().control();
        Ok(participant.act(|member| step(member, control)))
    }

    fn add_core_region(
        &self,
        plan: &CoreRegionPlan<'_>,
        file_bytes: u64,
    ) -> Result<RegionIndex, NodeError> {
        let pool = self.pool();
        let added = self.act(|member, control| {
            member.add_core_region(control, plan, |region| {
                pool.make_core_files(region, plan, file_bytes)
            })
        })??;
        pool.regions().refresh(pool.control())?;
        Ok(added)
    }

    fn open_channel(
        &self,
        kind: ChannelKind,
        name: &str,
        carries: Option<&ChannelType>,
    ) -> Result<ChannelInfo, NodeError> {
        let participant = self.participant();
        participant.check_original()?;
        let opened = retry_on_contention(|| open_channel(participant, kind, name, carries));
        opened.map_err(|error| holders::named(self.pool(), error))
    }

    fn wait_until<T>(
        &self,
        nap: Duration,
        timeout: Duration,
        attempt: impl FnMut() -> Result<Option<T>, NodeError>,
    ) -> Result<Option<T>, NodeError> {
        let participant = self.participant();
        participant.check_original()?;
        let waited = participant.wait_for(WaitPlan::sleeping(nap), timeout, attempt);
        participant.pool().unless_lost(waited)
    }
}
