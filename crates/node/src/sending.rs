//! One message on its way into the queues of a publisher's subscribers.
//!
//! Called by [`crate::Publisher`] for each message: there is room for it nearly always, and whatever else is to do is kept out of
//! that path. Never wakes anybody for a message that went straight in: the publisher does, behind one message or many.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::Descriptor;
use hythe_pool::{
    ChannelInfo, ConnectionEnd, LedgerSlot, MemberIndex, MemberInfo, PoolError, PortInfo,
    PortPolicy, SendError,
};
use hythe_queue::Producer;

use crate::buffer::Reference;
use crate::node::Shared;
use crate::publisher::{Published, is_gone};
use crate::wait::{WaitPlan, announce_behind_barrier, wait_for};
use crate::{Liveness, NodeError, displacing};

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) end: ConnectionEnd<Producer>,
    pub(crate) subscriber: PortInfo,
    /// Its counter is impossible: it is left behind the message that found that out.
    pub(crate) lies: bool,
}

impl Target {
    /// Sends, if there is room.
    #[inline(always)]
    fn attempt(&mut self, shared: &Shared, slot: LedgerSlot, descriptor: Descriptor) -> Attempt {
        let (control, end) = (shared.pool().control(), &mut self.end);
        let sent = shared.act(|member| member.send(control, end, slot, descriptor));
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
    pub(crate) patience: Duration,
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
    /// One reference for each target; the last gets the one that came.
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
        let mut failed = None;
        for index in 0..targets.len() {
            match targets[index].attempt(shared, slot, descriptor) {
                Attempt::Sent => published.delivered += 1,
                Attempt::PassedBy => published.dropped += 1,
                full_or_failed => {
                    match self.deliver_slowly(targets, index, full_or_failed, reference) {
                        Ok(true) => published.delivered += 1,
                        Ok(false) => published.dropped += 1,
                        Err(error) => {
                            published.dropped += 1;
                            failed.get_or_insert(boxed(error));
                        }
                    }
                }
            }
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

    /// Goes on after a first attempt. False: the queue was full and the subscriber is one to be passed by, or it is gone.
    #[cold]
    fn deliver_slowly(
        &mut self,
        targets: &mut [Target],
        index: usize,
        first: Attempt,
        reference: &Reference,
    ) -> Result<bool, NodeError> {
        let policy = targets[index].subscriber.policy;
        if matches!(policy, PortPolicy::Block { .. }) {
            // The others do not wait with us for what they have got already, nor this one for what came before in its batch.
            announce_all(self.shared, targets);
        }
        let target = &mut targets[index];
        match (first.outcome()?, policy) {
            (Some(sent), _) => Ok(sent),
            (None, PortPolicy::DropNewest) => Ok(false),
            (None, PortPolicy::DropOldest) => self.displace(target, reference),
            (None, PortPolicy::Block { timeout_ms }) => {
                self.wait_for_room(target, timeout_ms, reference)
            }
        }
    }

    /// Sends in the place of the oldest.
    fn displace(&mut self, target: &mut Target, reference: &Reference) -> Result<bool, NodeError> {
        let (shared, end, displaced) = (self.shared, &mut target.end, &mut self.displaced);
        let (slot, descriptor) = (reference.slot(), reference.descriptor());
        let sent = shared.act(|member| {
            displacing::send(member, shared.pool(), end, slot, descriptor, displaced)
        });
        let attempt = target.judge(shared, sent);
        Ok(attempt.outcome()?.unwrap_or(false))
    }

    fn wait_for_room(
        &mut self,
        target: &mut Target,
        timeout_ms: u32,
        reference: &Reference,
    ) -> Result<bool, NodeError> {
        let timeout = Duration::from_millis(timeout_ms.into()).min(self.patience);
        let (start, shared) = (Instant::now(), self.shared);
        let control = shared.pool().control();
        let info = target.end.info;
        let receiver = control.member(info.consumer);
        let plan = self.plan.gated(shared.spin_gate());
        let mut gone = false;
        let sent = wait_for(control, shared.index(), plan, timeout, || {
            // Recovery of a dead subscriber makes room, too: for nobody.
            gone = is_gone(shared, &info, &target.subscriber);
            if gone {
                return Ok(Some(false));
            }
            let attempt = target.attempt(shared, reference.slot(), reference.descriptor());
            attempt.outcome()
        })?;
        let waited = start.elapsed();
        self.patience = self.patience.saturating_sub(waited);
        if gone {
            return Err(self.receiver_gone(info.consumer, receiver, waited));
        }
        sent.ok_or_else(|| self.blocked(target, timeout))
    }

    fn blocked(&self, target: &Target, timeout: Duration) -> NodeError {
        let consumer = target.end.info.consumer;
        let found = self.shared.pool().control().member(consumer);
        NodeError::Blocked {
            channel: self.channel.name.clone(),
            waited_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            subscriber: name_of(consumer, found.as_ref()),
        }
    }

    /// `receiver`: as it was when the wait began.
    fn receiver_gone(
        &self,
        consumer: MemberIndex,
        receiver: Option<MemberInfo>,
        waited: Duration,
    ) -> NodeError {
        let died = receiver
            .as_ref()
            .is_some_and(|receiver| self.shared.pool().liveness(receiver) == Liveness::Dead);
        NodeError::ReceiverGone {
            channel: self.channel.name.clone(),
            waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            subscriber: name_of(consumer, receiver.as_ref()),
            died,
        }
    }
}

fn name_of(index: MemberIndex, member: Option<&MemberInfo>) -> String {
    member.map_or_else(
        || format!("participant {}", index.0),
        |member| format!("{} (pid {})", member.name, member.identity.pid),
    )
}

#[cold]
pub(crate) fn boxed(error: impl Into<NodeError>) -> Box<NodeError> {
    Box::new(error.into())
}
