//! A node: this process as a participant of a pool, with its ports.

use std::sync::Arc;

use hythe_abi::RegionIndex;
use hythe_pool::{MemberIndex, MemberKind, RegionKind};

use crate::buffer::Lease;
use crate::event::{Listener, Notifier};
use crate::leasing::{LeaseWait, named_lease_in};
use crate::participant::Participant;
use crate::pool::Pool;
use crate::port::Opener;
use crate::publisher::{Publisher, PublisherOptions};
use crate::request::{Client, ClientOptions, Server, ServerOptions};
use crate::subscriber::{Subscriber, SubscriberOptions};
use crate::transport::{ProcessQueues, Transport};
use crate::wait::ring_always;
use crate::wait_set::WaitSet;
use crate::wire::{self, WireOptions};
use crate::{NodeError, card, holders};

/// A participant. Clones share it; it leaves the pool when the last clone, port, lease and sample
/// is gone.
///
/// It is this process that takes part. A child made by `fork` alone (without `exec`) has copies of
/// these values and is not the participant: dropping them there does nothing, using them is
/// [`NodeError::ForkedCopy`], and it may join with a node of its own. The bytes of leases and
/// samples are shared with the parent there as well: a child must not write them.
#[derive(Clone, Debug)]
pub struct Node {
    opener: Arc<Opener>,
}

impl Node {
    /// Joins a pool under a name.
    ///
    /// # Errors
    /// [`NodeError::Exhausted`] if the pool has as many living participants as it can,
    /// [`hythe_pool::PoolError::BadName`]; [`NodeError::NotLocked`] if its maker asks for locked
    /// memory and the limit is lower; no permission.
    pub fn join(pool: &Pool, name: &str) -> Result<Self, NodeError> {
        Self::join_with(pool, MemberKind::Process, name, &[])
    }

    /// The same, as itself or for another host, with other transports than that between processes.
    pub(crate) fn join_with(
        pool: &Pool,
        kind: MemberKind,
        name: &str,
        transports: &[Arc<dyn Transport>],
    ) -> Result<Self, NodeError> {
        let processes: Arc<dyn Transport> = Arc::new(ProcessQueues);
        let transports = std::iter::once(&processes).chain(transports);
        Ok(Self {
            opener: Arc::new(Opener {
                shared: Participant::join(pool, kind, name)?,
                transports: transports.cloned().collect(),
            }),
        })
    }

    pub(crate) fn participant(&self) -> &Arc<Participant> {
        &self.opener.shared
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        self.participant().pool()
    }

    /// Ends what its ports wait for at a core as soon as `is_asked` says so, which is called every
    /// 20 milliseconds meanwhile: for programs that a signal is to end at once. Such a wait ends as
    /// if its time were over. The first call counts.
    pub fn end_waits_when(&self, is_asked: impl Fn() -> bool + Send + Sync + 'static) {
        self.participant().interrupt().set(Box::new(is_asked));
    }

    /// Ends the waits of this node's ports and wait sets that are under way, each with
    /// [`NodeError::Interrupted`], or the next one that begins if there are none. For Ctrl-C: a
    /// signal alone ends no wait. What has come is taken first, and a call that does not wait takes
    /// no notice.
    ///
    /// Any thread may call it, and a signal handler: it allocates nothing, takes no lock and never
    /// waits. An interrupt between two waits is not lost; several before a wait are one. Where
    /// other threads wait as well, theirs may be all that it ends: such a program sets a flag of
    /// its own first, and looks at it before each wait. A publisher that waits for a full queue
    /// ends that as if its send timeout were over, and leaves the interrupt: until a wait ends by
    /// it, no publish waits. In a forked child nothing happens.
    pub fn interrupt(&self) {
        let participant = self.participant();
        if participant.is_a_copy() {
            return;
        }
        participant.interrupt().make();
        // Behind it: who has looked before finds the bell rung, and does not sleep.
        ring_always(participant.pool().control(), participant.index());
    }

    /// This participant's number.
    #[must_use]
    pub fn index(&self) -> MemberIndex {
        self.participant().index()
    }

    /// This participant's session.
    #[must_use]
    pub fn session(&self) -> u32 {
        self.participant().session()
    }

    /// Leases a buffer for at most `bytes` of payload, waiting for at most 100 ms until a slot is
    /// free. [`Publisher::lease`] waits as long as its options say, [`Node::try_lease_in`] not at
    /// all.
    ///
    /// # Errors
    /// [`hythe_pool::PoolError::TooLarge`]; [`NodeError::Exhausted`] if all slots that are large
    /// enough stay held, also after what the publishers of this node keep as
    /// [history](PublisherOptions::history) was given up.
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        self.lease_in(RegionIndex(0), bytes)
    }

    /// Leases a buffer of a certain region: one that a core sees, for instance.
    ///
    /// # Errors
    /// As [`Node::lease`]; no such region.
    pub fn lease_in(&self, region: RegionIndex, bytes: usize) -> Result<Lease, NodeError> {
        named_lease_in(self.participant(), region, bytes, LeaseWait::default())
    }

    /// As [`Node::lease_in`], without waiting for a free slot.
    ///
    /// # Errors
    /// As [`Node::lease_in`].
    pub fn try_lease_in(&self, region: RegionIndex, bytes: usize) -> Result<Lease, NodeError> {
        named_lease_in(self.participant(), region, bytes, LeaseWait::NONE)
    }

    /// The region of the pool that the network stack may send from without a copy: found, or added
    /// as `options` say. A pool has one; many processes lease slots of it by [`Node::lease_in`],
    /// each time with fresh pages.
    ///
    /// Those cost about as much as four sends of the same bytes (ADR 0017): who knows that
    /// everything was sent by copying keeps its lease and writes it again.
    ///
    /// # Errors
    /// [`hythe_pool::PoolError::TableFull`] if the ledger has no entries left for its slots; no
    /// room; only the pool's owner adds it; [`NodeError::Unsafe`] if the pool is not on a tmpfs, or
    /// on one with huge pages.
    pub fn wire_region(&self, options: &WireOptions) -> Result<RegionIndex, NodeError> {
        wire::find_or_add(self.participant(), options).map_err(|error| self.named(error))
    }

    /// Finds the region of the pool that network cards send from, or adds it: else that is done
    /// when a message could leave by such a card. On huge pages where the pool's slots are.
    ///
    /// # Errors
    /// [`hythe_pool::PoolError::LedgerFull`], [`hythe_pool::PoolError::TooManyRegions`],
    /// [`NodeError::NoHugePages`]; no room; no permission.
    pub fn card_region(&self) -> Result<RegionIndex, NodeError> {
        let found = card::find_or_add(self.participant());
        let found = found.map_err(|error| self.named(error))?;
        Ok(found.index)
    }

    /// The region that a core of this name shares, once it has run in this pool.
    #[must_use]
    pub fn core_region(&self, name: &str) -> Option<RegionIndex> {
        let pool = self.pool();
        // A region that cannot be read is not there for us; opening the pool has said why.
        let _ = pool.regions().refresh(pool.control());
        let mut regions = pool.regions().iter();
        regions
            .find(|region| region.kind == RegionKind::Core && region.name == name)
            .map(|region| region.index)
    }

    /// Opens a publisher on a channel, which is made if there is none. Where the agent of other
    /// hosts takes part in the pool, its answer which of them want the channel is waited for: well
    /// below a millisecond, and 1 s at most if it stands still.
    ///
    /// # Errors
    /// Another type, a full table, a history that is too long, a core endpoint that somebody else
    /// is attached to or that carries payload the other way.
    pub fn publisher(
        &self,
        channel: &str,
        options: &PublisherOptions,
    ) -> Result<Publisher, NodeError> {
        Publisher::open(&self.opener, channel, options).map_err(|error| self.named(error))
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
        Subscriber::open(&self.opener, channel, options).map_err(|error| self.named(error))
    }

    fn named(&self, error: NodeError) -> NodeError {
        holders::named(self.pool(), error)
    }

    /// One wait for many ports and file descriptors.
    ///
    /// # Errors
    /// [`NodeError::WaitSet`]: too many open files.
    pub fn wait_set(&self) -> Result<WaitSet, NodeError> {
        WaitSet::new(&self.opener)
    }

    /// Opens a client of a request/reply channel, which is made if there is none.
    ///
    /// # Errors
    /// Another kind or type, a full table.
    pub fn client(&self, channel: &str, options: &ClientOptions) -> Result<Client, NodeError> {
        Client::open(&self.opener, channel, options).map_err(|error| self.named(error))
    }

    /// Opens a server of a request/reply channel, which is made if there is none. Where there are
    /// several, requests go to them in turn. A core may ask over the channel: then opening waits
    /// until it has answered, as a subscriber's does.
    ///
    /// # Errors
    /// As [`Node::client`]; [`NodeError::EndpointTaken`] and [`NodeError::CoreSilent`] of a core
    /// that asks.
    pub fn server(&self, channel: &str, options: &ServerOptions) -> Result<Server, NodeError> {
        Server::open(&self.opener, channel, options).map_err(|error| self.named(error))
    }

    /// Opens a notifier of an event channel, which is made if there is none.
    ///
    /// # Errors
    /// Another kind, a full table.
    pub fn notifier(&self, channel: &str) -> Result<Notifier, NodeError> {
        Notifier::open(&self.opener, channel).map_err(|error| self.named(error))
    }

    /// Opens a listener of an event channel, which is made if there is none. It hears what is
    /// raised from now on.
    ///
    /// # Errors
    /// As [`Node::notifier`].
    pub fn listener(&self, channel: &str) -> Result<Listener, NodeError> {
        Listener::open(&self.opener, channel).map_err(|error| self.named(error))
    }
}
