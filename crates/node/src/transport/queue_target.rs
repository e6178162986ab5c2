//! The sending end of a queue to a port of a process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::Descriptor;
use hythe_pool::{
    ConnectionEnd, ConnectionInfo, MemberIndex, MemberInfo, PoolError, PortInfo, PortPolicy,
    SendError, Side,
};
use hythe_queue::Producer;

use super::{Message, Origin, Sent, Target, TargetState};
use crate::evicting::{self, Evicted};
use crate::participant::Participant;
use crate::pool::process::is_ending;
use crate::quota::{Outstanding, Parcel};
use crate::wait::{announce_behind_barrier, ring};
use crate::{Liveness, NodeError};

/// A release rings nobody's bell: whoever waits for one looks again after this long.
const RELEASE_LOOK: Duration = Duration::from_millis(2);

/// A queue to a port of a process.
#[derive(Debug)]
pub(crate) struct QueueTarget {
    pub(super) shared: Arc<Participant>,
    pub(crate) end: ConnectionEnd<Producer>,
    pub(crate) receiver: PortInfo,
    pub(crate) outstanding: Outstanding,
    /// Nearly always nothing: one look for every message.
    aside: Option<Aside>,
    /// How much it had taken when it was last waited for in vain: it is not waited for again until
    /// it has taken more. One that is stopped costs one wait, not one for each message.
    stalled_at: Option<u32>,
}

/// What comes before any message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aside {
    /// The receiver's counter is impossible: it is left behind the message that found that out.
    Broken,
    /// The receiver is to be told that so many messages are missing.
    Missed(u32),
}

/// What came of one attempt.
enum Attempt {
    Sent,
    /// There is no free capacity at the moment.
    Full,
    Broken,
    /// Boxed: as in `SendError`.
    Failed(Box<PoolError>),
}

impl Attempt {
    /// Did the receiver get it? `None`: not yet.
    fn outcome(self) -> Result<Option<bool>, NodeError> {
        match self {
            Self::Sent => Ok(Some(true)),
            Self::Full => Ok(None),
            Self::Broken => Ok(Some(false)),
            Self::Failed(error) => Err(NodeError::Pool(*error)),
        }
    }
}

impl QueueTarget {
    pub(super) fn new(
        shared: &Arc<Participant>,
        end: ConnectionEnd<Producer>,
        receiver: PortInfo,
        outstanding: Outstanding,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            end,
            receiver,
            outstanding,
            aside: None,
            stalled_at: None,
        }
    }

    /// Sends, if the queue and the quota have free capacity.
    #[inline(always)]
    fn attempt(&mut self, message: &Message<'_>) -> Attempt {
        let unseen = self.outstanding.admits_unseen(&message.parcel);
        if unseen || self.look(message) {
            self.push(message.shared, &message.parcel, message.descriptor)
        } else {
            Attempt::Full
        }
    }

    #[cold]
    fn look(&mut self, message: &Message<'_>) -> bool {
        let (control, info) = (message.shared.pool().control(), &self.end.info);
        self.outstanding
            .look(message.quota, control, info, &message.parcel)
    }

    #[inline(always)]
    fn push(&mut self, shared: &Participant, parcel: &Parcel, descriptor: Descriptor) -> Attempt {
        let (pool, end) = (shared.pool(), &mut self.end);
        let (slot, position) = (parcel.slot(), end.queue.tail());
        let sent = if end.info.evicts_oldest {
            shared.act(|member| member.send(pool.control(), end, slot, descriptor))
        } else {
            let (control, mut acting) = (pool.control().view(), shared.acting());
            let member = acting.parts().0;
            member.send_seen(&control, end, slot, descriptor)
        };
        if sent.is_ok() {
            self.outstanding.note(parcel, position);
        }
        self.judge(shared, sent)
    }

    #[inline(always)]
    fn judge(&mut self, shared: &Participant, sent: Result<(), SendError>) -> Attempt {
        match sent {
            Ok(()) => Attempt::Sent,
            Err(SendError::Full) => Attempt::Full,
            Err(SendError::Pool(_))
                if shared
                    .pool()
                    .control()
                    .tables()
                    .free_capacity(&mut self.end)
                    .is_err() =>
            {
                self.aside = Some(Aside::Broken);
                Attempt::Broken
            }
            Err(SendError::Pool(error)) => Attempt::Failed(error),
        }
    }

    fn add_missed(&mut self, messages: u32) {
        match self.aside {
            Some(Aside::Broken) => {}
            Some(Aside::Missed(before)) => {
                self.aside = Some(Aside::Missed(before.saturating_add(messages)));
            }
            None => self.aside = (messages > 0).then_some(Aside::Missed(messages)),
        }
    }

    /// Tells what comes before any message, if there is anything.
    fn tell_aside(&mut self, shared: &Participant) -> Attempt {
        match self.aside {
            None => Attempt::Sent,
            Some(Aside::Broken) => Attempt::Broken,
            Some(Aside::Missed(messages)) => {
                let (control, end) = (shared.pool().control(), &mut self.end);
                let sent = shared.act(|member| member.send_missed(control, end, messages));
                let told = self.judge(shared, sent);
                if matches!(told, Attempt::Sent) {
                    self.aside = None;
                }
                told
            }
        }
    }

    /// As [`attempt`](Self::attempt), where something comes before.
    #[cold]
    fn attempt_behind_aside(&mut self, message: &Message<'_>) -> Attempt {
        match self.tell_aside(message.shared) {
            Attempt::Sent => self.attempt(message),
            other => other,
        }
    }

    /// As [`push`](Self::push), where something may come before.
    fn push_behind_aside(&mut self, message: &Message<'_>, parcel: &Parcel) -> Attempt {
        match self.tell_aside(message.shared) {
            Attempt::Sent => self.push(message.shared, parcel, message.descriptor),
            other => other,
        }
    }

    /// Goes on after a first attempt that did not succeed.
    #[cold]
    fn go_on(&mut self, first: Attempt, message: &mut Message<'_>) -> Sent {
        let sent = match (first, self.receiver.policy) {
            (Attempt::Full, PortPolicy::Block { .. }) => return Sent::Full,
            (Attempt::Full, PortPolicy::EvictOldest) => self.evict(message),
            (Attempt::Full, PortPolicy::DropNewest) => Ok(false),
            (attempt, _) => attempt.outcome().map(|sent| sent.unwrap_or(false)),
        };
        match sent {
            Ok(true) => Sent::Delivered,
            Ok(false) => Sent::Dropped,
            Err(error) => Sent::Failed(Box::new(error)),
        }
    }

    /// Sends in the place of the oldest: of as many as it takes. Nothing is evicted where what the
    /// receiver holds is too much already.
    fn evict(&mut self, message: &mut Message<'_>) -> Result<bool, NodeError> {
        let (shared, control) = (message.shared, message.shared.pool().control());
        let (quota, info) = (message.quota, self.end.info);
        let helps = self
            .outstanding
            .evicting_helps(quota, control, &info, &message.parcel);
        if !helps {
            return Ok(false);
        }
        // Each turn makes the queue shorter.
        for _ in 0..=info.places.capacity {
            let end = &mut self.end;
            let evicted = shared.act(|member| evicting::evict_oldest(member, shared.pool(), end));
            let is_empty = match evicted {
                Ok(Evicted::One) => {
                    message.evicted += 1;
                    false
                }
                Ok(Evicted::Missed(messages)) => {
                    self.add_missed(messages);
                    false
                }
                Ok(Evicted::None) => true,
                Err(error) => {
                    let failed = self.judge(shared, Err(error.into()));
                    return Ok(failed.outcome()?.unwrap_or(false));
                }
            };
            let parcel = &message.parcel.anew();
            if self.outstanding.look(quota, control, &info, parcel)
                && let Some(sent) = self.push_behind_aside(message, parcel).outcome()?
            {
                return Ok(sent);
            }
            if is_empty {
                break;
            }
        }
        Ok(false)
    }

    /// Waits for free capacity; `None`: there was none in time.
    fn wait_for_room(
        &mut self,
        message: &Message<'_>,
        timeout: Duration,
    ) -> Result<Option<bool>, NodeError> {
        let (shared, info, receiver) = (message.shared, self.end.info, self.receiver);
        let control = shared.pool().control();
        let plan = message.plan.at_most(RELEASE_LOOK);
        shared.wait_for(plan, timeout, || {
            // Recovery of a dead receiver makes free capacity, too: for nobody.
            if is_gone(shared, &info, &receiver) {
                return Ok(Some(false));
            }
            let parcel = &message.parcel.anew();
            let admitted = self
                .outstanding
                .admits(message.quota, control, &info, parcel);
            if !admitted {
                return Ok(None);
            }
            self.push_behind_aside(message, parcel).outcome()
        })
    }
}

impl Target for QueueTarget {
    #[inline(always)]
    fn send(&mut self, message: &mut Message<'_>) -> Sent {
        let attempt = match self.aside {
            None => self.attempt(message),
            Some(_) => self.attempt_behind_aside(message),
        };
        match attempt {
            Attempt::Sent => Sent::Delivered,
            other => self.go_on(other, message),
        }
    }

    fn holds_up(&mut self, message: &Message<'_>) -> Option<Duration> {
        let PortPolicy::Block { timeout_ms } = self.receiver.policy else {
            return None;
        };
        let (shared, info) = (message.shared, self.end.info);
        let control = shared.pool().control();
        // One that was waited for in vain, and one that is gone, is not waited for.
        let taken = control.tables().taken_from(&info);
        if self.stalled_at == Some(taken) || is_gone(shared, &info, &self.receiver) {
            return None;
        }
        // What is impossible is found by sending.
        let free = control.tables().free_capacity(&mut self.end).ok()?;
        let needed = 1 + u32::from(self.aside.is_some());
        let parcel = &message.parcel.anew();
        let has_room = free >= needed
            && self
                .outstanding
                .admits(message.quota, control, &info, parcel);
        (!has_room).then(|| Duration::from_millis(timeout_ms.into()))
    }

    fn send_waiting(&mut self, message: &mut Message<'_>) -> Result<bool, Box<NodeError>> {
        let PortPolicy::Block { timeout_ms } = self.receiver.policy else {
            return Ok(false);
        };
        let (start, info) = (Instant::now(), self.end.info);
        let control = message.shared.pool().control();
        let taken = control.tables().taken_from(&info);
        let timeout = if self.stalled_at == Some(taken) {
            Duration::ZERO
        } else {
            Duration::from_millis(timeout_ms.into()).min(message.send_timeout)
        };
        let member = control.tables().member(info.consumer);
        let sent = self.wait_for_room(message, timeout).map_err(Box::new)?;
        let waited = start.elapsed();
        message.spend(waited);
        if sent == Some(false) && is_gone(message.shared, &info, &self.receiver) {
            return Err(receiver_gone(message, info.consumer, member, waited));
        }
        self.stalled_at = sent.is_none().then(|| control.tables().taken_from(&info));
        sent.ok_or_else(|| blocked(message, info.consumer, timeout))
    }

    fn note_missed(&mut self, messages: u32) {
        self.add_missed(messages);
        // What finds no place now comes before the next message.
        let _ = self.tell_aside(&Arc::clone(&self.shared));
    }

    #[inline(always)]
    fn wake(&mut self) -> TargetState {
        let info = &self.end.info;
        announce_behind_barrier(
            self.shared.pool().control(),
            info.consumer,
            info.consumer_port,
        );
        self.state()
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        let left = leave_side(&self.shared, self.end.info, Side::Producer);
        ring(self.shared.pool().control(), self.end.info.consumer);
        left
    }

    #[inline(always)]
    fn state(&self) -> TargetState {
        if self.aside == Some(Aside::Broken) {
            TargetState::Broken
        } else if is_gone(&self.shared, &self.end.info, &self.receiver) {
            TargetState::Closed
        } else {
            TargetState::Open
        }
    }

    fn examine(&mut self) -> TargetState {
        let control = self.shared.pool().control();
        if control.tables().free_capacity(&mut self.end).is_err() {
            self.aside = Some(Aside::Broken);
        }
        self.state()
    }

    fn name(&self) -> String {
        self.shared
            .pool()
            .control()
            .tables()
            .named(self.receiver.member)
    }

    fn is_origin(&self, origin: &Origin) -> bool {
        self.receiver.member == origin.member && Some(self.receiver.index) == origin.port
    }
}

/// Has the receiver left the connection, or closed its port, which it does before?
#[inline(always)]
fn is_gone(shared: &Participant, known: &ConnectionInfo, receiver: &PortInfo) -> bool {
    let control = shared.pool().control().view();
    !control.tables().consumer_stays(known) || !control.tables().is_still_open(receiver)
}

pub(super) fn leave_side(
    shared: &Participant,
    info: ConnectionInfo,
    side: Side,
) -> Result<(), NodeError> {
    let (control, regions) = (shared.pool().control(), shared.pool().regions());
    let left = shared
        .act(|member| member.leave_connection(control, regions, info.index, info.nonce, side));
    Ok(left?)
}

fn blocked(message: &Message<'_>, consumer: MemberIndex, timeout: Duration) -> Box<NodeError> {
    let found = message.shared.pool().control().tables().member(consumer);
    Box::new(NodeError::Blocked {
        channel: message.channel.to_owned(),
        waited_ms: milliseconds(timeout),
        subscriber: name_of(consumer, found.as_ref()),
        delivered: message.delivered,
    })
}

/// `receiver`: as it was when the wait began.
fn receiver_gone(
    message: &Message<'_>,
    consumer: MemberIndex,
    receiver: Option<MemberInfo>,
    waited: Duration,
) -> Box<NodeError> {
    let pool = message.shared.pool();
    // One that was killed is recovered by others before the kernel says that it has ended.
    let is_dead = |receiver: &MemberInfo| {
        pool.liveness(receiver) == Liveness::Dead || is_ending(&receiver.identity)
    };
    Box::new(NodeError::ReceiverGone {
        channel: message.channel.to_owned(),
        waited_ms: milliseconds(waited),
        subscriber: name_of(consumer, receiver.as_ref()),
        died: receiver.as_ref().is_some_and(is_dead),
        delivered: message.delivered,
    })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn name_of(index: MemberIndex, member: Option<&MemberInfo>) -> String {
    member.map_or_else(
        || format!("participant {}", index.0),
        |member| format!("{} (pid {})", member.name, member.identity.pid),
    )
}
