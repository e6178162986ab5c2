//! A core's endpoint as a wait set sees it: its link, from outside.
//!
//! A core makes no marks; its ring wakes the participant, and the wait set then looks here. Never
//! takes anything, and never writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::link::{Direction, Flow};
use hythe_node::hop::{HopPool as _, Participant, Watch};
use hythe_pool::ChannelIndex;

use super::NAP;
use super::map::LinkMap;

/// A look at one endpoint of a core.
#[derive(Debug)]
pub(super) struct EndpointWatch {
    participant: Arc<Participant>,
    channel: ChannelIndex,
    link: LinkMap,
    endpoint: usize,
    /// When the port was last asked to go on with the agreement on a session.
    asked: Option<Instant>,
}

impl EndpointWatch {
    /// At the core behind a channel, if it gives payload.
    pub(super) fn at(participant: &Arc<Participant>, channel: ChannelIndex) -> Option<Self> {
        let pool = participant.pool();
        let core = pool.control().tables().channel(channel)?.core?;
        if core.direction != Direction::FromCore {
            return None;
        }
        // A link that cannot be mapped is the port's to report: it meets the same.
        let link = LinkMap::open(pool, core.region).ok()?;
        Some(Self {
            participant: Arc::clone(participant),
            channel,
            link,
            endpoint: core.endpoint as usize,
            asked: None,
        })
    }
}

impl EndpointWatch {
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
            let mut agreed = self.own_flows().filter(|&flow| {
                let (wanted, agreed) = self.link.sessions(flow);
                wanted != 0 && wanted == agreed
            });
            if let Some(first) = agreed.next() {
                let has_something =
                    |flow| self.link.has_waiting(flow) || self.link.has_events(flow);
                return has_something(first) || agreed.any(has_something);
            }
        }
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
