//! One message on its way into the queues of a publisher's subscribers.
//!
//! Called by [`crate::Publisher`] for each message: there is room for it nearly always, and whatever else is to do is kept out of
//! that path. Never wakes anybody for a message that went straight in: the publisher does, behind one message or many.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::Descriptor;
use hythe_pool::{
    ChannelInfo, ConnectionEnd, ConnectionInfo, MemberIndex, MemberInfo, PoolError, PortInfo,
    PortPolicy, SendError,
};
use hythe_queue::Producer;

use crate::buffer::Reference;
use crate::displacing::Evicted;
use crate::node::Shared;
use crate::publisher::{Published, is_gone};
use crate::quota::{Outstanding, Parcel, Quota};
use crate::wait::{WaitPlan, announce_behind_barrier, wait_for};
use crate::{Liveness, NodeError, displacing};

/// A release rings nobody's bell: whoever waits for one looks again after this long.
const RELEASE_LOOK: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) end: ConnectionEnd<Producer>,
    pub(crate) subscriber: PortInfo,
    /// Its counter is impossible: it is left behind the message that found that out.
    pub(crate) lies: bool,
    pub(crate) outstanding: Outstanding,
    /// How much it had taken when it was last waited for in vain: it is not waited for again until
    /// it has taken more. One that is stopped costs one wait, not one for each message.
    stalled_at: Option<u32>,
}

impl Target {
    pub(crate) fn new(
        end: ConnectionEnd<Producer>,
        subscriber: PortInfo,
        outstanding: Outstanding,
    ) -> Self {
        Self {
            end,
            subscriber,
            lies: false,
            outstanding,
            stalled_at: None,
        }
    }

    /// Sends, if the queue has room.
    #[inline(always)]
    fn attempt(&mut self, shared: &Shared, parcel: &Parcel, descriptor: Descriptor) -> Attempt {
        let (control, end) = (shared.pool().control(), &mut self.end);
        let (slot, position) = (parcel.slot(), end.queue.tail());
        let sent = shared.act(|member| member.send(control, end, slot, descriptor));
        if sent.is_ok() {
            self.outstanding.note(parcel, position);
        }
        self.judge(shared, sent)
    }

    #[inline(always)]
    fn judge(&mut self, shared: &Shared, sent: Result<(), SendError>) -> Attempt {
        match sent {
            Ok(()) => Attempt::Sent,
            Err(SendError::Full) => Attempt::Full,
            Err(SendError::Pool(_)) if shared.pool().control().room(&mut self.end).is_err() => {
                self.lies = true;
                Attempt::PassedBy
            }
            Err(SendError::Pool(error)) => Attempt::Failed(error),
        }
    }

    const fn blocks(&self) -> bool {
        matches!(self.subscriber.policy, PortPolicy::Block { .. })
    }
}

impl Attempt {
    /// Did the subscriber get it? `None`: not yet.
    fn outcome(self) -> Result<Option<bool>, NodeError> {
        match self {
            Self::Sent => Ok(Some(true)),
            Self::Full => Ok(None),
            Self::PassedBy => Ok(Some(false)),
            Self::Failed(error) => Err(NodeError::Pool(*error)),
        }
    }
}

/// What came of sending to one subscriber.
enum Attempt {
    Sent,
    /// There is no room at the moment.
    Full,
    /// It does not get the message: it lies, or is gone, or wants to be passed by when its queue is full.
    PassedBy,
    /// Boxed: as in `SendError`.
    Failed(Box<PoolError>),
}

/// One message on its way.
pub(crate) struct Sending<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) channel: &'a ChannelInfo,
    pub(crate) plan: WaitPlan,
    /// How long it may still wait for room.
    pub(crate) send_timeout: Duration,
    pub(crate) quota: &'a Quota,
    pub(crate) parcel: &'a Parcel,
    /// Older messages that it has displaced.
    pub(crate) displaced: u32,
}

/// Tells every receiver that there may be something for it.
fn announce_all(shared: &Shared, targets: &[Target]) {
    let control = shared.pool().control();
    // One for all of them, as in `Publisher::finish`.
    hythe_memory::full_barrier();
    for target in targets {
        let info = &target.end.info;
        announce_behind_barrier(control, info.consumer, info.consumer_port);
    }
}

impl Sending<'_> {
    /// One reference for each target; the last gets the one that came. Those that are waited for
    /// come last: the others do not wait with them.
    #[inline(always)]
    pub(crate) fn deliver(
        mut self,
        targets: &mut [Target],
        reference: &mut Reference,
    ) -> Result<Published, Box<NodeError>> {
        let (shared, slot, descriptor) = (self.shared, reference.slot(), reference.descriptor());
        let control = shared.pool().control();
        let mut published = Published::default();
        if targets.is_empty() {
            return Ok(published);
        }
        if targets.len() > 1 {
            // Fits: there are at most as many targets as connections.
            let more = targets.len() as u32 - 1;
            shared
                .act(|member| member.duplicate(control, slot, more))
                .map_err(boxed)?;
        }
        let (mut failed, mut waited_for) = (None, Vec::new());
        for (index, target) in targets.iter_mut().enumerate() {
            match self.attempt(target, descriptor) {
                Attempt::Sent => published.delivered += 1,
                Attempt::PassedBy => published.dropped += 1,
                Attempt::Full if target.blocks() => waited_for.push(index),
                full_or_failed => {
                    let evicted = self.evict(target, full_or_failed, descriptor);
                    published.count(evicted.map_err(boxed), &mut failed);
                }
            }
        }
        if !waited_for.is_empty() {
            // The others do not wait for what they have got already, nor these for what came
            // before in their batch.
            announce_all(shared, targets);
        }
        for index in waited_for {
            let sent = self.wait_for_room(&mut targets[index], descriptor, published.delivered);
            published.count(sent.map_err(boxed), &mut failed);
        }
        reference.moved();
        published.displaced = self.displaced;
        if published.dropped > 0 {
            shared
                .act(|member| member.release(control, slot, published.dropped))
                .map_err(boxed)?;
        }
        match failed {
            None => Ok(published),
            Some(error) => Err(error),
        }
    }

    /// Sends to a target, if its queue and its quota have room.
    #[inline(always)]
    fn attempt(&self, target: &mut Target, descriptor: Descriptor) -> Attempt {
        let unseen = target.outstanding.admits_unseen(self.parcel);
        if unseen || self.look(target) {
            target.attempt(self.shared, self.parcel, descriptor)
        } else {
            Attempt::Full
        }
    }

    #[cold]
    fn look(&self, target: &mut Target) -> bool {
        let (control, info) = (self.shared.pool().control(), &target.end.info);
        target
            .outstanding
            .look(self.quota, control, info, self.parcel)
    }

    /// Goes on after a first attempt with a subscriber that is not waited for. False: the message
    /// passes it by.
    #[cold]
    fn evict(
        &mut self,
        target: &mut Target,
        first: Attempt,
        descriptor: Descriptor,
    ) -> Result<bool, NodeError> {
        match (first.outcome()?, target.subscriber.policy) {
            (Some(sent), _) => Ok(sent),
            (None, PortPolicy::DropOldest) => self.displace(target, descriptor),
            (None, PortPolicy::DropNewest | PortPolicy::Block { .. }) => Ok(false),
        }
    }

    /// Sends in the place of the oldest: of as many as it takes. Nothing is evicted where what the
    /// subscriber holds is too much already.
    fn displace(&mut self, target: &mut Target, descriptor: Descriptor) -> Result<bool, NodeError> {
        let (shared, control) = (self.shared, self.shared.pool().control());
        let (outstanding, info) = (&mut target.outstanding, &target.end.info);
        if !outstanding.evicting_helps(self.quota, control, info, self.parcel) {
            return Ok(false);
        }
        // Each turn makes the queue shorter.
        for _ in 0..=target.end.info.places.capacity {
            let end = &mut target.end;
            let evicted = shared.act(|member| displacing::evict_oldest(member, shared.pool(), end));
            let is_empty = match evicted {
                Ok(Evicted::One) => {
                    self.displaced += 1;
                    false
                }
                Ok(Evicted::None) => true,
                Err(error) => {
                    let failed = target.judge(shared, Err(error.into()));
                    return Ok(failed.outcome()?.unwrap_or(false));
                }
            };
            let (quota, parcel, info) = (self.quota, &self.parcel.anew(), &target.end.info);
            let outstanding = &mut target.outstanding;
            if outstanding.look(quota, control, info, parcel)
                && let Some(sent) = target.attempt(shared, parcel, descriptor).outcome()?
            {
                return Ok(sent);
            }
            if is_empty {
                break;
            }
        }
        Ok(false)
    }

    fn wait_for_room(
        &mut self,
        target: &mut Target,
        descriptor: Descriptor,
        delivered: u32,
    ) -> Result<bool, NodeError> {
        let PortPolicy::Block { timeout_ms } = target.subscriber.policy else {
            return Ok(false);
        };
        let (start, shared) = (Instant::now(), self.shared);
        let control = shared.pool().control();
        let taken = control.taken_from(&target.end.info);
        let timeout = if target.stalled_at == Some(taken) {
            Duration::ZERO
        } else {
            Duration::from_millis(timeout_ms.into()).min(self.send_timeout)
        };
        let (info, subscriber) = (target.end.info, target.subscriber);
        let receiver = control.member(info.consumer);
        let plan = self.plan.gated(shared.spin_gate()).at_most(RELEASE_LOOK);
        let mut gone = false;
        let sent = wait_for(control, shared.index(), plan, timeout, || {
            // Recovery of a dead subscriber makes room, too: for nobody.
            gone = is_gone(shared, &info, &subscriber);
            if gone {
                return Ok(Some(false));
            }
            let parcel = &self.parcel.anew();
            let attempt = Sending { parcel, ..*self }.attempt(target, descriptor);
            attempt.outcome()
        })?;
        let waited = start.elapsed();
        self.send_timeout = self.send_timeout.saturating_sub(waited);
        if gone {
            return Err(self.receiver_gone(info.consumer, receiver, waited, delivered));
        }
        target.stalled_at = sent.is_none().then(|| control.taken_from(&info));
        sent.ok_or_else(|| self.blocked(&info, timeout, delivered))
    }

    fn blocked(&self, info: &ConnectionInfo, timeout: Duration, delivered: u32) -> NodeError {
        let consumer = info.consumer;
        let found = self.shared.pool().control().member(consumer);
        NodeError::Blocked {
            channel: self.channel.name.clone(),
            waited_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            subscriber: name_of(consumer, found.as_ref()),
            delivered,
        }
    }

    /// `receiver`: as it was when the wait began.
    fn receiver_gone(
        &self,
        consumer: MemberIndex,
        receiver: Option<MemberInfo>,
        waited: Duration,
        delivered: u32,
    ) -> NodeError {
        let died = receiver
            .as_ref()
            .is_some_and(|receiver| self.shared.pool().liveness(receiver) == Liveness::Dead);
        NodeError::ReceiverGone {
            channel: self.channel.name.clone(),
            waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            subscriber: name_of(consumer, receiver.as_ref()),
            died,
            delivered,
        }
    }
}

fn name_of(index: MemberIndex, member: Option<&MemberInfo>) -> String {
    member.map_or_else(
        || format!("participant {}", index.0),
        |member| format!("{} (pid {})", member.name, member.identity.pid),
    )
}

impl Published {
    fn count(&mut self, sent: Result<bool, Box<NodeError>>, failed: &mut Option<Box<NodeError>>) {
        match sent {
            Ok(true) => self.delivered += 1,
            Ok(false) => self.dropped += 1,
            Err(error) => {
                self.dropped += 1;
                failed.get_or_insert(error);
            }
        }
    }
}

#[cold]
pub(crate) fn boxed(error: impl Into<NodeError>) -> Box<NodeError> {
    Box::new(error.into())
}
