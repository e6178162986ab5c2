//! Subscribing: references are taken from each publisher's queue in turn, or from a core's link.

use std::sync::Arc;
use std::time::Duration;

use hythe_abi::link::Direction;
use hythe_pool::{
    ChannelInfo, ChannelType, ConnectionEnd, PoolError, PortIndex, PortKind, PortPolicy,
    PortStatistics, Side, Taken,
};
use hythe_queue::Consumer;

use crate::NodeError;
use crate::buffer::{Reference, Sample};
use crate::core_way::CoreReceiver;
use crate::node::{PortPlan, Shared};
use crate::wait::{WaitPlan, ring, wait_counting};

/// How to subscribe.
#[derive(Clone, Debug)]
pub struct SubscriberOptions {
    carries: Option<ChannelType>,
    depth: u32,
    policy: PortPolicy,
}

impl Default for SubscriberOptions {
    fn default() -> Self {
        Self {
            carries: None,
            depth: 32,
            policy: PortPolicy::DropNewest,
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

    /// Messages that may wait, per publisher (rounded up to a power of two); default 32.
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
        let (shared, plan) = (Arc::clone(&self.shared), self.plan);
        let (control, mut sleeps) = (shared.pool().control(), 0);
        let taken = wait_counting(control, shared.index(), plan, timeout, &mut sleeps, || {
            self.try_take()
        });
        self.sleeps += sleeps;
        taken
    }

    /// Takes the next sample if there is one.
    ///
    /// # Errors
    /// As [`Subscriber::take`].
    pub fn try_take(&mut self) -> Result<Option<Sample>, NodeError> {
        self.refresh()?;
        let before = self.statistics;
        let taken = match &mut self.way {
            Way::Core(core) => core.try_take(&mut self.statistics),
            Way::Queues { .. } => self.take_from_queues(),
        };
        if let Ok(Some(sample)) = &taken {
            self.statistics.messages += 1;
            self.statistics.payload_bytes += sample.len() as u64;
        }
        if self.statistics != before {
            let control = self.shared.pool().control();
            control.set_statistics(self.port, self.statistics);
        }
        taken
    }

    /// Publishers connected at this moment. One that left counts until all it had sent is taken. A core counts as one.
    ///
    /// # Errors
    /// A damaged pool.
    pub fn publishers(&mut self) -> Result<usize, NodeError> {
        self.refresh()?;
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

    /// From each publisher in turn. Nonsense is passed over, at most as much of it as one queue can hold: what waits behind it
    /// is found at once, and a liar that keeps writing does not keep us here.
    fn take_from_queues(&mut self) -> Result<Option<Sample>, NodeError> {
        let Way::Queues { sources, next } = &mut self.way else {
            return Ok(None);
        };
        let pool = self.shared.pool();
        let mut looks = sources.len();
        let mut nonsense = 0;
        while looks > 0 && !sources.is_empty() {
            let index = *next % sources.len();
            let source = &mut sources[index];
            let taken = match source.queue.waiting(pool.control().memory()) {
                Ok(0) => Ok(None),
                Ok(_) => self
                    .shared
                    .act(|member| member.take(pool.control(), pool.regions(), source)),
                Err(_) => {
                    self.statistics.violations += 1;
                    leave(&self.shared, &sources.swap_remove(index))?;
                    looks -= 1;
                    continue;
                }
            };
            *next = index + 1;
            match taken {
                Ok(None) => looks -= 1,
                Ok(Some(taken)) => {
                    if self.policy != PortPolicy::DropNewest {
                        // It may be waiting for the place that has just become free.
                        ring(pool.control(), source.info.producer);
                    }
                    return sample_of(&self.shared, taken).map(Some);
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
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Finds new connections, and leaves those whose publisher left and whose queue is empty.
    fn refresh(&mut self) -> Result<(), NodeError> {
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

impl Drop for Subscriber {
    fn drop(&mut self) {
        if self.shared.is_a_copy() {
            return;
        }
        let control = self.shared.pool().control();
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

/// False: some publisher has left and its queue is not empty yet.
fn update_sources(
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
        if !known && !info.consumer_left {
            sources.push(control.consumer_end(info));
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
        let empty = source.queue.waiting(control.memory()).unwrap_or(0) == 0;
        if now.is_none() || left && empty {
            leave(shared, &sources.swap_remove(index))?;
        } else {
            all_seen &= !left;
            index += 1;
        }
    }
    Ok(all_seen)
}

fn leave(shared: &Arc<Shared>, source: &ConnectionEnd<Consumer>) -> Result<(), NodeError> {
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

/// Wraps what was taken; releases it if its region cannot be mapped.
pub(crate) fn sample_of(shared: &Arc<Shared>, taken: Taken) -> Result<Sample, NodeError> {
    let pool = shared.pool();
    let region = taken.descriptor.place.region;
    let geometry = pool.map(region).and_then(|_| {
        let unknown = || PoolError::NotAPool(format!("it has no region {}", region.0));
        Ok(pool.regions().region(region).ok_or_else(unknown)?)
    });
    match geometry {
        Ok(geometry) => Ok(Sample::new(Reference::own(
            shared,
            geometry,
            taken.descriptor,
        ))),
        Err(error) => {
            shared.act(|member| member.release(pool.control(), taken.slot, 1))?;
            Err(error)
        }
    }
}
