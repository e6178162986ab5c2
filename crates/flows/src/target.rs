//! A subscriber on another host as a target of a publisher of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_node::hop::{
    Message, Participant, Sent, Target, TargetState, Unconfirmed, WaitPlan, taken,
};
use hythe_node::{NodeError, RegionIndex, monotonic_ns};
use hythe_pool::PortIndex;

use crate::flow::{Flushed, Pushed, SendingFlow};
use crate::session::Session;

/// What frees capacity comes over the network, and wakes nobody: a wait looks this often.
const LOOK: Duration = Duration::from_micros(200);

/// A message is held up for so long where its flow is to finish.
const FINISHING: Duration = Duration::from_millis(100);

/// The publisher's end of a flow, in its list of targets.
#[derive(Debug)]
pub(crate) struct FlowTarget {
    participant: Arc<Participant>,
    session: Arc<Session>,
    flow: Arc<SendingFlow>,
    plan: WaitPlan,
    /// When the last message was taken that is not flushed: that is sent within the same call, and
    /// the clock is not looked at twice.
    pushed_ns: Option<u64>,
    /// The agent knows that nothing more comes by its port.
    has_left: bool,
}

impl FlowTarget {
    pub(crate) fn new(
        participant: &Arc<Participant>,
        session: &Arc<Session>,
        flow: &Arc<SendingFlow>,
    ) -> Self {
        Self {
            participant: Arc::clone(participant),
            session: Arc::clone(session),
            flow: Arc::clone(flow),
            plan: WaitPlan::sleeping(LOOK),
            pushed_ns: None,
            has_left: false,
        }
    }

    pub(crate) fn is_of(&self, flow: &Arc<SendingFlow>) -> bool {
        Arc::ptr_eq(&self.flow, flow)
    }

    /// A publisher that waits for its subscribers waits here, too: one that sends without a pause
    /// would else find no moment in which nothing is under way.
    fn wait_for_finish(&self) -> TargetState {
        let timeout = Duration::from_millis(self.flow.block_ms.into()).min(FINISHING);
        let _ = self.participant.wait_for(self.plan, timeout, || {
            let has_finished = self.flow.has_finished(monotonic_ns());
            Ok(has_finished.then_some(()))
        });
        self.state()
    }

    fn push(&mut self, message: &Message<'_>) -> Sent {
        let now_ns = monotonic_ns();
        self.pushed_ns = Some(now_ns);
        match self.flow.push(now_ns, message.keep()) {
            Pushed::Taken => Sent::Delivered,
            // The reference stays the publisher's.
            Pushed::Full(sample) => {
                let _ = taken(sample);
                match self.flow.block_ms {
                    0 => Sent::Dropped,
                    _ => Sent::Full,
                }
            }
            Pushed::Over(sample) => {
                let _ = taken(sample);
                Sent::Dropped
            }
        }
    }
}

impl Target for FlowTarget {
    fn send(&mut self, message: &mut Message<'_>) -> Sent {
        if !self.has_left {
            // The agent's port was left when this target was found.
            self.has_left = true;
            self.session.left(&self.flow);
        }
        if message.descriptor().length > self.flow.message_bytes_max {
            return Sent::Dropped;
        }
        self.push(message)
    }

    fn send_waiting(&mut self, message: &mut Message<'_>) -> Result<bool, Box<NodeError>> {
        let start = Instant::now();
        let timeout = Duration::from_millis(self.flow.block_ms.into()).min(message.send_timeout());
        let flow = &self.flow;
        let waited = self.participant.wait_for(self.plan, timeout, || {
            let has_place = flow.has_place(monotonic_ns());
            Ok((has_place || self.participant.is_interrupted()).then_some(has_place))
        });
        message.spend(start.elapsed());
        match waited.map_err(Box::new)? {
            Some(true) => Ok(matches!(self.push(message), Sent::Delivered)),
            _ => Err(Box::new(message.blocked(self.name(), timeout))),
        }
    }

    fn await_close(&mut self, timeout: Duration) {
        if self.flow.is_breaking() {
            let timeout = Duration::from_millis(self.flow.block_ms.into()).min(timeout);
            let _ = self.participant.wait_for(self.plan, timeout, || {
                Ok((!self.flow.is_breaking()).then_some(()))
            });
        }
    }

    fn wake(&mut self) -> TargetState {
        let now_ns = self.pushed_ns.take().unwrap_or_else(monotonic_ns);
        let flushed = self.flow.flush(now_ns);
        if self.flow.is_finishing() {
            return self.wait_for_finish();
        }
        match flushed {
            Flushed::Open => TargetState::Open,
            Flushed::HeldUp => {
                self.session.note_held_up();
                TargetState::Open
            }
            Flushed::Over => TargetState::Closed,
        }
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        // What is under way arrives; the session's thread sees to it.
        self.flow.leave(monotonic_ns());
        self.session.wake();
        Ok(())
    }

    fn state(&self) -> TargetState {
        match self.flow.is_closed() {
            true => TargetState::Closed,
            false => TargetState::Open,
        }
    }

    fn name(&self) -> String {
        self.session.name_of(self.flow.host.port.index)
    }

    fn preferred_region(&self) -> Option<RegionIndex> {
        self.flow.card()
    }

    /// Also those that a later agent opens: what goes by the flow would come twice.
    fn replaces(&self) -> Vec<PortIndex> {
        let ports = self.flow.host.ports(&self.participant);
        ports.iter().map(|port| port.index).collect()
    }

    fn take_unconfirmed(&mut self) -> Unconfirmed {
        self.flow.take_unconfirmed()
    }
}
