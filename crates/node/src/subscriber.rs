//! Subscribing: takes references from the sources of a channel in turn, one source per publisher.

use std::sync::Arc;
use std::time::Duration;

use hythe_pool::{ChannelType, PortInfo, PortKind, PortPolicy, PortStatistics, Taken};

use crate::NodeError;
use crate::buffer::{Reference, Sample};
use crate::history;
use crate::port::{Opener, Port, PortPlan};
use crate::sources::Sources;
use crate::spinner::Spinner;
use crate::transport::{Origin, SenderHost, Source};
use crate::wait::{Awaited, WaitReport, wait_reporting};
use crate::wait_set::Waitable;
use crate::wait_set::sealed::{Parts, PortParts};

/// Options of a subscriber.
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
/// // Subscribes after the message was published: gets the last position, and only the newest.
/// let newest = SubscriberOptions::default().depth(2).policy(PortPolicy::EvictOldest).history(1);
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
    /// Opening fails if the channel carries another type. Default: any type is accepted, and a new
    /// channel carries raw bytes.
    #[must_use]
    pub fn carries(mut self, carries: ChannelType) -> Self {
        self.carries = Some(carries);
        self
    }

    /// Messages that may wait in the queue of each publisher; default 32. Rounded up to a power of
    /// two, at least 2. Memory for queues of up to 32 is reserved. Deeper queues share memory, of
    /// which one node's subscribers get at most half ([`hythe_pool::PoolError::QueueTooDeep`]).
    #[must_use]
    pub const fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// What happens to a message when the queue is full; default: it is dropped.
    #[must_use]
    pub const fn policy(mut self, policy: PortPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Earlier messages to get from each publisher first, as many as it
    /// [keeps](crate::PublisherOptions::history) and the depth allows; default: none. The most is
    /// [`HISTORY_MAX`](crate::HISTORY_MAX); opening fails with more. A publisher sends them at its
    /// next call that looks for subscribers.
    #[must_use]
    pub const fn history(mut self, messages: u32) -> Self {
        self.history = messages;
        self
    }
}

/// The receiving end of a channel.
#[derive(Debug)]
pub struct Subscriber {
    port: Port,
    /// Left before the port's number is free.
    sources: Sources,
    statistics: PortStatistics,
    spinner: Spinner,
    sleeps: u64,
    changes: Option<u32>,
    epoch: Option<u32>,
}

impl Subscriber {
    pub(crate) fn open(
        opener: &Opener,
        name: &str,
        options: &SubscriberOptions,
    ) -> Result<Self, NodeError> {
        history::check(options.history)?;
        let plan = PortPlan {
            kind: PortKind::Subscriber,
            depth: options.depth,
            policy: options.policy,
            history: options.history,
            request_bytes: None,
        };
        let mut subscriber = Self {
            port: Port::open(opener, name, options.carries.as_ref(), plan)?,
            sources: Sources::default(),
            statistics: PortStatistics::default(),
            spinner: Spinner::default(),
            sleeps: 0,
            changes: None,
            epoch: None,
        };
        subscriber.port.ring_others();
        let Self { port, sources, .. } = &mut subscriber;
        sources.update(port, true)?;
        Ok(subscriber)
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.port.name()
    }

    /// Takes the next sample, waiting for at most `timeout`. `None`: none came in that time. A
    /// signal does not end the wait, [`Node::interrupt`](crate::Node::interrupt) does.
    ///
    /// # Errors
    /// [`NodeError::Interrupted`]; the core's errors; a damaged pool. Invalid descriptors
    /// of a faulty peer are skipped and counted.
    pub fn take(&mut self, timeout: Duration) -> Result<Option<Sample>, NodeError> {
        let (shared, mut report) = (Arc::clone(&self.port.shared), WaitReport::default());
        let gate = shared.spin_gate();
        let limit = match self.sources.some_is_elsewhere() {
            true => gate.limit_for_other_machines(),
            false => gate.limit(),
        };
        let plan = self.spinner.plan_within(self.port.wait, limit);
        let taken = wait_reporting(
            shared.interruptible_place(),
            plan,
            timeout,
            &mut report,
            self,
        );
        self.sleeps += report.sleeps;
        self.spinner.learn(limit, plan, report.ending);
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
        let PortStatistics {
            violations,
            dropped,
            ..
        } = self.statistics;
        let taken = self.sources.take(&mut self.statistics);
        let Port { shared, index, .. } = &self.port;
        let control = shared.pool().control();
        if self.statistics.violations != violations || self.statistics.dropped != dropped {
            control.tables().set_statistics(*index, self.statistics);
        }
        shared.pool().check_whole()?;
        let taken = match taken {
            Ok(Some((_, taken))) => taken,
            Ok(None) => return Ok(None),
            Err(error) => return Err(*error),
        };
        self.statistics.messages += 1;
        self.statistics.payload_bytes += u64::from(taken.descriptor.length);
        control.tables().set_traffic(*index, &self.statistics);
        // Made where it is returned: a sample that is moved about costs more than the steps that
        // took it.
        match shared.pool().map(taken.descriptor.place.region) {
            Ok(_) => Ok(Some(Sample::taken(
                Reference::own(shared, taken),
                taken.missed,
            ))),
            Err(error) => self.give_back(taken, error),
        }
    }

    /// As [`Subscriber::try_take`], and says which publisher it came from.
    pub(crate) fn try_take_with_origin(&mut self) -> Result<Option<(Sample, Origin)>, NodeError> {
        let taken = self.try_take()?;
        Ok(taken.zip(self.sources.last_origin()))
    }

    /// On which host the publisher is of the sample that was taken last.
    pub(crate) fn last_host(&self) -> SenderHost {
        self.sources.last_host()
    }

    /// Takes at most `max` waiting samples, appends them to `into` and returns their number.
    ///
    /// # Errors
    /// As [`Subscriber::take`]; the samples taken before the error are in `into`.
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

    /// How many publishers the channel has, as far as this port can receive from them: those that
    /// are [connected](Self::connected_publishers), and those that have opened and will connect
    /// with their next call. One that left counts until all that it sent is taken. A core counts as
    /// one.
    ///
    /// # Errors
    /// A damaged pool.
    pub fn publishers(&mut self) -> Result<usize, NodeError> {
        let connected = self.connected_publishers()?;
        let tables = self.port.shared.pool().control().tables();
        let ports = tables.ports_of_channel(self.port.channel.index);
        let unconnected = ports.filter(|port| self.will_connect(port));
        Ok(connected + unconnected.count())
    }

    /// How many publishers are connected: there is a queue from each. A publisher connects when it
    /// publishes or looks for subscribers, not when it opens. One that left counts until all that
    /// it sent is taken. A core counts as one.
    ///
    /// # Errors
    /// A damaged pool.
    pub fn connected_publishers(&mut self) -> Result<usize, NodeError> {
        let refreshed = self.refresh();
        self.port.shared.pool().unless_lost(refreshed)?;
        Ok(self.sources.count())
    }

    /// The counters of this port.
    #[must_use]
    pub const fn statistics(&self) -> PortStatistics {
        self.statistics
    }

    /// How many sleeps of [`Subscriber::take`] a bell ended: each cost a wake-up.
    #[must_use]
    pub const fn sleeps(&self) -> u64 {
        self.sleeps
    }

    /// Closes the port to publishers if there are none, and nothing of those before waits: true.
    /// One that connects meanwhile finds it closed, or keeps it open.
    pub(crate) fn close_if_unused(&mut self) -> Result<bool, NodeError> {
        self.port.refuse_connections();
        let publishers = self.connected_publishers();
        match publishers {
            Ok(0) => self.port.begin_closing(),
            _ => self.port.admit_connections(),
        }
        Ok(publishers? == 0)
    }

    /// Closes the port, and releases what waits: how many messages. A publisher that sends
    /// meanwhile finds the port closed, or its message is among them.
    pub(crate) fn close(&mut self) -> Result<u64, NodeError> {
        self.port.begin_closing();
        let mut released = 0;
        while self.try_take()?.is_some() {
            released += 1;
        }
        Ok(released)
    }

    /// Who sends to it, as far as it has been looked at.
    pub(crate) fn origins(&self) -> impl Iterator<Item = Origin> {
        self.sources.iter().map(Source::origin)
    }

    /// What was taken is not what the channel carries.
    pub(crate) fn note_violation(&mut self) {
        self.statistics.violations += 1;
        let control = self.port.shared.pool().control();
        control
            .tables()
            .set_statistics(self.port.index, self.statistics);
    }

    /// Is it a publisher that has not connected yet? What a host sends may come by a flow, which
    /// has no port. A port for another host cannot know: hosts do not forward to each other, and
    /// one port of a host gives way to another.
    fn will_connect(&self, port: &PortInfo) -> bool {
        let is_known = |origin: Origin| {
            origin.member == port.member && origin.port.is_none_or(|known| known == port.index)
        };
        port.kind == PortKind::Publisher
            && !self.port.shared.is_host()
            && !self.origins().any(is_known)
    }

    /// What was taken lies in a region that cannot be mapped.
    #[cold]
    fn give_back(&self, taken: Taken, why: NodeError) -> Result<Option<Sample>, NodeError> {
        let shared = &self.port.shared;
        let control = shared.pool().control();
        shared.act(|member| member.release(control, taken.slot, 1))?;
        Err(why)
    }

    /// Has the channel, or a connection to this participant, changed since the last
    /// [`refresh`](Self::refresh)? Or has this process been forked, which it refuses?
    #[inline]
    fn is_stale(&self) -> bool {
        self.changes != Some(self.port.changes())
            || self.epoch != Some(self.port.epoch())
            || self.port.shared.is_a_copy()
    }

    /// Finds new sources, and leaves those that have ended.
    #[cold]
    fn refresh(&mut self) -> Result<(), NodeError> {
        self.port.shared.check_original()?;
        let (changes, epoch) = (self.port.changes(), self.port.epoch());
        let all_seen = self.sources.update(&self.port, false)?;
        // A publisher that left with messages still waiting is looked at again until they are
        // taken.
        self.changes = all_seen.then_some(changes);
        self.epoch = Some(epoch);
        Ok(())
    }
}

impl Awaited for Subscriber {
    type Found = Sample;

    fn look(&mut self) -> Result<Option<Sample>, NodeError> {
        self.try_take()
    }

    fn nap(&self) -> Duration {
        self.sources.nap()
    }
}

impl Waitable for Subscriber {}

impl Parts for Subscriber {
    fn parts(&mut self) -> PortParts<'_> {
        PortParts {
            port: &mut self.port,
            events: None,
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if self.port.shared.is_a_copy() {
            return;
        }
        self.port.begin_closing();
        // A publisher that connected meanwhile sees the closed port, or we see its connection.
        let updated = self.sources.update(&self.port, false).map(drop);
        if let Err(error) = updated.and(self.sources.disconnect_all()) {
            tracing::error!(%error, "could not leave a channel");
        }
    }
}
