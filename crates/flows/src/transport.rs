//! Flows as a transport of a node: looks where another host has a port on a channel.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hythe_node::hop::{FindSources, FindTargets, HopPool as _, Participant, Transport, Watch};
use hythe_node::{NodeError, monotonic_ns};
use hythe_pool::{ChannelIndex, MemberKind, PortIndex, PortKind};
use hythe_wire::WireStatistics;

use crate::flow::ReceivingFlow;
use crate::session::Session;
use crate::source::FlowSource;
use crate::target::FlowTarget;

/// An agent that was not there is looked for again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// Makes a node's ports send to tasks of other hosts, and receive from them, by sockets of their
/// own, where the agent of its host offers that.
#[derive(Debug, Default)]
pub struct Flows {
    session: Mutex<Option<Arc<Session>>>,
    tried: Mutex<Option<Instant>>,
}

impl Flows {
    /// For one node that is about to join.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What the flows of publishers that there are have done past the kernel's protocols.
    #[must_use]
    pub fn wire_statistics(&self) -> WireStatistics {
        let session = self.current();
        session.map_or(WireStatistics::default(), |session| {
            session.wire_statistics()
        })
    }

    /// The session that there is.
    fn current(&self) -> Option<Arc<Session>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone().filter(|session| !session.is_over())
    }

    /// A session with the agent, if it offers flows.
    fn session(&self, participant: &Arc<Participant>) -> Option<Arc<Session>> {
        if let Some(session) = self.current() {
            return Some(session);
        }
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return None;
        }
        *tried = Some(Instant::now());
        let opened = Session::open(participant).ok()?;
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let before = session.replace(Arc::clone(&opened));
        drop((session, tried));
        before.iter().for_each(|before| before.close());
        Some(opened)
    }
}

/// Ports of this kind that stand for other hosts on a channel.
fn host_ports(
    participant: &Participant,
    channel: ChannelIndex,
    kind: PortKind,
) -> impl Iterator<Item = PortIndex> {
    let tables = participant.pool().control().tables();
    tables
        .ports()
        .filter(move |port| port.channel == channel && port.kind == kind)
        .filter(move |port| tables.member_kind(port.member) == Some(MemberKind::Host))
        .map(|port| port.index)
}

impl Transport for Flows {
    fn find_targets(&self, find: &mut FindTargets<'_>) -> Result<(), NodeError> {
        let seeking = find.seeking();
        // What was published before goes by the agent.
        if !find.publishes() || seeking.is_opening() || find.has_first_messages() {
            return Ok(());
        }
        let (participant, port) = (Arc::clone(seeking.participant()), seeking.port());
        let hosts = host_ports(&participant, seeking.channel().index, PortKind::Subscriber);
        let hosts: Vec<PortIndex> = hosts.collect();
        if hosts.is_empty() {
            return Ok(());
        }
        let Some(session) = self.session(&participant) else {
            return Ok(());
        };
        let flows = session.sending(port);
        for host_port in hosts {
            if !flows.iter().any(|flow| flow.host_port == host_port) {
                session.ask(port, host_port);
            }
        }
        for flow in flows.iter().filter(|flow| !flow.is_over()) {
            let is_known = find.known().any(|target| {
                let target: &dyn std::any::Any = target;
                target
                    .downcast_ref::<FlowTarget>()
                    .is_some_and(|target| target.is_of(flow))
            });
            if !is_known {
                find.add(Box::new(FlowTarget::new(&participant, &session, flow)));
            }
        }
        Ok(())
    }

    fn find_sources(&self, find: &mut FindSources<'_>) -> Result<(), NodeError> {
        let seeking = find.seeking();
        if !find.subscribes() || seeking.is_opening() {
            return Ok(());
        }
        let (participant, port) = (Arc::clone(seeking.participant()), seeking.port());
        let (channel, depth) = (seeking.channel().index, seeking.depth());
        let has_host = host_ports(&participant, channel, PortKind::Publisher)
            .next()
            .is_some();
        let session = match has_host {
            true => self.session(&participant),
            false => self.current(),
        };
        let Some(session) = session else {
            return Ok(());
        };
        if has_host {
            session.offer(port);
        }
        for flow in session.receiving(port) {
            let is_known = find.known().any(|source| {
                let source: &dyn std::any::Any = source;
                source
                    .downcast_ref::<FlowSource>()
                    .is_some_and(|source| source.is_of(&flow))
            });
            if !is_known {
                find.add(Box::new(FlowSource::new(
                    &participant,
                    &session,
                    &flow,
                    depth,
                )));
            }
        }
        Ok(())
    }

    fn watch(
        &self,
        _participant: &Arc<Participant>,
        port: PortKind,
        channel: ChannelIndex,
    ) -> Option<Box<dyn Watch>> {
        let session = self.current()?;
        let flows = match port {
            PortKind::Subscriber => session.receiving_on(channel),
            _ => Vec::new(),
        };
        (!flows.is_empty()).then(|| Box::new(FlowWatch { session, flows }) as Box<dyn Watch>)
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        let session = self
            .session
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = session.take() {
            session.close();
        }
    }
}

/// The flows of a channel, as a wait set sees them.
#[derive(Debug)]
struct FlowWatch {
    session: Arc<Session>,
    flows: Vec<Arc<ReceivingFlow>>,
}

impl Watch for FlowWatch {
    fn is_ready(&mut self) -> bool {
        let now_ns = monotonic_ns();
        let is_ready = self.flows.iter().any(|flow| flow.is_ready(now_ns));
        if !is_ready {
            self.session.help_held_up();
        }
        is_ready
    }

    fn nap(&self) -> Duration {
        self.session.leave_held_up();
        let naps = self.flows.iter().map(|flow| crate::source::nap_of(flow));
        naps.min().unwrap_or(crate::source::NAP)
    }
}
