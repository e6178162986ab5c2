//! Subscribing: references are taken from each publisher's queue in turn, or from a core's link.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::RegionIndex;
use hythe_abi::link::Direction;
use hythe_memory::Memory;
use hythe_pool::{
    ChannelInfo, ChannelType, ConnectionEnd, PoolError, PortIndex, PortKind, PortPolicy,
    PortStatistics, Side, Taken, expect_take,
};
use hythe_queue::Consumer;

use crate::NodeError;
use crate::buffer::{Reference, Sample};
use crate::core_way::CoreReceiver;
use crate::node::{PortPlan, Shared};
use crate::pool::Pool;
use crate::spin::Spinner;
use crate::wait::{WaitPlan, WaitReport, ring, wait_reporting};
use crate::waiter::sealed::{Parts, PortParts};
use crate::waiter::{Route, Waitable};

/// How far ahead of a take the lines of a message that waits are asked for: they take about as long to come as so many takes.
const TAKES_AHEAD: u32 = 4;

/// How to subscribe.
///
/// ```
/// # fn main() -> Result<(), hythe_node::NodeError> {
/// # let root = std::env::temp_dir().join(format!("hythe-doc-policy-{}", std::process::id()));
/// # let pool = hythe_node::PoolOptions::new("example").root(&root).bytes(16 << 20);
/// # let node = hythe_node::Node::join(&hythe_node::Pool::open_or_create(&pool)?, "doc-test")?;
/// use hythe_node::{PortPolicy, PublisherOptions, SubscriberOptions};
///
/// let mut publisher = node.publisher("position", &PublisherOptions::default().history(1))?;
/// publisher.publish(node.lease(8)?, 8)?;
///
/// // Comes late, wants the last position at once, and always the newest.
/// let newest = SubscriberOptions::default().depth(2).policy(PortPolicy::DropOldest).history(1);
/// let mut subscriber = node.subscriber("position", &newest)?;
/// assert_eq!(publisher.subscribers()?, 1);
/// assert_eq!(subscriber.try_take()?.map(|sample| sample.len()), Some(8));
/// # drop((subscriber, publisher, node));
/// # hythe_node::Pool::remove(&pool)?;
/// # std::fs::remove_dir_all(&root).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SubscriberOptions {
    carries: Option<ChannelType>,
    depth: u32,
    policy: PortPolicy,
    history: u32,
}

impl Default for SubscriberOptions {
    fn default() -> Self {
        Self {
            carries: None,
            depth: 32,
            policy: PortPolicy::DropNewest,
            history: 0,
        }
    }
}

impl SubscriberOptions {
    /// Only on a channel that carries this type. Default: whatever the channel carries; raw bytes if it has to be made.
    #[must_use]
    pub fn carries(mut self, carries: ChannelType) -> Self {
        self.carries = Some(carries);
        self
    }

    /// Messages that may wait, per publisher (rounded up to a power of two, at least 2); default 32. Queues of up to 32 always
    /// fit; deeper ones share memory, of which a subscriber's node gets at most half
    /// ([`PoolError::QueueTooDeep`]).
    #[must_use]
    pub const fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// What happens when as many wait; default: the newest passes by.
    #[must_use]
    pub const fn policy(mut self, policy: PortPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Earlier messages that each publisher shall give first, as far as it [keeps](crate::PublisherOptions::history) some and
    /// the depth allows; default: none. A publisher gives them at its next call that looks for subscribers: one that makes none
    /// keeps them waiting.
    #[must_use]
    pub const fn history(mut self, messages: u32) -> Self {
        self.history = messages;
        self
    }
}

/// The taking end of a channel.
#[derive(Debug)]
pub struct Subscriber {
    shared: Arc<Shared>,
    channel: ChannelInfo,
    port: PortIndex,
    statistics: PortStatistics,
    policy: PortPolicy,
    plan: WaitPlan,
    spinner: Spinner,
    /// To the waiter that it is attached to.
    route: Option<Route>,
    sleeps: u64,
    changes: Option<u32>,
    epoch: Option<u32>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Queues {
        sources: Vec<ConnectionEnd<Consumer>>,
        next: usize,
    },
    Core(Box<CoreReceiver>),
}

impl Subscriber {
    pub(crate) fn open(
        shared: &Arc<Shared>,
        name: &str,
        options: &SubscriberOptions,
    ) -> Result<Self, NodeError> {
        let kind = PortKind::Subscriber;
        let plan = PortPlan {
            kind,
            depth: options.depth,
            policy: options.policy,
            history: options.history,
        };
        let (channel, port) = shared.open_port(name, options.carries.as_ref(), plan)?;
        let control = shared.pool().control();
        // Publishers that wait for a subscriber need not find out by looking.
        let publishers = control
            .ports()
            .filter(|other| other.channel == channel.index);
        publishers.for_each(|other| ring(control, other.member));
        let mut subscriber = Self {
            shared: Arc::clone(shared),
            channel,
            port,
            statistics: PortStatistics::default(),
            policy: options.policy,
            plan: WaitPlan::for_processes(),
            spinner: Spinner::default(),
            route: None,
            sleeps: 0,
            changes: None,
            epoch: None,
            way: Way::Queues {
                sources: Vec::new(),
                next: 0,
            },
        };
        if subscriber.channel.core.is_some() {
            // Only now: the port keeps the channel, and the channel the attachment.
            let receiver = CoreReceiver::attach(shared, &subscriber.channel, options.depth)?;
            subscriber.plan = WaitPlan::for_core();
            subscriber.way = Way::Core(Box::new(receiver));
        }
        Ok(subscriber)
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel.name
    }

    /// Takes the next sample, waiting for at most `timeout`. `None`: there was none.
    ///
    /// # Errors
    /// The core's errors; a damaged pool. What a lying peer sent is skipped and counted.
    pub fn take(&mut self, timeout: Duration) -> Result<Option<Sample>, NodeError> {
        let (shared, mut report) = (Arc::clone(&self.shared), WaitReport::default());
        let (control, gate) = (shared.pool().control(), shared.spin_gate());
        let plan = self.spinner.plan(self.plan, gate);
        let taken = wait_reporting(control, shared.index(), plan, timeout, &mut report, || {
            self.try_take()
        });
        self.sleeps += report.sleeps;
        self.spinner.learn(gate.limit(), plan, report.ending);
        taken
    }

    /// Takes the next sample if there is one.
    ///
    /// # Errors
    /// As [`Subscriber::take`].
    pub fn try_take(&mut self) -> Result<Option<Sample>, NodeError> {
        if self.is_stale() {
            self.refresh()?;
        }
        let violations = self.statistics.violations;
        let taken = match &mut self.way {
            Way::Core(core) => core.try_take(&mut self.statistics).map_err(Box::new),
            Way::Queues { .. } => self.take_from_queues(),
        };
        let control = self.shared.pool().control();
        if self.statistics.violations != violations {
            control.set_statistics(self.port, self.statistics);
        }
        self.shared.pool().check_whole()?;
        let taken = match taken {
            Ok(Some(taken)) => taken,
            Ok(None) => return Ok(None),
            Err(error) => return Err(*error),
        };
        self.statistics.messages += 1;
        self.statistics.payload_bytes += u64::from(taken.descriptor.length);
        control.set_traffic(self.port, &self.statistics);
        // Made where it is returned: a sample that is moved about costs more than the steps that took it.
        match self.shared.pool().map(taken.descriptor.place.region) {
            Ok(_) => Ok(Some(Sample::new(Reference::own(&self.shared, taken)))),
            Err(error) => self.give_back(taken, error),
        }
    }

    /// Takes what waits, at most `max` samples, behind those in `into`; returns how many.
    ///
    /// # Errors
    /// As [`Subscriber::take`]; what was taken before is in `into`.
    pub fn try_take_batch(
        &mut self,
        max: usize,
        into: &mut Vec<Sample>,
    ) -> Result<usize, NodeError> {
        for taken in 0..max {
            match self.try_take()? {
                Some(sample) => into.push(sample),
                None => return Ok(taken),
            }
        }
        Ok(max)
    }

    /// Publishers connected at this moment. One that left counts until all it had sent is taken. A core counts as one.
    ///
    /// # Errors
    /// A damaged pool.
    pub fn publishers(&mut self) -> Result<usize, NodeError> {
        let refreshed = self.refresh();
        self.shared.pool().unless_lost(refreshed)?;
        Ok(match &self.way {
            Way::Queues { sources, .. } => sources.len(),
            Way::Core(_) => 1,
        })
    }

    /// What this port has counted.
    #[must_use]
    pub const fn statistics(&self) -> PortStatistics {
        self.statistics
    }

    /// How many sleeps of [`Subscriber::take`] a bell ended: each cost a wake-up.
    #[must_use]
    pub const fn sleeps(&self) -> u64 {
        self.sleeps
    }

    /// What was taken is not what the channel carries.
    pub(crate) fn note_violation(&mut self) {
        self.statistics.violations += 1;
        let control = self.shared.pool().control();
        control.set_statistics(self.port, self.statistics);
    }

    /// From each publisher in turn. Nonsense is passed over, at most as much of it as one queue can hold: what waits behind it
    /// is found at once, and a liar that keeps writing does not keep us here.
    #[inline(always)]
    fn take_from_queues(&mut self) -> Result<Option<Taken>, Box<NodeError>> {
        let Way::Queues { sources, next } = &mut self.way else {
            return Ok(None);
        };
        let pool = self.shared.pool();
        let mut looks = sources.len();
        let mut nonsense = 0;
        while looks > 0 && !sources.is_empty() {
            let index = if *next < sources.len() { *next } else { 0 };
            let source = &mut sources[index];
            let taken = match source.is_something_waiting(pool.control()) {
                Ok(false) => Ok(None),
                Ok(true) => self.shared.act(|member| {
                    let expect = |region, at| expect_payload(pool, region, at);
                    member.take_announced(pool.control(), pool.regions(), source, expect)
                }),
                Err(_) => {
                    let liar = sources.swap_remove(index);
                    quarantine(&self.shared, &mut self.statistics, &liar)?;
                    looks -= 1;
                    continue;
                }
            };
            *next = index + 1;
            match taken {
                Ok(None) => looks -= 1,
                Ok(Some(taken)) => {
                    let (control, regions) = (pool.control(), pool.regions());
                    if let Some((region, at)) = expect_take(control, regions, source, TAKES_AHEAD) {
                        expect_payload(pool, region, at);
                    }
                    if matches!(self.policy, PortPolicy::Block { .. }) {
                        // It may be waiting for the place that has just become free.
                        ring(pool.control(), source.info.producer);
                    }
                    return Ok(Some(taken));
                }
                Err(PoolError::BadDescriptor { .. }) => {
                    self.statistics.violations += 1;
                    nonsense += 1;
                    if nonsense > source.info.places.capacity {
                        looks -= 1;
                    } else {
                        *next = index;
                    }
                }
                // Counters that fitted a moment ago, when we looked whether something waits: as bad a lie.
                Err(_) => {
                    let liar = sources.swap_remove(index);
                    quarantine(&self.shared, &mut self.statistics, &liar)?;
                    *next = index;
                    looks -= 1;
                }
            }
        }
        Ok(None)
    }

    /// What was taken lies in a region that cannot be mapped.
    #[cold]
    fn give_back(&self, taken: Taken, why: NodeError) -> Result<Option<Sample>, NodeError> {
        let control = self.shared.pool().control();
        self.shared
            .act(|member| member.release(control, taken.slot, 1))?;
        Err(why)
    }

    /// Has the channel, or a connection to this participant, changed since the last [`refresh`](Self::refresh)? Or has this
    /// process been forked, which it refuses?
    #[inline]
    fn is_stale(&self) -> bool {
        let control = self.shared.pool().control();
        let changes = hythe_pool::Member::changes(control, self.shared.index());
        self.changes != Some(changes)
            || self.epoch != Some(control.channel_epoch(self.channel.index))
            || self.shared.is_a_copy()
    }

    /// Finds new connections, and leaves those whose publisher left and whose queue is empty.
    #[cold]
    fn refresh(&mut self) -> Result<(), NodeError> {
        self.shared.check_original()?;
        let control = self.shared.pool().control();
        let epoch = control.channel_epoch(self.channel.index);
        let changes = hythe_pool::Member::changes(control, self.shared.index());
        let Way::Queues { sources, .. } = &mut self.way else {
            return Ok(());
        };
        if self.epoch != Some(epoch) {
            let now = control
                .channel(self.channel.index)
                .and_then(|info| info.core);
            if let Some(core) = now.filter(|core| core.direction == Direction::FromCore) {
                self.channel.core = Some(core);
                let depth = control.port(self.port).map_or(32, |port| port.depth);
                let receiver = CoreReceiver::later(&self.shared, &self.channel, depth);
                for source in std::mem::take(sources) {
                    leave(&self.shared, &source)?;
                }
                self.plan = WaitPlan::for_core();
                self.way = Way::Core(Box::new(receiver));
                return Ok(());
            }
            self.epoch = Some(epoch);
        }
        if self.changes != Some(changes) {
            let all_seen = update_sources(&self.shared, self.port, sources)?;
            // A publisher that left with messages still waiting is looked at again until they are taken.
            self.changes = all_seen.then_some(changes);
        }
        Ok(())
    }
}

impl Waitable for Subscriber {}

impl Parts for Subscriber {
    fn parts(&mut self) -> PortParts<'_> {
        PortParts {
            shared: &self.shared,
            port: self.port,
            channel: self.channel.index,
            channel_name: &self.channel.name,
            events: None,
            route: &mut self.route,
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            return;
        }
        let control = self.shared.pool().control();
        // Before its number can become another's.
        self.route = None;
        self.shared
            .act(|member| member.close_port(control, self.port));
        // A core is left here, too: before the channel, which may go.
        let nothing = Way::Queues {
            sources: Vec::new(),
            next: 0,
        };
        if let Way::Queues { mut sources, .. } = std::mem::replace(&mut self.way, nothing) {
            // A publisher that connected meanwhile sees the closed port, or we see its connection.
            hythe_memory::full_barrier();
            if let Err(error) = update_sources(&self.shared, self.port, &mut sources) {
                tracing::error!(%error, "could not look for publishers");
            }
            for source in sources {
                if let Err(error) = leave(&self.shared, &source) {
                    tracing::error!(%error, "could not leave a channel");
                }
            }
        }
        self.shared.act(|member| {
            member.free_port(control, self.port);
            member.retire_channel(control, self.channel.index);
        });
    }
}

/// Has the first line of a payload come.
#[inline(always)]
fn expect_payload(pool: &Pool, region: RegionIndex, at: usize) {
    if let Ok(memory) = pool.map(region) {
        memory.expect_load(at & !3);
    }
}

/// False: some publisher has left and its queue is not empty yet.
pub(crate) fn update_sources(
    shared: &Arc<Shared>,
    port: PortIndex,
    sources: &mut Vec<ConnectionEnd<Consumer>>,
) -> Result<bool, NodeError> {
    let control = shared.pool().control();
    let connections = control.connections();
    for info in
        connections.filter(|info| info.consumer == shared.index() && info.consumer_port == port)
    {
        let known = sources
            .iter()
            .any(|source| source.info.index == info.index && source.info.nonce == info.nonce);
        if !known && shared.act(|member| member.attend(control, &info)) {
            sources.push(control.consumer_end(info));
            // As where the other side connects: it may be on another CPU, and worth spinning for.
            shared.spin_gate().refresh(control, shared.index());
        }
    }
    let mut all_seen = true;
    let mut index = 0;
    while index < sources.len() {
        let source = &mut sources[index];
        let now = control
            .connection(source.info.index)
            .filter(|now| now.nonce == source.info.nonce);
        let left = now.is_none_or(|now| now.producer_left);
        // Looked at after the leaving: nothing comes behind it. What is gone has nothing of ours; its queue may be another's.
        let empty = source.waiting(control).unwrap_or(0) == 0;
        if now.is_none() || left && empty {
            leave(shared, &sources.swap_remove(index))?;
        } else {
            all_seen &= !left;
            index += 1;
        }
    }
    Ok(all_seen)
}

/// The counters of its queue cannot be: nothing from it is heard any more.
#[cold]
fn quarantine(
    shared: &Arc<Shared>,
    statistics: &mut PortStatistics,
    liar: &ConnectionEnd<Consumer>,
) -> Result<(), Box<NodeError>> {
    statistics.violations += 1;
    leave(shared, liar).map_err(Box::new)
}

pub(crate) fn leave(
    shared: &Arc<Shared>,
    source: &ConnectionEnd<Consumer>,
) -> Result<(), NodeError> {
    let pool = shared.pool();
    let info = source.info;
    shared.act(|member| -> Result<(), PoolError> {
        // What still waits here is released now: the publisher may not look for long.
        member.drain_own(pool.control(), pool.regions(), info)?;
        member.leave_connection(
            pool.control(),
            pool.regions(),
            info.index,
            info.nonce,
            Side::Consumer,
        )
    })?;
    ring(pool.control(), info.producer);
    Ok(())
}
