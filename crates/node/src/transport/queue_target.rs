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
    /// The receiver's counter is impossible: it is left behind the message that found that out.
    is_broken: bool,
    /// What did not reach the receiver.
    missed: Missed,
    /// How much it had taken when it was last waited for in vain: it is not waited for again until
    /// it has taken more. One that is stopped costs one wait, not one for each message.
    stalled_at: Option<u32>,
}

/// Messages that did not reach a receiver, as its connection tells it.
#[derive(Clone, Copy, Debug, Default)]
struct Missed {
    /// All of them.
    total: u64,
    /// Those that were not pushed, modulo 2^32: what evictions take out of the queue shows in its
    /// head.
    passed_by: u32,
    /// There were some that were not pushed: gap words are written from then on.
    has_gaps: bool,
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
            is_broken: false,
            missed: Missed::default(),
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
        if self.missed.has_gaps && !self.write_gap(shared) {
            return Attempt::Full;
        }
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
                self.is_broken = true;
                Attempt::Broken
            }
            Err(SendError::Pool(error)) => Attempt::Failed(error),
        }
    }

    /// So many messages were not pushed, and will not be.
    #[cold]
    fn add_passed_by(&mut self, messages: u32) {
        if messages > 0 {
            self.missed.has_gaps = true;
            self.missed.passed_by = self.missed.passed_by.wrapping_add(messages);
            self.add_missed(messages);
        }
    }

    /// So many messages did not reach the receiver: its port counts them.
    fn add_missed(&mut self, messages: u32) {
        self.missed.total = self.missed.total.saturating_add(messages.into());
        let tables = self.shared.pool().control().tables();
        tables.set_missed(&self.end.info, self.missed.total);
    }

    /// Says in front of the next descriptor how many are missing there. False: it has no place yet.
    #[cold]
    fn write_gap(&mut self, shared: &Participant) -> bool {
        let tables = shared.pool().control().tables();
        let is_full = !self.end.queue.has_known_capacity()
            && matches!(tables.free_capacity(&mut self.end), Ok(0));
        if !is_full {
            let next = self.end.queue.tail();
            tables.set_gap(&self.end.info, next, self.missed.passed_by);
        }
        !is_full
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
        if !matches!(sent, Ok(true)) {
            self.add_passed_by(1);
        }
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
                    self.add_missed(1);
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
                && let Some(sent) = self.push(shared, parcel, message.descriptor).outcome()?
            {
                return Ok(sent);
            }
            if is_empty {
                break;
            }
        }
        Ok(false)
    }

    /// Waits for free capacity; `None`: there was none in time, or the program wants no wait.
    fn wait_for_room(
        &mut self,
        message: &Message<'_>,
        timeout: Duration,
    ) -> Result<Option<bool>, NodeError> {
        let (shared, info, receiver) = (message.shared, self.end.info, self.receiver);
        let control = shared.pool().control();
        let plan = message.plan.at_most(RELEASE_LOOK);
        let waited = shared.wait_for(plan, timeout, || {
            // Recovery of a dead receiver makes free capacity, too: for nobody.
            if is_gone(shared, &info, &receiver) {
                return Ok(Some(Some(false)));
            }
            let parcel = &message.parcel.anew();
            let admitted = self
                .outstanding
                .admits(message.quota, control, &info, parcel);
            let sent = match admitted {
                true => self.push(shared, parcel, message.descriptor).outcome()?,
                false => None,
            };
            match sent {
                None if shared.is_interrupted() => Ok(Some(None)),
                sent => Ok(sent.map(Some)),
            }
        })?;
        Ok(waited.flatten())
    }

    /// Waits for free capacity, as [`Target::send_waiting`] says.
    fn send_in_time(&mut self, message: &mut Message<'_>) -> Result<bool, Box<NodeError>> {
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
        sent.ok_or_else(|| blocked(message, info.consumer, waited.min(timeout)))
    }
}

impl Target for QueueTarget {
    #[inline(always)]
    fn send(&mut self, message: &mut Message<'_>) -> Sent {
        let attempt = match self.is_broken {
            false => self.attempt(message),
            true => Attempt::Broken,
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
        let parcel = &message.parcel.anew();
        let has_room = free >= 1
            && self
                .outstanding
                .admits(message.quota, control, &info, parcel);
        (!has_room).then(|| Duration::from_millis(timeout_ms.into()))
    }

    fn send_waiting(&mut self, message: &mut Message<'_>) -> Result<bool, Box<NodeError>> {
        let sent = self.send_in_time(message);
        if !matches!(sent, Ok(true)) {
            self.add_passed_by(1);
        }
        sent
    }

    fn note_missed(&mut self, messages: u32) {
        self.add_passed_by(messages);
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
        if self.is_broken {
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
            self.is_broken = true;
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
