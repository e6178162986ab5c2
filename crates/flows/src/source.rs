//! A publisher on another host as a source of a subscriber of this process.

use std::sync::Arc;
use std::time::Duration;

use hythe_node::hop::{
    HopPool as _, Origin, Participant, Polled, SenderHost, Source, SourceState, taken,
};
use hythe_node::{NodeError, monotonic_ns};
use hythe_pool::ConnectionInfo;

use crate::flow::ReceivingFlow;
use crate::queue::Entry;
use crate::session::Session;

/// A wait for a flow looks again after this long, whatever wakes.
pub(crate) const NAP: Duration = Duration::from_millis(100);
/// Not sooner than this for a timer: it is the granularity of the protocol's own.
const NAP_MIN: Duration = Duration::from_micros(200);

/// The subscriber's end of a flow, in its list of sources.
#[derive(Debug)]
pub(crate) struct FlowSource {
    participant: Arc<Participant>,
    session: Arc<Session>,
    flow: Arc<ReceivingFlow>,
    capacity: u32,
    host: SenderHost,
    /// Queues of the agent, with what was taken from each: what the publisher sent by it before is
    /// in one of them, and comes first. `None`: not looked for yet.
    before: Option<Vec<(ConnectionInfo, u32)>>,
}

impl FlowSource {
    pub(crate) fn new(
        participant: &Arc<Participant>,
        session: &Arc<Session>,
        flow: &Arc<ReceivingFlow>,
        capacity: u32,
    ) -> Self {
        Self {
            participant: Arc::clone(participant),
            session: Arc::clone(session),
            flow: Arc::clone(flow),
            capacity,
            host: SenderHost::of_participant(&flow.host.name),
            before: None,
        }
    }

    pub(crate) fn is_of(&self, flow: &Arc<ReceivingFlow>) -> bool {
        Arc::ptr_eq(&self.flow, flow)
    }

    /// Was its first message there, and next?
    fn has_begun(&mut self, now_ns: u64) -> bool {
        let has_begun = self.before.as_ref().is_some_and(Vec::is_empty);
        has_begun || self.flow.is_ready(now_ns) && self.is_next()
    }

    /// Is everything taken that came by the agent before the flow began? Looked at when its first
    /// message is there: the sender waited with that until the agent had delivered those.
    fn is_next(&mut self) -> bool {
        let tables = self.participant.pool().control().tables();
        let (me, port, host) = (
            self.participant.index(),
            self.flow.id.port.index,
            self.flow.host.index,
        );
        let before = self.before.get_or_insert_with(|| {
            tables
                .connections()
                .filter(|info| info.consumer == me && info.consumer_port == port)
                .filter(|info| info.producer == host)
                .map(|info| (info, tables.taken_from(&info)))
                .collect()
        });
        before.retain(|(info, then)| {
            let is_same = tables
                .connection(info.index)
                .is_some_and(|now| now.nonce == info.nonce);
            let taken = tables.taken_from(info).wrapping_sub(*then);
            is_same && tables.queue_waits(info) && taken < info.places.capacity
        });
        before.is_empty()
    }
}

impl Source for FlowSource {
    fn poll(&mut self) -> Polled {
        let now_ns = monotonic_ns();
        if !self.has_begun(now_ns) {
            return Polled::Nothing;
        }
        match self.flow.take(now_ns) {
            Some(Entry::Sample(_, sample)) => Polled::Taken(taken(sample)),
            Some(Entry::Missed(messages)) => Polled::Missed(messages),
            None => {
                self.session.help_held_up();
                Polled::Nothing
            }
        }
    }

    fn is_something_waiting(&mut self) -> bool {
        self.flow.is_ready(monotonic_ns())
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn state(&mut self) -> SourceState {
        // Before something is taken from that: the thread may be late.
        self.flow.look_for_successor(&self.participant);
        match self.flow.has_ended() {
            (false, _) if self.flow.is_finishing() => {
                // Now, and not sooner: from here on its port takes what is left of it before what
                // the agent brings.
                let now_ns = monotonic_ns();
                if self.has_begun(now_ns) {
                    self.flow.drain(now_ns);
                }
                SourceState::Draining
            }
            (false, _) => SourceState::Open,
            (true, false) => SourceState::Draining,
            (true, true) => SourceState::Ended,
        }
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        self.flow.cut("its subscriber has left");
        Ok(())
    }

    fn is_elsewhere(&self) -> bool {
        true
    }

    fn origin(&self) -> Origin {
        Origin {
            member: self.flow.host.index,
            port: None,
            number: u64::from(self.flow.id.number),
        }
    }

    fn host(&self) -> SenderHost {
        self.host.clone()
    }

    fn nap(&self) -> Duration {
        // Asked by who is about to sleep.
        self.session.leave_held_up();
        nap_of(&self.flow)
    }
}

/// How long a wait for a flow may sleep.
pub(crate) fn nap_of(flow: &ReceivingFlow) -> Duration {
    match flow.next_look() {
        None => NAP,
        Some(0) => Duration::ZERO,
        Some(look_ns) => {
            let until = Duration::from_nanos(look_ns.saturating_sub(monotonic_ns()));
            until.clamp(NAP_MIN, NAP)
        }
    }
}
