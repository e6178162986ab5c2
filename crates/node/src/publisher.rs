//! Publishing: a reference moves to each subscriber's queue, or over a link to a core.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::link::Direction;
use hythe_pool::{
    ChannelInfo, ChannelType, ConnectionInfo, PortIndex, PortInfo, PortKind, PortPolicy,
    PortStatistics, QueuePlan, Side,
};

use crate::NodeError;
use crate::buffer::{Lease, Reference, Sample};
use crate::core_way::CoreSender;
use crate::history::History;
use crate::node::{LeaseWait, PortPlan, SEND_TIMEOUT, Shared, named_lease_in};
use crate::quota::{Outstanding, Quota};
use crate::refused::Refused;
use crate::sending::{Sending, Target, boxed};
use crate::wait::{WaitPlan, announce_behind_barrier, ring, ring_port, wait_for};

/// How to publish.
#[derive(Clone, Debug)]
pub struct PublisherOptions {
    carries: Option<ChannelType>,
    send_timeout: Duration,
    history: u32,
}

impl Default for PublisherOptions {
    fn default() -> Self {
        Self {
            carries: None,
            send_timeout: SEND_TIMEOUT,
            history: 0,
        }
    }
}

impl PublisherOptions {
    /// Only on a channel that carries this type. Default: whatever the channel carries; raw bytes if it has to be made.
    #[must_use]
    pub fn carries(mut self, carries: ChannelType) -> Self {
        self.carries = Some(carries);
        self
    }

    /// How long one message may be held up, for all subscribers together, whatever they ask for;
    /// default 100 ms. [`Publisher::lease`] waits as long for a free slot. Any subscriber may ask
    /// that it be waited for: raise this where they are known, and none may miss a message.
    #[must_use]
    pub const fn send_timeout(mut self, send_timeout: Duration) -> Self {
        self.send_timeout = send_timeout;
        self
    }

    /// Keeps the last `samples` published (default: none), and gives a subscriber that comes later as many of them as it
    /// [asks for](crate::SubscriberOptions::history), before anything newer. Each keeps its slot, in the name of this
    /// participant; when the pool is full, a lease of this node takes the oldest that helps. Not for channels that end on a core.
    ///
    /// **A publisher that makes no call gives nothing**: nobody else connects for it. A subscriber is met by the next call that
    /// looks for new ones: [`Publisher::publish`], [`Publisher::publish_batch`], [`Publisher::hand_on`],
    /// [`Publisher::subscribers`], [`Publisher::wait_for_subscribers`]. Who publishes rarely calls `subscribers` now and then, or
    /// spends the time between messages in `wait_for_subscribers(usize::MAX, …)`.
    #[must_use]
    pub const fn history(mut self, samples: u32) -> Self {
        self.history = samples;
        self
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Subscribers that have it in their queue.
    pub delivered: u32,
    /// Subscribers that it passed by because their queue was full, or because there was no memory left for one.
    pub dropped: u32,
    /// Older messages that it displaced, from queues of subscribers that drop the oldest.
    pub displaced: u32,
}

/// The publishing end of a channel.
#[derive(Debug)]
pub struct Publisher {
    shared: Arc<Shared>,
    channel: ChannelInfo,
    port: PortIndex,
    statistics: PortStatistics,
    send_timeout: Duration,
    plan: WaitPlan,
    epoch: Option<u32>,
    history: History,
    refused: Refused,
    quota: Quota,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Queues(Vec<Target>),
    Core(Box<CoreSender>),
}

impl Publisher {
    pub(crate) fn open(
        shared: &Arc<Shared>,
        name: &str,
        options: &PublisherOptions,
    ) -> Result<Self, NodeError> {
        let policy = PortPolicy::DropNewest;
        let plan = PortPlan {
            kind: PortKind::Publisher,
            depth: 0,
            policy,
            history: 0,
        };
        // Who may only read the slots cannot publish: said here, where it can be handled.
        shared.pool().map_to_write(hythe_abi::RegionIndex(0))?;
        let (channel, port) = shared.open_port(name, options.carries.as_ref(), plan)?;
        let mut publisher = Self {
            shared: Arc::clone(shared),
            channel,
            port,
            statistics: PortStatistics::default(),
            send_timeout: options.send_timeout,
            plan: WaitPlan::for_processes(),
            epoch: None,
            history: History::new(shared, options.history),
            refused: Refused::default(),
            quota: Quota::default(),
            way: Way::Queues(Vec::new()),
        };
        if publisher.channel.core.is_some() {
            // Only now: the port keeps the channel, and the channel the attachment.
            let sender = CoreSender::attach(shared, &publisher.channel)?;
            publisher.plan = WaitPlan::for_core();
            publisher.way = Way::Core(Box::new(sender));
        }
        Ok(publisher)
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel.name
    }

    /// Leases a buffer that every receiver of this channel can see, waiting for at most the
    /// [send timeout](PublisherOptions::send_timeout) until a slot is free.
    ///
    /// # Errors
    /// As [`crate::Node::lease`]. [`NodeError::Exhausted`] says how large the pool should be if it
    /// has too few slots for this many subscribers.
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        let wait = LeaseWait {
            timeout: self.send_timeout,
            receivers: self.receivers(),
        };
        named_lease_in(&self.shared, self.region(), bytes, wait)
    }

    /// The region that every receiver of this channel can see.
    #[must_use]
    pub fn region(&self) -> hythe_abi::RegionIndex {
        let core = self.channel.core;
        core.map_or(hythe_abi::RegionIndex(0), |core| core.region)
    }

    /// Publishes the first `bytes` of a leased buffer.
    ///
    /// # Errors
    /// [`NodeError::Blocked`] if a subscriber that is never passed by made no room in time, [`NodeError::ReceiverGone`] if it
    /// died or left meanwhile: the others have the message. [`NodeError::Exhausted`] if the only subscribers are some that no
    /// queue could be made to. The core's errors. The buffer is released then.
    ///
    /// # Panics
    /// If `bytes` is more than the buffer's capacity, or the lease is another node's.
    pub fn publish(&mut self, mut lease: Lease, bytes: usize) -> Result<Published, NodeError> {
        self.send(lease.as_payload(bytes))
    }

    /// Publishes a received sample, or a part of one, without copying.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    ///
    /// # Panics
    /// If the sample is another node's.
    pub fn hand_on(&mut self, mut sample: Sample) -> Result<Published, NodeError> {
        self.send(sample.as_reference())
    }

    /// Publishes buffers in this order, each with its bytes of payload; cheaper than one by one: subscribers are looked after, and
    /// woken, once. Returns how many subscribers got, or missed, a message, summed over all.
    ///
    /// # Errors
    /// As [`Publisher::publish`]; what came before the buffer that could not be published has gone out, it and the rest are
    /// released.
    ///
    /// # Panics
    /// As [`Publisher::publish`].
    pub fn publish_batch(
        &mut self,
        batch: impl IntoIterator<Item = (Lease, usize)>,
    ) -> Result<Published, NodeError> {
        let mut sum = Published::default();
        let mut outcome = Ok(());
        let told = Told(self);
        for (mut lease, bytes) in batch {
            match told.0.push(lease.as_payload(bytes)) {
                Ok(published) => {
                    sum.delivered += published.delivered;
                    sum.dropped += published.dropped;
                    sum.displaced += published.displaced;
                    told.0.statistics.messages += 1;
                    told.0.statistics.payload_bytes += bytes as u64;
                }
                Err(error) => {
                    outcome = Err(*error);
                    break;
                }
            }
        }
        drop(told);
        let finished = self.finish();
        self.shared.pool().check_whole()?;
        finished.map_err(|error| *error)?;
        let control = self.shared.pool().control();
        control.set_traffic(self.port, &self.statistics);
        outcome.map(|()| sum)
    }

    /// Subscribers connected at this moment, after connecting to new ones and giving them what is
    /// [kept](PublisherOptions::history) for them. A core counts as one.
    ///
    /// # Errors
    /// As [`Publisher::reaches_all`], if there are only subscribers that no queue could be made to.
    pub fn subscribers(&mut self) -> Result<usize, NodeError> {
        let refreshed = self.refresh();
        self.shared.pool().unless_lost(refreshed)?;
        match &self.way {
            Way::Queues(targets) if targets.is_empty() => {
                self.refused.first(self.shared.pool()).map(|()| 0)
            }
            Way::Queues(targets) => Ok(targets.len()),
            Way::Core(_) => Ok(1),
        }
    }

    /// Is there a queue to every subscriber? Messages pass the others by, and count as dropped.
    ///
    /// # Errors
    /// Why there is none to one of them: [`NodeError::Exhausted`], [`hythe_pool::PoolError::QueueTooDeep`].
    pub fn reaches_all(&mut self) -> Result<(), NodeError> {
        let refreshed = self.refresh();
        self.shared.pool().unless_lost(refreshed)?;
        self.refused.first(self.shared.pool())
    }

    /// Waits until there are at least `count` subscribers. False: the time was over first. Meanwhile it does what
    /// [`Publisher::subscribers`] does, as they come.
    ///
    /// # Errors
    /// As [`Publisher::subscribers`].
    pub fn wait_for_subscribers(
        &mut self,
        count: usize,
        timeout: Duration,
    ) -> Result<bool, NodeError> {
        let shared = Arc::clone(&self.shared);
        let plan = WaitPlan {
            nap: Duration::from_millis(5),
            ..self.plan.gated(shared.spin_gate())
        };
        let enough = wait_for(
            shared.pool().control(),
            shared.index(),
            plan,
            timeout,
            || Ok((self.subscribers()? >= count).then_some(())),
        )?;
        Ok(enough.is_some())
    }

    /// Waits until a core has given back all that was sent to it. For other receivers there is nothing to wait for.
    ///
    /// # Errors
    /// [`NodeError::CoreSilent`] if it does not within the time.
    pub fn flush(&mut self, timeout: Duration) -> Result<(), NodeError> {
        self.shared.check_original()?;
        match &mut self.way {
            Way::Queues(_) => Ok(()),
            Way::Core(core) => core.flush(self.plan, timeout),
        }
    }

    /// What this port has counted.
    #[must_use]
    pub const fn statistics(&self) -> PortStatistics {
        self.statistics
    }

    fn receivers(&self) -> usize {
        match &self.way {
            Way::Queues(targets) => targets.len(),
            Way::Core(_) => 1,
        }
    }

    #[inline]
    fn send(&mut self, reference: &mut Reference) -> Result<Published, NodeError> {
        let bytes = u64::from(reference.descriptor().length);
        let sent = self.push(reference);
        let finished = self.finish();
        self.shared.pool().check_whole()?;
        if let Err(error) = finished {
            return Err(*error);
        }
        let published = match sent {
            Ok(published) => published,
            Err(error) => return Err(*error),
        };
        self.statistics.messages += 1;
        self.statistics.payload_bytes += bytes;
        self.shared
            .pool()
            .control()
            .set_traffic(self.port, &self.statistics);
        Ok(published)
    }

    /// Puts a message into the queues, and wakes nobody yet: [`finish`](Self::finish) follows. Its error is boxed, as in
    /// `SendError`.
    #[inline(always)]
    fn push(&mut self, reference: &mut Reference) -> Result<Published, Box<NodeError>> {
        assert!(
            reference.is_of(&self.shared),
            "a buffer is published by the node that leased or took it"
        );
        if self.is_stale() {
            self.refresh().map_err(boxed)?;
        }
        let is_special = self.history.keeps() || self.refused.count() > 0;
        if is_special && matches!(self.way, Way::Queues(_)) {
            self.history.copy(&self.shared, reference).map_err(boxed)?;
        }
        let mut published = self.pass_on(reference);
        if is_special {
            published = self.settle(published);
        }
        let dropped = published
            .as_ref()
            .map_or(1, |published| published.dropped + published.displaced);
        if dropped > 0 {
            self.count_dropped(dropped);
        }
        published
    }

    /// To whoever there is.
    #[inline(always)]
    fn pass_on(&mut self, reference: &mut Reference) -> Result<Published, Box<NodeError>> {
        match &mut self.way {
            Way::Core(core) => match core.send(reference, self.plan) {
                Ok(()) => Ok(Published {
                    delivered: 1,
                    ..Published::default()
                }),
                Err(error) => Err(boxed(error)),
            },
            Way::Queues(targets) => {
                let parcel = self.quota.parcel(&self.shared, reference);
                let sending = Sending {
                    shared: &self.shared,
                    channel: &self.channel,
                    plan: self.plan,
                    send_timeout: self.send_timeout,
                    quota: &self.quota,
                    parcel: &parcel.map_err(boxed)?,
                    displaced: 0,
                };
                sending.deliver(targets, reference)
            }
        }
    }

    /// Keeps a message that went out for those who come late, and counts those who got no queue.
    #[cold]
    fn settle(
        &mut self,
        published: Result<Published, Box<NodeError>>,
    ) -> Result<Published, Box<NodeError>> {
        let published = if self.refused.count() > 0 {
            self.refused.passed_by(self.shared.pool(), published)
        } else {
            published
        };
        self.history.keep(published.is_ok());
        published
    }

    #[cold]
    fn count_dropped(&mut self, dropped: u32) {
        self.statistics.dropped += u64::from(dropped);
        let control = self.shared.pool().control();
        control.set_statistics(self.port, self.statistics);
    }

    /// Wakes who sleeps, and leaves who is gone: once behind one message, or behind many.
    #[inline(always)]
    fn finish(&mut self) -> Result<(), Box<NodeError>> {
        let Way::Queues(targets) = &self.way else {
            return Ok(());
        };
        if self.shared.is_a_copy() {
            // `push` has refused.
            return Ok(());
        }
        let (shared, control) = (&self.shared, self.shared.pool().control());
        // For all bells at once; and it pairs with the one behind the closing of a subscriber's port: the emptying of the
        // queue that comes then finds what was sent, or we find the port closed.
        hythe_memory::full_barrier();
        let mut somebody_is_gone = false;
        for target in targets {
            let info = &target.end.info;
            announce_behind_barrier(control, info.consumer, info.consumer_port);
            somebody_is_gone |=
                target.lies || is_gone(shared, &target.end.info, &target.subscriber);
        }
        if somebody_is_gone {
            self.leave_the_left().map_err(boxed)?;
        }
        Ok(())
    }

    /// A subscriber that left, or died, while something was sent to it does not take that: whoever leaves last releases it,
    /// so leave now and not when the next message comes.
    #[cold]
    fn leave_the_left(&mut self) -> Result<(), NodeError> {
        let Way::Queues(targets) = &mut self.way else {
            return Ok(());
        };
        let lying = targets.iter().filter(|target| target.lies).count();
        self.statistics.violations += lying as u64;
        let control = self.shared.pool().control();
        control.set_statistics(self.port, self.statistics);
        leave_the_gone(&self.shared, targets)
    }

    /// Has the channel changed since the last [`refresh`](Self::refresh)? Or has this process been forked, which it refuses? Or
    /// is it time to look for room for those who got no queue?
    #[inline]
    fn is_stale(&self) -> bool {
        let control = self.shared.pool().control();
        self.epoch != Some(control.channel_epoch(self.channel.index))
            || self.shared.is_a_copy()
            || self.refused.is_due()
    }

    /// Connects to new subscribers, and leaves those that left.
    #[cold]
    fn refresh(&mut self) -> Result<(), NodeError> {
        self.shared.check_original()?;
        let control = self.shared.pool().control();
        let epoch = control.channel_epoch(self.channel.index);
        if self.epoch == Some(epoch) && !self.refused.is_due() {
            return Ok(());
        }
        // Done again from the start if it fails.
        self.epoch = None;
        self.refused.begin();
        if let Way::Queues(targets) = &mut self.way {
            // A core that started behind the channel takes the place of its Linux subscribers.
            let now = control
                .channel(self.channel.index)
                .and_then(|info| info.core);
            if let Some(core) = now.filter(|core| core.direction == Direction::ToCore) {
                leave(&self.shared, std::mem::take(targets))?;
                self.channel.core = Some(core);
                let sender = CoreSender::attach(&self.shared, &self.channel)?;
                self.plan = WaitPlan::for_core();
                self.way = Way::Core(Box::new(sender));
            } else {
                let joining = Joining {
                    shared: &self.shared,
                    channel: &self.channel,
                    port: self.port,
                    history: &self.history,
                };
                joining.update_targets(targets, &mut self.refused)?;
                self.quota = Quota::for_receivers(self.shared.pool(), targets.len());
            }
        }
        self.epoch = Some(epoch);
        Ok(())
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            self.history.forget();
            return;
        }
        let control = self.shared.pool().control();
        // A core is left here, too: before the port, which keeps the channel.
        if let Way::Queues(targets) = std::mem::replace(&mut self.way, Way::Queues(Vec::new()))
            && let Err(error) = leave(&self.shared, targets)
        {
            tracing::error!(%error, "could not leave a channel");
        }
        self.shared.act(|member| {
            member.free_port(control, self.port);
            member.retire_channel(control, self.channel.index);
        });
    }
}

/// A batch that is being published. What was published before its iterator panicked is announced all the same: those who sleep
/// are woken by nothing else.
struct Told<'a>(&'a mut Publisher);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What it finds is found again by the next message.
            let _ = self.0.finish();
        }
    }
}

/// Connecting to subscribers.
struct Joining<'a> {
    shared: &'a Arc<Shared>,
    channel: &'a ChannelInfo,
    port: PortIndex,
    history: &'a History,
}

impl Joining<'_> {
    /// Connects to subscribers that have no connection yet; leaves connections whose subscriber is gone.
    fn update_targets(
        &self,
        targets: &mut Vec<Target>,
        refused: &mut Refused,
    ) -> Result<(), NodeError> {
        let (shared, control) = (self.shared, self.shared.pool().control());
        leave_the_gone(shared, targets)?;
        let subscribers: Vec<PortInfo> = control
            .ports()
            .filter(|other| {
                other.kind == PortKind::Subscriber && other.channel == self.channel.index
            })
            .filter(|other| {
                !targets
                    .iter()
                    .any(|target| target.end.info.consumer_port == other.index)
            })
            .collect();
        if !subscribers.is_empty() {
            // Whom this node may spin for now: before the watcher looks, which may take as long as many messages.
            shared.spin_gate().refresh(control, shared.index());
        }
        for subscriber in subscribers {
            let queue = QueuePlan {
                capacity: subscriber.depth,
                drops_oldest: subscriber.policy == PortPolicy::DropOldest,
            };
            let (member, port) = (subscriber.member, subscriber.index);
            match shared.act(|me| me.connect(control, self.port, member, port, queue)) {
                Ok(info) => {
                    let receivers = targets.len() + 1;
                    targets.extend(self.begin(info, subscriber, receivers)?);
                }
                Err(error) => refused.note(subscriber, error)?,
            }
        }
        Ok(())
    }

    /// The first things through a new connection: what was kept. `None`: the subscriber closed meanwhile.
    fn begin(
        &self,
        info: ConnectionInfo,
        subscriber: PortInfo,
        receivers: usize,
    ) -> Result<Option<Target>, NodeError> {
        let (shared, control) = (self.shared, self.shared.pool().control());
        let mut quota = Quota::for_receivers(shared.pool(), receivers);
        let outstanding = Outstanding::for_quota(&quota);
        let mut target = Target::new(control.producer_end(info), subscriber, outstanding);
        // Before the look below: what a subscriber that closes now does not take, whoever leaves last releases.
        let given = self.history.give(shared, &mut quota, &mut target);
        if let Err(error) = given {
            // The next attempt makes another.
            leave_unattended(shared, &info)?;
            return Err(error);
        }
        hythe_memory::full_barrier();
        if !control.is_still_open(&subscriber) {
            // It closed while we connected, and may have looked before there was something to see.
            leave_unattended(shared, &info)?;
            return Ok(None);
        }
        // Behind what was kept: a waiter looks for that.
        ring_port(control, subscriber.member, subscriber.index);
        Ok(Some(target))
    }
}

/// Has the subscriber left the connection, or closed its port, which it does before?
#[inline]
pub(crate) fn is_gone(shared: &Arc<Shared>, known: &ConnectionInfo, subscriber: &PortInfo) -> bool {
    let control = shared.pool().control();
    !control.consumer_stays(known) || !control.is_still_open(subscriber)
}

fn leave_the_gone(shared: &Arc<Shared>, targets: &mut Vec<Target>) -> Result<(), NodeError> {
    let gone =
        |target: &mut Target| target.lies || is_gone(shared, &target.end.info, &target.subscriber);
    let gone: Vec<Target> = targets.extract_if(.., gone).collect();
    leave(shared, gone)
}

/// Leaves all of them, whatever is found damaged on the way; the first damage is the result.
fn leave(shared: &Arc<Shared>, targets: Vec<Target>) -> Result<(), NodeError> {
    let mut outcome = Ok(());
    for target in targets {
        let info = target.end.info;
        outcome = outcome.and(leave_side(shared, info, Side::Producer));
        ring(shared.pool().control(), info.consumer);
    }
    outcome
}

pub(crate) fn leave_side(
    shared: &Arc<Shared>,
    info: ConnectionInfo,
    side: Side,
) -> Result<(), NodeError> {
    let (control, regions) = (shared.pool().control(), shared.pool().regions());
    let left = shared
        .act(|member| member.leave_connection(control, regions, info.index, info.nonce, side));
    Ok(left?)
}

/// Leaves a connection just made to a port that closed meanwhile: for both sides, unless the other has begun with it.
pub(crate) fn leave_unattended(
    shared: &Arc<Shared>,
    info: &ConnectionInfo,
) -> Result<(), NodeError> {
    let (control, regions) = (shared.pool().control(), shared.pool().regions());
    Ok(shared.act(|member| member.leave_unattended(control, regions, info))?)
}
