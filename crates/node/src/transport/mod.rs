//! What a port sends to and takes from, whatever is at the other end.
//!
//! A publisher has one list of [`Target`]s and a subscriber one list of [`Source`]s; so have
//! clients and servers. A [`Transport`] makes them: [`ProcessQueues`] those between processes, the
//! crates of other hops theirs, which are registered with a node when it joins. What holds between
//! calls: nothing outside an implementation knows of what kind a target or source is.
//!
//! Called by the ports of this crate. None of these calls waits, except where it says so.

mod connection;
mod event_cell;
mod process_queues;
mod queue_source;
mod queue_target;
mod stored;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use hythe_abi::request::Header;
use hythe_abi::{Descriptor, RegionIndex};
use hythe_pool::{
    ChannelIndex, ChannelInfo, LedgerSlot, MemberIndex, MemberKind, PortIndex, PortInfo, PortKind,
    Taken,
};

use crate::NodeError;
use crate::buffer::{Reference, Sample};
use crate::participant::Participant;
use crate::quota::{Parcel, Quota};
use crate::wait::WaitPlan;

pub(crate) use process_queues::{ProcessQueues, leads_to, take_superseded};
pub(crate) use queue_target::QueueTarget;
pub(crate) use stored::{StoredSource, StoredTarget};

/// One message on its way to the targets of a port.
#[derive(Debug)]
pub struct Message<'a> {
    pub(crate) shared: &'a Arc<Participant>,
    pub(crate) channel: &'a str,
    pub(crate) slot: LedgerSlot,
    pub(crate) descriptor: Descriptor,
    pub(crate) quota: &'a Quota,
    pub(crate) parcel: Parcel,
    /// How many targets the port has.
    pub(crate) targets: usize,
    /// How long it may still be held up.
    pub(crate) send_timeout: Duration,
    /// How the port waits.
    pub(crate) plan: WaitPlan,
    /// Older messages that were evicted for it.
    pub(crate) evicted: u32,
    /// Targets that have it.
    pub(crate) delivered: u32,
}

impl<'a> Message<'a> {
    /// For one target, and without any time to be held up.
    #[inline(always)]
    pub(crate) const fn new(
        shared: &'a Arc<Participant>,
        channel: &'a str,
        reference: &Reference,
        (quota, parcel): (&'a Quota, Parcel),
    ) -> Self {
        Self {
            shared,
            channel,
            slot: reference.slot(),
            descriptor: reference.descriptor(),
            quota,
            parcel,
            targets: 1,
            send_timeout: Duration::ZERO,
            plan: WaitPlan::sleeping(WaitPlan::LONGEST_NAP),
            evicted: 0,
            delivered: 0,
        }
    }

    /// Its slot in the ledger: a target that takes the message gets one reference of the sender's.
    #[must_use]
    pub const fn slot(&self) -> LedgerSlot {
        self.slot
    }

    /// What names it in a queue.
    #[must_use]
    pub const fn descriptor(&self) -> Descriptor {
        self.descriptor
    }

    /// Is the target the only one? Then the sender is told why the message cannot be delivered;
    /// else it is dropped for this target, and counted.
    #[must_use]
    pub const fn has_one_target(&self) -> bool {
        self.targets == 1
    }

    /// May a receiver have it that answers for slots by this row of the ledger? It may occupy only
    /// so many slots of the message's size, whatever else its queue could take (ADR 0022).
    /// `gives_back`: it has given something back before. Reads a word for each slot of that size.
    #[must_use]
    pub fn is_within_quota(&self, row: MemberIndex, gives_back: bool) -> bool {
        let control = self.shared.pool().control();
        let parcel = self.parcel.anew();
        let sender = self.shared.index();
        let limit = self.quota.limit_of(control, sender, &parcel, || gives_back);
        let slots = self.quota.slots_like(&parcel);
        let occupied = slots.filter(|&slot| control.ledger().held_by(row, slot) > 0);
        occupied.take(limit as usize).count() < limit as usize
    }

    /// Makes a sample of the reference that the target takes: it stays with this participant.
    /// [`Sent::Delivered`] is the answer then.
    #[must_use]
    pub fn keep(&self) -> Sample {
        let place = self.descriptor.place;
        let geometry = self.shared.pool().regions().region(place.region);
        let slot_offset = geometry.and_then(|geometry| geometry.slot_offset(place.slot));
        #[allow(
            clippy::expect_used,
            reason = "proof: the message was made of a reference to this slot of a mapped region"
        )]
        let taken = Taken {
            descriptor: self.descriptor,
            slot: self.slot,
            slot_offset: slot_offset.expect("a slot of the region"),
            missed: 0,
        };
        Sample::new(Reference::own(self.shared, taken))
    }

    /// How long it may still be held up, for all its targets together.
    #[must_use]
    pub const fn send_timeout(&self) -> Duration {
        self.send_timeout
    }

    /// The error of a subscriber that has no free capacity and had the publisher wait.
    #[must_use]
    pub fn blocked(&self, subscriber: String, waited: Duration) -> NodeError {
        NodeError::Blocked {
            channel: self.channel.to_owned(),
            waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            subscriber,
            delivered: self.delivered,
        }
    }

    /// It was held up for so long.
    pub const fn spend(&mut self, waited: Duration) {
        self.send_timeout = self.send_timeout.saturating_sub(waited);
    }
}

/// What came of sending to one target.
#[derive(Debug)]
pub enum Sent {
    /// The reference went to it.
    Delivered,
    /// It does not get this message: its policy says so, or it is gone, or broken. The reference is
    /// still the sender's, as in the cases below.
    Dropped,
    /// Nobody is there at the moment. Counted neither as delivered nor as dropped.
    Absent,
    /// It has no free capacity, and is waited for: [`Target::send_waiting`] goes on.
    Full,
    /// Boxed: what is rare must not make every answer large.
    Failed(Box<NodeError>),
}

/// Whether a target can still be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// It can.
    Open,
    /// It left, or closed its port.
    Closed,
    /// Its counters are impossible: nothing is sent to it any more.
    Broken,
}

/// One receiver of what a port sends.
pub trait Target: Any + Debug + Send + Sync {
    /// Moves one reference of the sender's to the receiver, if it has free capacity or its policy
    /// makes some. Never waits.
    fn send(&mut self, message: &mut Message<'_>) -> Sent;

    /// As [`send`](Self::send), for a reply: its header is in the buffer already.
    fn send_reply(&mut self, message: &mut Message<'_>, _header: Header) -> Sent {
        self.send(message)
    }

    /// The request with this number gets no reply, and nobody could tell its client.
    fn abandon_reply(&mut self, _number: u64) {}

    /// Would the message be held up here now, and for how long does the receiver ask for that at
    /// most? `None`: it would not. Nothing is sent, and this never waits.
    fn holds_up(&mut self, _message: &Message<'_>) -> Option<Duration> {
        None
    }

    /// Goes on where [`send`](Self::send) said [`Sent::Full`]: waits for free capacity, at most for
    /// as long as the message may be held up. False: it is dropped for this target.
    ///
    /// # Errors
    /// Why it was not delivered.
    fn send_waiting(&mut self, message: &mut Message<'_>) -> Result<bool, Box<NodeError>>;

    /// So many messages are missing before the next one: the receiver is told so, if it is one that
    /// counts them. Never waits.
    fn note_missed(&mut self, _messages: u32) {}

    /// Wakes the receiver for what was sent; a full barrier stands before. Says how the target is.
    fn wake(&mut self) -> TargetState;

    /// Waits until the receiver has given back what it has, if it gives back at all.
    ///
    /// # Errors
    /// [`NodeError::CoreSilent`] if it does not within the time.
    fn flush(&mut self, _timeout: Duration) -> Result<(), NodeError> {
        Ok(())
    }

    /// Leaves it.
    ///
    /// # Errors
    /// A damaged pool.
    fn disconnect(self: Box<Self>) -> Result<(), NodeError>;

    /// How the target is.
    fn state(&self) -> TargetState;

    /// As [`state`](Self::state), with a look at the receiver's counters.
    fn examine(&mut self) -> TargetState {
        self.state()
    }

    /// Who it is, for messages.
    fn name(&self) -> String;

    /// The region that a buffer must be in to reach it; `None`: any.
    fn region(&self) -> Option<RegionIndex> {
        None
    }

    /// The region from which a buffer reaches it best, while any other will do, too; `None`: all
    /// are alike.
    fn preferred_region(&self) -> Option<RegionIndex> {
        None
    }

    /// There was no empty slot in its region for a message to it.
    fn note_no_slot(&self) {}

    /// Bytes that a buffer sent to it must have space for, because the reply is written there.
    fn reply_bytes(&self) -> u32 {
        0
    }

    /// The ports of another host that need not be sent to, since this target leads to the same
    /// receivers: they are left as soon as this one is there.
    fn replaces(&self) -> Vec<PortIndex> {
        Vec::new()
    }

    /// Where it is about to close, and another is to be sent to in its place: waits for that, at
    /// most for `timeout`. Asked before a message for which the port looks for its receivers.
    fn await_close(&mut self, _timeout: Duration) {}

    /// Messages that may not have arrived: asked once, when it has closed. Whoever is sent to in
    /// its place is told that they are missing.
    fn take_unconfirmed(&mut self) -> Unconfirmed {
        Unconfirmed::default()
    }

    /// Does what came from there come from this receiver?
    fn is_origin(&self, _origin: &Origin) -> bool {
        false
    }
}

/// What a target that has closed leaves to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unconfirmed {
    /// Messages that were sent, and of which nobody knows whether they arrived.
    pub sent: u32,
    /// Messages that were dropped, which the port has counted.
    pub dropped: u32,
}

/// Where a source leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The participant.
    pub member: MemberIndex,
    /// Its port, if it is a process.
    pub port: Option<PortIndex>,
    /// Tells this source from all earlier ones.
    pub number: u64,
}

/// On which host the sender at a source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SenderHost {
    /// On this one, or on a core behind it.
    Here,
    /// On this other one, for which the agent acts here.
    Other(Arc<str>),
    /// On another one that cannot be named any more: nobody stands for it here, and what did has
    /// given its record to another.
    Forgotten,
}

impl SenderHost {
    /// What the names of participants begin with that stand for hosts.
    pub(crate) const PREFIX: &str = "host ";

    /// The host for which a participant of this name stands.
    #[must_use]
    pub fn of_participant(name: &str) -> Self {
        match name.strip_prefix(Self::PREFIX) {
            Some(host) => Self::Other(host.into()),
            None => Self::Forgotten,
        }
    }
}

/// What one look at one source brought.
#[derive(Debug)]
pub enum Polled {
    /// There is nothing.
    Nothing,
    /// A reference that is this participant's now.
    Taken(Taken),
    /// So many messages of the sender did not come to this port since the last look.
    Missed(u32),
    /// What makes no sense, and is out of the way: counted.
    Nonsense,
    /// Its counters are impossible: the source is left, and counted.
    Broken,
    /// The other end has agreed to a session, or ended it: a client looks for its servers anew.
    Changed,
    /// It cannot be taken from at all. The caller is told if there is no other source.
    Refused(Box<NodeError>),
}

/// How a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// More may come.
    Open,
    /// Nothing more comes, and what came is not all taken.
    Draining,
    /// Nothing more comes, and nothing is left.
    Ended,
}

/// One sender to a port.
pub trait Source: Any + Debug + Send + Sync {
    /// Takes the next reference, if there is one. Never waits.
    fn poll(&mut self) -> Polled;

    /// Would [`poll`](Self::poll) find something? True where that is not known.
    fn is_something_waiting(&mut self) -> bool {
        true
    }

    /// The most that can wait in it: so much nonsense is passed over in one look.
    fn capacity(&self) -> u32;

    /// How it is.
    fn state(&mut self) -> SourceState;

    /// Leaves it; what waits in it is released.
    ///
    /// # Errors
    /// A damaged pool.
    fn disconnect(self: Box<Self>) -> Result<(), NodeError>;

    /// Where it leads to.
    fn origin(&self) -> Origin;

    /// On which host its sender is.
    fn host(&self) -> SenderHost {
        SenderHost::Here
    }

    /// A wait for it looks again after this long at the latest, whatever wakes.
    fn nap(&self) -> Duration {
        WaitPlan::LONGEST_NAP
    }

    /// Is its sender on another machine, so that it can run while a thread here looks again and
    /// again?
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// A target that leads back to the sender, from a port: for replies. `None`: it is gone, or
    /// takes none.
    ///
    /// # Errors
    /// A full table of connections.
    fn connect_back(&self, _from: PortIndex) -> Result<Option<Box<dyn Target>>, NodeError> {
        Ok(None)
    }

    /// What a client waits for before it can ask there. `None`: nothing.
    fn pending(&self) -> Option<PendingServer> {
        None
    }
}

/// A server that a client has found and cannot ask yet.
#[derive(Debug)]
pub struct PendingServer {
    /// Why not: the error of a request that no other server takes.
    pub why: NodeError,
    /// As [`Target::region`].
    pub region: RegionIndex,
    /// As [`Target::reply_bytes`], as far as it is known.
    pub reply_bytes: u32,
}

/// A source as a wait set sees it, from outside: whoever owns the port takes from it meanwhile.
pub trait Watch: Debug + Send + Sync {
    /// Is there something for the port to do?
    fn is_ready(&mut self) -> bool;

    /// As [`Source::nap`].
    fn nap(&self) -> Duration;
}

/// A port that looks for the other ends of its channel.
#[derive(Debug)]
pub struct Seeking<'a> {
    pub(crate) shared: &'a Arc<Participant>,
    pub(crate) channel: &'a ChannelInfo,
    pub(crate) port: PortIndex,
    pub(crate) depth: u32,
    pub(crate) request_bytes: Option<u32>,
    /// How the port waits.
    pub(crate) plan: WaitPlan,
    /// The port is being opened: what takes an agreement with the other side may wait for it now,
    /// and refuse the port.
    pub(crate) is_opening: bool,
}

impl Seeking<'_> {
    /// The port's channel, as it was when the port was opened.
    #[must_use]
    pub const fn channel(&self) -> &ChannelInfo {
        self.channel
    }

    /// The port's number.
    #[must_use]
    pub const fn port(&self) -> PortIndex {
        self.port
    }

    /// The depth that the port asked for.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// The largest request that a server expects of a core, if it has said so.
    #[must_use]
    pub const fn request_bytes(&self) -> Option<u32> {
        self.request_bytes
    }

    /// How the port waits.
    #[must_use]
    pub const fn wait_plan(&self) -> WaitPlan {
        self.plan
    }

    /// Is the port being opened?
    #[must_use]
    pub const fn is_opening(&self) -> bool {
        self.is_opening
    }

    /// Is a connection made with this port? Not between two hosts: what came from one is not sent
    /// on to another.
    pub(crate) fn may_meet(&self, other: &PortInfo) -> bool {
        let tables = self.shared.pool().control().tables();
        !self.shared.is_host() || tables.member_kind(other.member) != Some(MemberKind::Host)
    }

    /// The participant that has the port.
    #[must_use]
    pub const fn participant(&self) -> &Arc<Participant> {
        self.shared
    }
}

/// What a sending port gives a new receiver before anything else.
pub(crate) trait FirstMessages: Debug {
    /// Is there anything that it gives?
    fn is_there(&self) -> bool;

    /// Gives it, as far as the receiver asks for it and its queue takes it.
    fn give(
        &self,
        shared: &Participant,
        quota: &mut Quota,
        target: &mut QueueTarget,
    ) -> Result<(), NodeError>;
}

/// What a sending port looks for, and what it has found.
#[derive(Debug)]
pub struct FindTargets<'a> {
    pub(crate) seeking: Seeking<'a>,
    /// Ports of this kind take what it sends.
    pub(crate) wanted: PortKind,
    pub(crate) first: Option<&'a dyn FirstMessages>,
    pub(crate) known: Vec<&'a dyn Target>,
    pub(crate) found: Vec<StoredTarget>,
    /// Receivers that could not be connected to, and why.
    pub(crate) failed: Vec<(PortInfo, NodeError)>,
}

impl<'a> FindTargets<'a> {
    /// The port.
    #[must_use]
    pub const fn seeking(&self) -> &Seeking<'a> {
        &self.seeking
    }

    /// Does the port publish?
    #[must_use]
    pub fn publishes(&self) -> bool {
        self.wanted == PortKind::Subscriber
    }

    /// Does the port send requests?
    #[must_use]
    pub fn asks(&self) -> bool {
        self.wanted == PortKind::Server
    }

    /// Has the port something for a new receiver before anything else? It goes by queues alone.
    #[must_use]
    pub fn has_first_messages(&self) -> bool {
        self.first.is_some_and(|first| first.is_there())
    }

    /// The targets that the port has.
    pub fn known(&self) -> impl Iterator<Item = &dyn Target> {
        self.known.iter().copied()
    }

    /// Ports that other targets of the port are in the place of.
    pub(crate) fn replaced(&self) -> Vec<PortIndex> {
        self.known().flat_map(|target| target.replaces()).collect()
    }

    /// One more.
    pub fn add(&mut self, target: Box<dyn Target>) {
        self.found.push(StoredTarget::Other(target));
    }
}

/// What a taking port looks for, and what it has found.
#[derive(Debug)]
pub struct FindSources<'a> {
    pub(crate) seeking: Seeking<'a>,
    pub(crate) kind: PortKind,
    /// Senders may wait for the place that a take makes free.
    pub(crate) rings_back: bool,
    pub(crate) sources: &'a mut Vec<StoredSource>,
}

impl<'a> FindSources<'a> {
    /// The port.
    #[must_use]
    pub const fn seeking(&self) -> &Seeking<'a> {
        &self.seeking
    }

    /// Does the port subscribe?
    #[must_use]
    pub fn subscribes(&self) -> bool {
        self.kind == PortKind::Subscriber
    }

    /// Does the port take replies?
    #[must_use]
    pub fn asks(&self) -> bool {
        self.kind == PortKind::Client
    }

    /// Does the port take requests?
    #[must_use]
    pub fn answers(&self) -> bool {
        self.kind == PortKind::Server
    }

    /// The sources that the port has.
    pub fn known(&self) -> impl Iterator<Item = &dyn Source> {
        self.sources.iter().map(|source| &**source)
    }

    /// One more.
    pub fn add(&mut self, source: Box<dyn Source>) {
        self.sources.push(StoredSource::other(source));
    }
}

/// What came of raising events at one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// It will hear them.
    Accepted,
    /// It has gone, or is another: it is looked for again.
    Closed,
    /// Nobody is there at the moment. Not counted.
    Absent,
    /// Somebody writes into its cell without end: counted.
    Contended,
}

/// One listener of what a notifier raises.
pub trait EventTarget: Any + Debug + Send + Sync {
    /// Raises events, event n by bit n, and wakes the listener. Never waits.
    fn raise(&mut self, events: u64) -> Raised;

    /// Is it kept when the listeners of the channel change? Else it is looked for again.
    fn stays(&self) -> bool {
        false
    }
}

/// One raiser of what a listener takes, beside the notifiers of processes, which write into the
/// listener's cell.
pub trait EventSource: Any + Debug + Send + Sync {
    /// Takes the events that were raised since the last time, event n as bit n. Never waits.
    ///
    /// # Errors
    /// A damaged pool; no free port at the raiser.
    fn take(&mut self) -> Result<u64, NodeError>;

    /// A wait for it looks again after this long at the latest, whatever wakes.
    fn nap(&self) -> Duration;
}

/// What makes targets and sources of one kind.
pub trait Transport: Debug + Send + Sync {
    /// Adds the targets of a port that it has not yet. May wait only while the port is being
    /// opened.
    ///
    /// # Errors
    /// Why the port cannot be, or a damaged pool.
    fn find_targets(&self, find: &mut FindTargets<'_>) -> Result<(), NodeError>;

    /// Adds the sources of a port that it has not yet. May wait only while the port is being
    /// opened.
    ///
    /// # Errors
    /// As [`Transport::find_targets`].
    fn find_sources(&self, find: &mut FindSources<'_>) -> Result<(), NodeError>;

    /// Adds all listeners of the channel of a notifier, beside those that stay. May wait only while
    /// the port is being opened.
    fn find_listeners(&self, _seeking: &Seeking<'_>, _found: &mut Vec<Box<dyn EventTarget>>) {}

    /// Adds the raisers to a listener's channel that it has not yet. May wait only while the port
    /// is being opened.
    fn find_event_sources(&self, _seeking: &Seeking<'_>, _found: &mut Vec<Box<dyn EventSource>>) {}

    /// What a wait set needs to see beside marks, if there is anything of this kind behind the
    /// channel of a port.
    fn watch(
        &self,
        participant: &Arc<Participant>,
        port: PortKind,
        channel: ChannelIndex,
    ) -> Option<Box<dyn Watch>>;
}

/// The list of all kinds of a node.
pub(crate) type Transports = Arc<[Arc<dyn Transport>]>;
