//! Publishing: sends a reference to each subscriber, in a process, on a core or behind the network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_pool::{ChannelType, PortIndex, PortKind, PortPolicy, PortStatistics};

use crate::NodeError;
use crate::buffer::{Lease, Reference, Sample};
use crate::delivery::{Published, boxed, deliver};
use crate::history::{self, History};
use crate::host_question::wait_for_answer;
use crate::leasing::{LeaseWait, SEND_TIMEOUT, lease_in, lease_or, lease_when_free};
use crate::participant::Participant;
use crate::port::{Opener, Port, PortPlan};
use crate::quota::Quota;
use crate::transport::{Message, StoredTarget, Target, TargetState, leads_to, take_superseded};
use crate::unconnected::UnconnectedSubscribers;

/// How often a channel may change while a publisher looks at it: beyond that, others keep it from
/// publishing.
const REFRESHES_MAX: u32 = 4;

/// Options of a publisher.
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
    /// Opening fails if the channel carries another type. Default: any type is accepted, and a new
    /// channel carries raw bytes.
    #[must_use]
    pub fn carries(mut self, carries: ChannelType) -> Self {
        self.carries = Some(carries);
        self
    }

    /// How long one message may wait for full queues, for all subscribers together; default
    /// 100 ms. It limits the time that subscribers with [`PortPolicy::Block`] ask for.
    /// [`Publisher::lease`] waits as long for a free slot. Raise it if you know all subscribers and
    /// none may miss a message. A core that is the only receiver is waited for by the times of its
    /// link instead ([`Publisher::publish`]).
    #[must_use]
    pub const fn send_timeout(mut self, send_timeout: Duration) -> Self {
        self.send_timeout = send_timeout;
        self
    }

    /// Keeps the last `samples` published; default: none. A later subscriber gets as many of them
    /// as it [asks for](crate::SubscriberOptions::history), before any new message. The most is
    /// [`HISTORY_MAX`](crate::HISTORY_MAX); opening fails with more. Each kept sample holds a slot.
    /// When the pool is full, a lease of this node takes back the oldest that is large enough.
    /// Cores get no history.
    ///
    /// **A publisher that makes no call sends no history**: only its own calls connect to new
    /// subscribers. These are [`Publisher::publish`], [`Publisher::publish_batch`],
    /// [`Publisher::forward`], [`Publisher::subscribers`] and
    /// [`Publisher::wait_for_subscribers`]. A program that publishes rarely calls `subscribers` now
    /// and then, or waits between messages in `wait_for_subscribers(usize::MAX, …)`.
    #[must_use]
    pub const fn history(mut self, samples: u32) -> Self {
        self.history = samples;
        self
    }
}

/// The publishing end of a channel.
#[derive(Debug)]
pub struct Publisher {
    port: Port,
    /// Left before the port closes.
    targets: Vec<StoredTarget>,
    statistics: PortStatistics,
    send_timeout: Duration,
    epoch: Option<u32>,
    history: History,
    unconnected: UnconnectedSubscribers,
    quota: Quota,
    /// Of targets that have closed: where else messages for them go, and how many are missing.
    missing: Vec<(Vec<PortIndex>, u32)>,
}

impl Publisher {
    pub(crate) fn open(
        opener: &Opener,
        name: &str,
        options: &PublisherOptions,
    ) -> Result<Self, NodeError> {
        history::check(options.history)?;
        let plan = PortPlan {
            kind: PortKind::Publisher,
            depth: 0,
            policy: PortPolicy::DropNewest,
            history: 0,
            request_bytes: None,
        };
        // Who may only read the slots cannot publish: said here, where it can be handled.
        let shared = &opener.shared;
        shared.pool().map_to_write(RegionIndex(0))?;
        let mut publisher = Self {
            port: Port::open(opener, name, options.carries.as_ref(), plan)?,
            targets: Vec::new(),
            statistics: PortStatistics::default(),
            send_timeout: options.send_timeout,
            epoch: None,
            history: History::new(shared, options.history),
            unconnected: UnconnectedSubscribers::default(),
            quota: Quota::default(),
            missing: Vec::new(),
        };
        wait_for_answer(&publisher.port.shared);
        publisher.connect(true)?;
        Ok(publisher)
    }

    /// The channel's name.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.port.name()
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
            receivers: self.targets.len(),
        };
        let shared = &self.port.shared;
        // A slot that is free there now: what waits, and what is refused, is of the usual region.
        if let Some(region) = self.preferred_region()
            && let Ok(lease) = lease_in(shared, region, bytes)
        {
            return Ok(lease);
        }
        lease_or(shared, self.region(), bytes, |geometry, refusal| {
            let leased = lease_when_free(shared, geometry, bytes, wait, refusal);
            if leased.as_ref().is_err_and(NodeError::is_pool_full) {
                self.targets.iter().for_each(|target| target.note_no_slot());
            }
            leased
        })
    }

    /// The region that every receiver of this channel can see.
    #[must_use]
    pub fn region(&self) -> RegionIndex {
        let mut regions = self.targets.iter().filter_map(StoredTarget::region);
        regions.next().unwrap_or(RegionIndex(0))
    }

    /// The region from which a message reaches some receiver best, if all can see it.
    #[inline]
    fn preferred_region(&self) -> Option<RegionIndex> {
        let mut preferred = self.targets.iter();
        let region = preferred.find_map(StoredTarget::preferred_region)?;
        let is_bound = |target: &StoredTarget| target.region().is_some();
        (!self.targets.iter().any(is_bound)).then_some(region)
    }

    /// Publishes the first `bytes` of a leased buffer.
    ///
    /// # Errors
    /// [`NodeError::Blocked`] if the queue of a subscriber with [`PortPolicy::Block`] stayed full;
    /// [`NodeError::ReceiverGone`] if that subscriber died or left meanwhile. In both cases the
    /// others have the message. [`NodeError::Exhausted`] if a queue could be made to none of the
    /// subscribers. The core's errors. After an error the buffer is released.
    ///
    /// A core that is the only receiver is waited for by the times of its link, whatever the
    /// [send timeout](PublisherOptions::send_timeout): 5 s until it answers a new session
    /// ([`NodeError::CoreSilent`]), 10 s for free capacity ([`NodeError::CoreFull`]). A program
    /// that must not wait so long joins with `hythe_rtcore::LinkTimeouts` of its own. Beside other
    /// receivers a core is waited for within the send timeout.
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
    pub fn forward(&mut self, mut sample: Sample) -> Result<Published, NodeError> {
        self.send(sample.as_reference())
    }

    /// Publishes a copy of a received sample, or of a part of one, with its headroom, in a buffer
    /// that every receiver of this channel can see: from one core to another for instance, whose
    /// region holds no buffer of the first. It always copies, and
    /// [counts](PortStatistics::copies) the copies. The sample may be another node's. A leased
    /// buffer that the receivers cannot see becomes a sample by [`Lease::freeze`].
    ///
    /// # Errors
    /// As [`Publisher::lease`] and [`Publisher::publish`].
    pub fn forward_copy(&mut self, sample: &Sample) -> Result<Published, NodeError> {
        if self.is_stale() {
            // A core that has come since has a region of its own.
            let refreshed = self.refresh();
            self.shared().pool().unless_lost(refreshed)?;
        }
        let bytes = sample.len();
        let mut lease = self.lease(bytes)?;
        lease.copy_from(sample);
        sample.check_whole()?;
        self.statistics.copies += 1;
        self.statistics.copied_bytes += bytes as u64;
        let published = self.publish(lease, bytes);
        let control = self.shared().pool().control();
        control
            .tables()
            .set_statistics(self.port.index, self.statistics);
        published
    }

    /// Publishes several buffers in this order, each with its number of payload bytes. It costs
    /// less than one by one, because subscribers are examined and woken once. Returns the sums over
    /// all messages of how many subscribers got, or missed, one.
    ///
    /// # Errors
    /// As [`Publisher::publish`]. The buffers before the one that failed have been published; that
    /// one and the rest are released.
    ///
    /// # Panics
    /// As [`Publisher::publish`].
    pub fn publish_batch(
        &mut self,
        batch: impl IntoIterator<Item = (Lease, usize)>,
    ) -> Result<Published, NodeError> {
        let mut sum = Published::default();
        let mut outcome = Ok(());
        let guarded = AnnounceOnPanic(self);
        for (mut lease, bytes) in batch {
            match guarded.0.push(lease.as_payload(bytes)) {
                Ok(published) => {
                    sum.delivered += published.delivered;
                    sum.dropped += published.dropped;
                    sum.evicted += published.evicted;
                    guarded.0.statistics.messages += 1;
                    guarded.0.statistics.payload_bytes += bytes as u64;
                }
                Err(error) => {
                    outcome = Err(*error);
                    break;
                }
            }
        }
        drop(guarded);
        let finished = self.finish();
        self.shared().pool().check_whole()?;
        finished.map_err(|error| *error)?;
        let control = self.shared().pool().control();
        control
            .tables()
            .set_traffic(self.port.index, &self.statistics);
        outcome.map(|()| sum)
    }

    /// Connects to new subscribers, sends them the [history](PublisherOptions::history), and
    /// returns how many subscribers are connected. A core counts as one.
    ///
    /// # Errors
    /// As [`Publisher::reaches_all`], if a queue could be made to none of the subscribers.
    pub fn subscribers(&mut self) -> Result<usize, NodeError> {
        let refreshed = self.refresh();
        self.shared().pool().unless_lost(refreshed)?;
        match self.targets.len() {
            0 => self.unconnected.first(self.shared().pool()).map(|()| 0),
            count => Ok(count),
        }
    }

    /// Is there a queue to every subscriber? For a subscriber without one, messages count as
    /// dropped.
    ///
    /// # Errors
    /// Why there is none to one of them: [`NodeError::Exhausted`],
    /// [`hythe_pool::PoolError::QueueTooDeep`].
    pub fn reaches_all(&mut self) -> Result<(), NodeError> {
        let refreshed = self.refresh();
        self.shared().pool().unless_lost(refreshed)?;
        self.unconnected.first(self.shared().pool())
    }

    /// Waits until there are at least `count` subscribers, and connects to each as
    /// [`Publisher::subscribers`] does. False: `timeout` has passed. A signal does not end the
    /// wait, [`Node::interrupt`](crate::Node::interrupt) does.
    ///
    /// # Errors
    /// As [`Publisher::subscribers`]; [`NodeError::Interrupted`].
    pub fn wait_for_subscribers(
        &mut self,
        count: usize,
        timeout: Duration,
    ) -> Result<bool, NodeError> {
        let shared = Arc::clone(self.shared());
        let plan = self.port.wait.at_most(Duration::from_millis(5));
        let enough = shared.wait_interruptibly(plan, timeout, || {
            Ok((self.subscribers()? >= count).then_some(()))
        })?;
        Ok(enough.is_some())
    }

    /// Waits until a core has returned all buffers that were sent to it. Returns at once for other
    /// receivers.
    ///
    /// # Errors
    /// [`NodeError::CoreSilent`] if it does not within the time.
    pub fn flush(&mut self, timeout: Duration) -> Result<(), NodeError> {
        self.shared().check_original()?;
        let start = Instant::now();
        for target in &mut self.targets {
            target.flush(timeout.saturating_sub(start.elapsed()))?;
        }
        Ok(())
    }

    /// Tells the subscribers that are connected that so many messages are missing before the next.
    pub(crate) fn note_missed(&mut self, messages: u32) -> Result<(), NodeError> {
        self.shared().check_original()?;
        for target in &mut self.targets {
            target.note_missed(messages);
        }
        let finished = self.finish().map_err(|error| *error);
        self.shared().pool().unless_lost(finished)
    }

    /// For how long would subscribers hold this message up at most?
    pub(crate) fn held_up(
        &mut self,
        lease: &mut Lease,
        bytes: usize,
    ) -> Result<Option<Duration>, NodeError> {
        if self.is_stale() {
            let refreshed = self.refresh();
            self.shared().pool().unless_lost(refreshed)?;
        }
        let reference = lease.as_payload(bytes);
        let (shared, channel) = (&self.port.shared, self.port.name());
        let parcel = self.quota.parcel(shared, reference)?;
        let message = Message::new(shared, channel, reference, (&self.quota, parcel));
        let targets = self.targets.iter_mut();
        Ok(targets.filter_map(|target| target.holds_up(&message)).max())
    }

    /// As [`publish`](Self::publish), and waits for nobody.
    pub(crate) fn publish_at_once(
        &mut self,
        lease: Lease,
        bytes: usize,
    ) -> Result<Published, NodeError> {
        let send_timeout = std::mem::take(&mut self.send_timeout);
        let published = self.publish(lease, bytes);
        self.send_timeout = send_timeout;
        published
    }

    /// Keeps as many samples as this from now on, if that is more than before.
    pub(crate) fn extend_history(&mut self, samples: u32) -> Result<(), NodeError> {
        history::check(samples)?;
        self.shared().check_original()?;
        self.history.extend(&self.port.shared, samples);
        Ok(())
    }

    /// The counters of this port.
    #[must_use]
    pub const fn statistics(&self) -> PortStatistics {
        self.statistics
    }

    #[inline]
    fn shared(&self) -> &Arc<Participant> {
        &self.port.shared
    }

    #[inline]
    fn send(&mut self, reference: &mut Reference) -> Result<Published, NodeError> {
        let bytes = u64::from(reference.descriptor().length);
        let sent = self.push(reference);
        let finished = self.finish();
        self.shared().pool().check_whole()?;
        if let Err(error) = finished {
            return Err(*error);
        }
        let published = match sent {
            Ok(published) => published,
            Err(error) => return Err(*error),
        };
        self.statistics.messages += 1;
        self.statistics.payload_bytes += bytes;
        self.shared()
            .pool()
            .control()
            .tables()
            .set_traffic(self.port.index, &self.statistics);
        Ok(published)
    }

    /// Puts a message into the queues, and wakes nobody yet: [`finish`](Self::finish) follows. Its
    /// error is boxed, as in `SendError`.
    #[inline(always)]
    fn push(&mut self, reference: &mut Reference) -> Result<Published, Box<NodeError>> {
        assert!(
            reference.is_of(self.shared()),
            "a buffer is published by the node that leased or took it"
        );
        if self.is_stale() {
            self.refresh_to_send().map_err(boxed)?;
        }
        let is_special = self.history.keeps() || self.unconnected.count() > 0;
        if is_special {
            self.history
                .copy(&self.port.shared, reference)
                .map_err(boxed)?;
        }
        let mut published = self.pass_on(reference);
        if is_special {
            published = self.settle(published);
        }
        let dropped = published
            .as_ref()
            .map_or(1, |published| published.dropped + published.evicted);
        if dropped > 0 {
            self.count_dropped(dropped);
        }
        published
    }

    #[inline(always)]
    fn pass_on(&mut self, reference: &mut Reference) -> Result<Published, Box<NodeError>> {
        let (shared, channel) = (&self.port.shared, self.port.name());
        let parcel = self.quota.parcel(shared, reference).map_err(boxed)?;
        let mut message = Message::new(shared, channel, reference, (&self.quota, parcel));
        message.send_timeout = self.send_timeout;
        message.plan = self.port.wait;
        deliver(&mut self.targets, &mut message, reference)
    }

    /// Adds a published message to the history, and counts the subscribers without a queue.
    #[cold]
    fn settle(
        &mut self,
        published: Result<Published, Box<NodeError>>,
    ) -> Result<Published, Box<NodeError>> {
        let published = if self.unconnected.count() > 0 {
            let Self {
                port, unconnected, ..
            } = self;
            unconnected.passed_by(port.shared.pool(), published)
        } else {
            published
        };
        self.history.keep(published.is_ok());
        published
    }

    #[cold]
    fn count_dropped(&mut self, dropped: u32) {
        self.statistics.dropped += u64::from(dropped);
        let control = self.shared().pool().control();
        control
            .tables()
            .set_statistics(self.port.index, self.statistics);
    }

    /// Wakes sleeping receivers and disconnects closed ones: once after a message, or after a
    /// batch.
    #[inline(always)]
    fn finish(&mut self) -> Result<(), Box<NodeError>> {
        if self.shared().is_a_copy() {
            // `push` has refused.
            return Ok(());
        }
        // For all bells at once; and it pairs with the one behind the closing of a subscriber's
        // port: the emptying of the queue that comes then finds what was sent, or we find the port
        // closed.
        hythe_memory::full_barrier();
        let mut all_open = true;
        for target in &mut self.targets {
            all_open &= target.wake() == TargetState::Open;
        }
        if !all_open {
            self.disconnect_closed().map_err(boxed)?;
        }
        Ok(())
    }

    /// Disconnects subscribers that left or died. A message that was sent to one meanwhile is
    /// released by the side that leaves the connection last, so leave now and not with the next
    /// message. Goes on after damage; returns the first that was found.
    #[cold]
    fn disconnect_closed(&mut self) -> Result<(), NodeError> {
        let (mut broken, mut outcome) = (0, Ok(()));
        let closed = |target: &mut StoredTarget| match target.state() {
            TargetState::Open => false,
            TargetState::Closed => true,
            TargetState::Broken => {
                broken += 1;
                true
            }
        };
        let mut lost = 0;
        for mut target in self.targets.extract_if(.., closed) {
            let replaced = target.replaces();
            if !replaced.is_empty() {
                let unconfirmed = target.take_unconfirmed();
                lost += unconfirmed.sent;
                let missing = unconfirmed.sent.saturating_add(unconfirmed.dropped);
                self.missing.push((replaced, missing));
                // The next message finds the port again.
                self.epoch = None;
            }
            outcome = outcome.and(target.disconnect());
        }
        if broken > 0 || lost > 0 {
            self.statistics.violations += broken;
            self.statistics.dropped += u64::from(lost);
            let control = self.shared().pool().control();
            control
                .tables()
                .set_statistics(self.port.index, self.statistics);
        }
        outcome
    }

    /// Leaves ports of hosts that have a stronger one, which it is connected to by now: whoever
    /// takes from both finds it in the new one before it is missing in the old.
    fn disconnect_superseded(&mut self) -> Result<(), NodeError> {
        let control = self.port.shared.pool().control();
        let superseded = take_superseded(control, &mut self.targets);
        let left = superseded.into_iter().map(StoredTarget::disconnect);
        left.fold(Ok(()), Result::and)
    }

    /// Tells those that are sent to in the place of others what did not reach these.
    fn tell_missing(&mut self) {
        for (ports, messages) in std::mem::take(&mut self.missing) {
            let mut successors = self.targets.iter_mut();
            let successor =
                successors.find(|target| ports.iter().any(|&port| leads_to(target, port)));
            if let Some(target) = successor.filter(|_| messages > 0) {
                target.note_missed(messages);
            }
        }
    }

    /// Has the channel changed since the last [`refresh`](Self::refresh)? Or has this process been
    /// forked, which it refuses? Or is it time to try again to connect the unconnected subscribers?
    #[inline]
    fn is_stale(&self) -> bool {
        self.epoch != Some(self.port.epoch())
            || self.shared().is_a_copy()
            || self.unconnected.is_due()
    }

    /// As [`refresh`](Self::refresh), for a message that is to reach whoever is sent to in the
    /// place of those that close now.
    #[cold]
    fn refresh_to_send(&mut self) -> Result<(), NodeError> {
        self.shared().check_original()?;
        for target in &mut self.targets {
            target.await_close(self.send_timeout);
        }
        self.refresh()
    }

    /// Connects to new subscribers, and leaves those that left.
    #[cold]
    fn refresh(&mut self) -> Result<(), NodeError> {
        self.shared().check_original()?;
        // Whoever opens a stronger port, and then finds nobody at the one before, closes that: what
        // is connected to must be the strongest behind the connecting, too.
        for _ in 0..REFRESHES_MAX {
            let epoch = self.port.epoch();
            if self.epoch == Some(epoch) && !self.unconnected.is_due() {
                break;
            }
            // Done again from the start if it fails.
            self.epoch = None;
            self.unconnected.begin();
            self.disconnect_closed()?;
            self.connect(false)?;
            self.disconnect_superseded()?;
            self.tell_missing();
            self.epoch = Some(epoch);
            hythe_memory::full_barrier();
        }
        Ok(())
    }

    /// Connects to subscribers that there is no connection to yet.
    fn connect(&mut self, is_opening: bool) -> Result<(), NodeError> {
        let known = self.targets.iter().map(|target| &**target).collect();
        let kind = PortKind::Subscriber;
        let found = self
            .port
            .find_targets(kind, Some(&self.history), known, is_opening);
        let mut targets = found.targets;
        for target in &mut targets {
            if let StoredTarget::Queue(queue) = target {
                let missed = self.unconnected.take_missed(&queue.receiver);
                queue.note_missed(missed);
            }
        }
        self.targets.extend(targets);
        for (subscriber, error) in found.failed {
            self.unconnected.note(subscriber, error)?;
        }
        self.quota = Quota::for_receivers(self.shared().pool(), self.targets.len());
        // Now, and not with the first lease, which says again what is wrong.
        let mapped = self.shared().pool().map(self.region()).map(drop);
        if is_opening {
            mapped?;
        }
        found.outcome
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if self.shared().is_a_copy() {
            self.history.forget();
            return;
        }
        let targets = std::mem::take(&mut self.targets);
        let left = targets.into_iter().map(|target| target.disconnect());
        if let Err(error) = left.fold(Ok(()), Result::and) {
            tracing::error!(%error, "could not leave a channel");
        }
    }
}

/// A batch that is being published. If its iterator panics, dropping this still wakes the receivers
/// of what was published before: nothing else wakes them.
struct AnnounceOnPanic<'a>(&'a mut Publisher);

impl Drop for AnnounceOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What it finds is found again by the next message.
            let _ = self.0.finish();
        }
    }
}
