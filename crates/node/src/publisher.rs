//! Publishing: a reference moves to each subscriber's queue, or over a link to a core.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::link::Direction;
use hythe_pool::{
    ChannelInfo, ChannelType, ConnectionEnd, ConnectionInfo, PortIndex, PortInfo, PortKind,
    PortPolicy, PortStatistics, SendError, Side,
};
use hythe_queue::Producer;

use crate::NodeError;
use crate::buffer::{Lease, Reference, Sample};
use crate::core_way::CoreSender;
use crate::node::{PortPlan, Shared, lease_in};
use crate::wait::{WaitPlan, ring, wait_for};

/// How to publish.
#[derive(Clone, Debug)]
pub struct PublisherOptions {
    carries: Option<ChannelType>,
    patience: Duration,
}

impl Default for PublisherOptions {
    fn default() -> Self {
        Self {
            carries: None,
            patience: Duration::from_secs(30),
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

    /// How long one message may wait for room, for all subscribers together, whatever they ask for; default 30 s.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Subscribers that have it in their queue.
    pub delivered: u32,
    /// Subscribers that it passed by because their queue was full.
    pub dropped: u32,
}

/// The publishing end of a channel.
#[derive(Debug)]
pub struct Publisher {
    shared: Arc<Shared>,
    channel: ChannelInfo,
    port: PortIndex,
    statistics: PortStatistics,
    patience: Duration,
    plan: WaitPlan,
    epoch: Option<u32>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Queues(Vec<Target>),
    Core(Box<CoreSender>),
}

#[derive(Debug)]
struct Target {
    end: ConnectionEnd<Producer>,
    subscriber: PortInfo,
    /// Its counter is impossible: it is left behind the message that found that out.
    lies: bool,
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
        };
        let (channel, port) = shared.open_port(name, options.carries.as_ref(), plan)?;
        let mut publisher = Self {
            shared: Arc::clone(shared),
            channel,
            port,
            statistics: PortStatistics::default(),
            patience: options.patience,
            plan: WaitPlan::for_processes(),
            epoch: None,
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

    /// Leases a buffer that every receiver of this channel can see.
    ///
    /// # Errors
    /// As [`crate::Node::lease`].
    pub fn lease(&self, bytes: usize) -> Result<Lease, NodeError> {
        let region = self
            .channel
            .core
            .map_or(hythe_abi::RegionIndex(0), |core| core.region);
        lease_in(&self.shared, region, bytes)
    }

    /// Publishes the first `bytes` of a leased buffer.
    ///
    /// # Errors
    /// [`NodeError::Blocked`] if a subscriber that is never passed by made no room in time; the core's errors. The buffer is
    /// released then.
    ///
    /// # Panics
    /// If `bytes` is more than the buffer's capacity, or the lease is another node's.
    pub fn publish(&mut self, lease: Lease, bytes: usize) -> Result<Published, NodeError> {
        assert!(
            bytes <= lease.capacity(),
            "{bytes} bytes from a buffer of {}",
            lease.capacity()
        );
        // Fits: a slot's size is 32 bits.
        self.send(lease.into_reference(bytes as u32))
    }

    /// Publishes a received sample, or a part of one, without copying.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    ///
    /// # Panics
    /// If the sample is another node's.
    pub fn hand_on(&mut self, sample: Sample) -> Result<Published, NodeError> {
        self.send(sample.into_reference())
    }

    /// Subscribers connected at this moment. A core counts as one.
    ///
    /// # Errors
    /// A full table of connections.
    pub fn subscribers(&mut self) -> Result<usize, NodeError> {
        self.refresh()?;
        Ok(match &self.way {
            Way::Queues(targets) => targets.len(),
            Way::Core(_) => 1,
        })
    }

    /// Waits until there are at least `count` subscribers. False: the time was over first.
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
            ..self.plan
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

    fn send(&mut self, reference: Reference) -> Result<Published, NodeError> {
        assert!(
            reference.is_of(&self.shared),
            "a buffer is published by the node that leased or took it"
        );
        self.refresh()?;
        let bytes = u64::from(reference.descriptor().length);
        let published = match &mut self.way {
            Way::Core(core) => core.send(reference, self.plan).map(|()| Published {
                delivered: 1,
                dropped: 0,
            }),
            Way::Queues(targets) => {
                let sending = Sending {
                    shared: &self.shared,
                    channel: &self.channel,
                    plan: self.plan,
                    patience: self.patience,
                };
                sending.deliver(targets, reference)
            }
        };
        self.leave_the_left()?;
        match &published {
            Ok(published) => {
                self.statistics.messages += 1;
                self.statistics.payload_bytes += bytes;
                self.statistics.dropped += u64::from(published.dropped);
            }
            Err(_) => self.statistics.dropped += 1,
        }
        self.shared
            .pool()
            .control()
            .set_statistics(self.port, self.statistics);
        published
    }

    /// A subscriber that left, or died, while something was sent to it does not take that: whoever leaves last releases it,
    /// so leave now and not when the next message comes.
    fn leave_the_left(&mut self) -> Result<(), NodeError> {
        let Way::Queues(targets) = &mut self.way else {
            return Ok(());
        };
        // `ring` stands between the sending and this look. The barrier in it pairs with the one behind the closing of the port:
        // the emptying of the queue that comes then finds what was sent, or we find the port closed.
        let lying = targets.iter().filter(|target| target.lies).count();
        self.statistics.violations += lying as u64;
        leave_the_gone(&self.shared, targets)
    }

    /// Connects to new subscribers, and leaves those that left.
    fn refresh(&mut self) -> Result<(), NodeError> {
        let control = self.shared.pool().control();
        let epoch = control.channel_epoch(self.channel.index);
        if self.epoch == Some(epoch) {
            return Ok(());
        }
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
                update_targets(&self.shared, &self.channel, self.port, targets)?;
            }
        }
        self.epoch = Some(epoch);
        Ok(())
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
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

/// Connects to subscribers that have no connection yet; leaves connections whose subscriber is gone.
fn update_targets(
    shared: &Arc<Shared>,
    channel: &ChannelInfo,
    port: PortIndex,
    targets: &mut Vec<Target>,
) -> Result<(), NodeError> {
    let control = shared.pool().control();
    leave_the_gone(shared, targets)?;
    let subscribers: Vec<PortInfo> = control
        .ports()
        .filter(|other| other.kind == PortKind::Subscriber && other.channel == channel.index)
        .filter(|other| {
            !targets
                .iter()
                .any(|target| target.end.info.consumer_port == other.index)
        })
        .collect();
    for subscriber in subscribers {
        let info = shared.act(|member| {
            member.connect(
                control,
                port,
                subscriber.member,
                subscriber.index,
                subscriber.depth,
            )
        })?;
        hythe_memory::full_barrier();
        if !control.is_still_open(&subscriber) {
            // It closed while we connected, and may have looked before there was something to see: we leave for both.
            for side in [Side::Producer, Side::Consumer] {
                leave_side(shared, info, side)?;
            }
            continue;
        }
        ring(control, subscriber.member);
        targets.push(Target {
            end: control.producer_end(info),
            subscriber,
            lies: false,
        });
    }
    Ok(())
}

/// Has the subscriber left the connection, or closed its port, which it does before?
fn is_gone(shared: &Arc<Shared>, known: &ConnectionInfo, subscriber: &PortInfo) -> bool {
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

fn leave_side(shared: &Arc<Shared>, info: ConnectionInfo, side: Side) -> Result<(), NodeError> {
    let (control, regions) = (shared.pool().control(), shared.pool().regions());
    let left = shared
        .act(|member| member.leave_connection(control, regions, info.index, info.nonce, side));
    Ok(left?)
}

/// One message on its way.
struct Sending<'a> {
    shared: &'a Arc<Shared>,
    channel: &'a ChannelInfo,
    plan: WaitPlan,
    /// How long it may still wait for room.
    patience: Duration,
}

impl Sending<'_> {
    /// One reference for each target; the last gets the one that came.
    fn deliver(
        mut self,
        targets: &mut [Target],
        reference: Reference,
    ) -> Result<Published, NodeError> {
        let (shared, slot) = (self.shared, reference.slot());
        let control = shared.pool().control();
        let mut published = Published::default();
        if targets.is_empty() {
            return Ok(published);
        }
        if targets.len() > 1 {
            // Fits: there are at most as many targets as connections.
            let more = targets.len() as u32 - 1;
            shared.act(|member| member.duplicate(control, slot, more))?;
        }
        let mut failed = None;
        for target in targets.iter_mut() {
            match self.deliver_to(target, &reference) {
                Ok(true) => published.delivered += 1,
                Ok(false) => published.dropped += 1,
                Err(error) => {
                    published.dropped += 1;
                    failed.get_or_insert(error);
                }
            }
        }
        reference.moved();
        if published.dropped > 0 {
            shared.act(|member| member.release(control, slot, published.dropped))?;
        }
        failed.map_or(Ok(published), Err)
    }

    /// Sends to one subscriber. False: its queue was full and it is one to be passed by, or it is gone.
    fn deliver_to(
        &mut self,
        target: &mut Target,
        reference: &Reference,
    ) -> Result<bool, NodeError> {
        let (shared, control) = (self.shared, self.shared.pool().control());
        let (slot, descriptor) = (reference.slot(), reference.descriptor());
        let (info, subscriber) = (target.end.info, target.subscriber);
        let (end, lies) = (&mut target.end, &mut target.lies);
        let mut attempt = || match shared.act(|member| member.send(control, end, slot, descriptor))
        {
            Ok(()) => Ok(Some(true)),
            Err(SendError::Full) => Ok(None),
            Err(SendError::Pool(_)) if end.queue.room(control.memory()).is_err() => {
                *lies = true;
                Ok(Some(false))
            }
            Err(SendError::Pool(error)) => Err(NodeError::Pool(error)),
        };
        let sent = match (attempt()?, subscriber.policy) {
            (Some(sent), _) => sent,
            (None, PortPolicy::DropNewest) => false,
            (None, PortPolicy::Block { timeout_ms }) => {
                let timeout = Duration::from_millis(timeout_ms.into()).min(self.patience);
                let start = Instant::now();
                let sent = wait_for(control, shared.index(), self.plan, timeout, || {
                    // Recovery of a dead subscriber makes room, too: for nobody.
                    if is_gone(shared, &info, &subscriber) {
                        Ok(Some(false))
                    } else {
                        attempt()
                    }
                })?;
                self.patience = self.patience.saturating_sub(start.elapsed());
                sent.ok_or_else(|| self.blocked(target, timeout))?
            }
        };
        if sent {
            ring(control, target.end.info.consumer);
        }
        Ok(sent)
    }

    fn blocked(&self, target: &Target, timeout: Duration) -> NodeError {
        let consumer = target.end.info.consumer;
        let subscriber = self.shared.pool().control().member(consumer).map_or_else(
            || format!("participant {}", consumer.0),
            |member| format!("{} (pid {})", member.name, member.identity.pid),
        );
        NodeError::Blocked {
            channel: self.channel.name.clone(),
            waited_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            subscriber,
        }
    }
}
