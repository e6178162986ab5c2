//! A core's endpoint as a wait set sees it: its link, from outside.
//!
//! A core makes no marks; its ring wakes the participant, and the wait set then looks here. Never
//! takes anything, and never writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::link::{Direction, Flow};
use hythe_abi::pool::CORE_PORTS_MAX;
use hythe_node::hop::{HopPool as _, Participant, Watch};
use hythe_pool::{ChannelIndex, PortKind};

use super::NAP;
use super::map::LinkMap;

/// A look at one endpoint of a core.
#[derive(Debug)]
pub(super) struct EndpointWatch {
    participant: Arc<Participant>,
    channel: ChannelIndex,
    link: LinkMap,
    endpoint: usize,
    /// By port, as of the last look; 0: none.
    agreed: [u32; CORE_PORTS_MAX],
    /// When the port was last asked to go on with the agreement on a session.
    asked: Option<Instant>,
    /// What waited by port when the port was last asked to take it, and when that was.
    shown: Option<(Waiting, Instant)>,
}

/// Head and tail of the queue of each port.
type Waiting = [(u32, u32); CORE_PORTS_MAX];

impl EndpointWatch {
    /// At the core behind the channel of a port, if the port takes anything from it. Replies come
    /// from the endpoint that requests go to.
    pub(super) fn at(
        participant: &Arc<Participant>,
        port: PortKind,
        channel: ChannelIndex,
    ) -> Option<Self> {
        let pool = participant.pool();
        let core = pool.control().tables().channel(channel)?.core?;
        let wanted = match port {
            PortKind::Client => Direction::ToCore,
            _ => Direction::FromCore,
        };
        if core.direction != wanted {
            return None;
        }
        // A link that cannot be mapped is the port's to report: it meets the same.
        let link = LinkMap::open(pool, core.region).ok()?;
        Some(Self {
            participant: Arc::clone(participant),
            channel,
            link,
            endpoint: core.endpoint as usize,
            agreed: [0; CORE_PORTS_MAX],
            asked: None,
            shown: None,
        })
    }
}

impl EndpointWatch {
    /// Is something to be taken? What stays there is asked for again, but not so that the wait of a
    /// subscriber that may keep no more becomes a spin.
    fn asks_to_take(&mut self, waiting: Waiting) -> bool {
        let is_nothing = waiting.iter().all(|(head, tail)| head == tail);
        let was_shown = |(shown, at): (Waiting, Instant)| shown == waiting && at.elapsed() < NAP;
        if is_nothing || self.shown.is_some_and(was_shown) {
            return false;
        }
        self.shown = Some((waiting, Instant::now()));
        true
    }

    /// Those of the endpoint at which this participant is.
    fn own_flows(&self) -> impl Iterator<Item = Flow> {
        let (participant, channel) = (&self.participant, self.channel);
        self.link.flows(self.endpoint).filter(move |flow| {
            let tables = participant.pool().control().tables();
            tables.attached(channel, flow.port) == Some(participant.index())
        })
    }
}

impl Watch for EndpointWatch {
    /// Has it payload, or a step towards a session to take?
    fn is_ready(&mut self) -> bool {
        // What waits at a core that is down, nobody can take.
        if self.link.life().is_some() {
            let (mut agreed, mut has_events) = ([0; CORE_PORTS_MAX], false);
            let mut waiting: Waiting = [(0, 0); CORE_PORTS_MAX];
            for flow in self.own_flows() {
                let (wanted, echo) = self.link.sessions(flow);
                if let Some(session) = agreed.get_mut(flow.port).filter(|_| wanted == echo) {
                    *session = wanted;
                    has_events |= wanted != 0 && self.link.has_events(flow);
                    if wanted != 0 && self.link.has_waiting(flow) {
                        waiting[flow.port] = self.link.waiting_ends(flow);
                    }
                }
            }
            if agreed.iter().any(|&session| session != 0) {
                // Once for each session: what comes behind the echo is the port's step, too.
                let is_new = std::mem::replace(&mut self.agreed, agreed) != agreed;
                return self.asks_to_take(waiting) || has_events || is_new;
            }
        }
        self.agreed = [0; CORE_PORTS_MAX];
        // The port takes that step when it tries to take; asked for again and again, but not so
        // that the wait becomes a spin.
        let due = self.asked.is_none_or(|asked| asked.elapsed() >= NAP);
        if due {
            self.asked = Some(Instant::now());
        }
        due
    }

    fn nap(&self) -> Duration {
        NAP
    }
}
