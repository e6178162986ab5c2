//! Publishing: a reference moves to each subscriber's queue, or over a link to a core.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::link::Direction;
use hythe_pool::{
    ChannelInfo, ChannelType, ConnectionEnd, PortIndex, PortInfo, PortKind, PortPolicy,
    PortStatistics, SendError, Side,
};
use hythe_queue::Producer;

use crate::NodeError;
use crate::buffer::{Lease, Reference, Sample};
use crate::core_way::CoreSender;
use crate::node::{PortPlan, Shared, lease_in};
use crate::wait::{WaitPlan, ring, wait_for};

/// How to publish.
#[derive(Clone, Debug, Default)]
pub struct PublisherOptions {
    carries: Option<ChannelType>,
}

impl PublisherOptions {
    /// Only on a channel that carries this type. Default: whatever the channel carries; raw bytes if it has to be made.
    #[must_use]
    pub fn carries(mut self, carries: ChannelType) -> Self {
        self.carries = Some(carries);
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
                send_to_all(&self.shared, &self.channel, self.plan, targets, reference)
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
        // `ring` stands between the sending and this look: the barrier in it pairs with the marking of the leaving.
        let mut left = targets
            .extract_if(.., |target| has_left(&self.shared, target))
            .peekable();
        if left.peek().is_none() {
            return Ok(());
        }
        leave(&self.shared, left.collect())
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
        let control = self.shared.pool().control();
        // A core is left here, too: before the port, which keeps the channel.
        if let Way::Queues(targets) = std::mem::replace(&mut self.way, Way::Queues(Vec::new()))
            && let Err(error) = leave(&self.shared, targets)
        {
            tracing::error!(%error, "could not leave a channel");
        }
        self.shared.act(|member| {
            member.close_port(control, self.port);
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
    let gone = |target: &mut Target| is_gone(shared, target);
    leave(shared, targets.extract_if(.., gone).collect())?;
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
        if !is_open(shared, &subscriber) {
            // It closed while we connected, and may have looked before there was something to see: we leave for both.
            for side in [Side::Producer, Side::Consumer] {
                shared.act(|member| {
                    member.leave_connection(
                        control,
                        shared.pool().regions(),
                        info.index,
                        info.nonce,
                        side,
                    )
                })?;
            }
            continue;
        }
        ring(control, subscriber.member);
        targets.push(Target {
            end: control.producer_end(info),
            subscriber,
        });
    }
    Ok(())
}

fn is_open(shared: &Arc<Shared>, subscriber: &PortInfo) -> bool {
    let now = shared.pool().control().port(subscriber.index);
    now.is_some_and(|now| now.session == subscriber.session && now.channel == subscriber.channel)
}

/// Has the subscriber left the connection, or closed its port, which it does before?
fn is_gone(shared: &Arc<Shared>, target: &Target) -> bool {
    has_left(shared, target) || !is_open(shared, &target.subscriber)
}

fn has_left(shared: &Arc<Shared>, target: &Target) -> bool {
    let now = shared.pool().control().connection(target.end.info.index);
    now.is_none_or(|now| now.nonce != target.end.info.nonce || now.consumer_left)
}

fn leave(shared: &Arc<Shared>, targets: Vec<Target>) -> Result<(), NodeError> {
    let pool = shared.pool();
    for target in targets {
        let info = target.end.info;
        shared.act(|member| {
            member.leave_connection(
                pool.control(),
                pool.regions(),
                info.index,
                info.nonce,
                Side::Producer,
            )
        })?;
        ring(pool.control(), info.consumer);
    }
    Ok(())
}

/// One reference for each target; the last gets the one that came.
fn send_to_all(
    shared: &Arc<Shared>,
    channel: &ChannelInfo,
    plan: WaitPlan,
    targets: &mut [Target],
    reference: Reference,
) -> Result<Published, NodeError> {
    let control = shared.pool().control();
    let mut published = Published::default();
    if targets.is_empty() {
        return Ok(published);
    }
    if targets.len() > 1 {
        // Fits: there are at most as many targets as connections.
        let more = targets.len() as u32 - 1;
        shared.act(|member| member.duplicate(control, reference.slot(), more))?;
    }
    let mut unsent = 0;
    let mut failed = None;
    for target in targets.iter_mut() {
        match send_to(shared, channel, plan, target, &reference) {
            Ok(true) => published.delivered += 1,
            Ok(false) => unsent += 1,
            Err(error) => {
                unsent += 1;
                failed = Some(error);
            }
        }
    }
    published.dropped = unsent;
    let slot = reference.slot();
    reference.moved();
    if unsent > 0 {
        shared.act(|member| member.release(control, slot, unsent))?;
    }
    failed.map_or(Ok(published), Err)
}

/// Sends to one subscriber. False: its queue was full and it is one to be passed by, or it is gone.
fn send_to(
    shared: &Arc<Shared>,
    channel: &ChannelInfo,
    plan: WaitPlan,
    target: &mut Target,
    reference: &Reference,
) -> Result<bool, NodeError> {
    let control = shared.pool().control();
    let (slot, descriptor) = (reference.slot(), reference.descriptor());
    let attempt = |target: &mut Target| match shared
        .act(|member| member.send(control, &mut target.end, slot, descriptor))
    {
        Ok(()) => Ok(Some(true)),
        Err(SendError::Full) if is_gone(shared, target) => Ok(Some(false)),
        Err(SendError::Full) => Ok(None),
        Err(SendError::Pool(error)) => Err(NodeError::Pool(error)),
    };
    let sent = match target.subscriber.policy {
        PortPolicy::DropNewest => attempt(target)?.unwrap_or(false),
        PortPolicy::Block { timeout_ms } => {
            let timeout = Duration::from_millis(timeout_ms.into());
            let sent = wait_for(control, shared.index(), plan, timeout, || {
                // Recovery of a dead subscriber makes room, too: for nobody.
                if is_gone(shared, target) {
                    Ok(Some(false))
                } else {
                    attempt(target)
                }
            })?;
            sent.ok_or_else(|| blocked(shared, channel, target, timeout))?
        }
    };
    if sent {
        ring(control, target.end.info.consumer);
    }
    Ok(sent)
}

fn blocked(
    shared: &Arc<Shared>,
    channel: &ChannelInfo,
    target: &Target,
    timeout: Duration,
) -> NodeError {
    let consumer = target.end.info.consumer;
    let subscriber = shared.pool().control().member(consumer).map_or_else(
        || format!("participant {}", consumer.0),
        |member| format!("{} (pid {})", member.name, member.identity.pid),
    );
    let waited_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    NodeError::Blocked {
        channel: channel.name.clone(),
        waited_ms,
        subscriber,
    }
}
