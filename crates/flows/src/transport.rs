//! Flows as a transport of a node: looks where another host has a port on a channel.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hythe_node::hop::{FindSources, FindTargets, Participant, Transport, Watch};
use hythe_node::{NodeError, monotonic_ns};
use hythe_pool::{ChannelIndex, PortInfo, PortKind};
use hythe_wire::WireStatistics;

use crate::alone::host_ports;
use crate::flow::ReceivingFlow;
use crate::session::{LINGER_LOOK, Session};
use crate::source::FlowSource;
use crate::target::FlowTarget;

/// An agent that was not there is looked for again after so long.
const RETRY: Duration = Duration::from_secs(1);

/// Makes a node's ports send to tasks of other hosts, and receive from them, by sockets of their
/// own, where the agent of its host offers that.
#[derive(Debug, Default)]
pub struct Flows {
    session: Mutex<Option<Arc<Session>>>,
    /// Those before it, of agents that are gone, of which flows go on.
    alone: Mutex<Vec<Arc<Session>>>,
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

    /// Waits until what publishers have sent by flows has arrived, or their flows are over. Who
    /// calls it before the publishers close has nothing under way when they do. False: the time
    /// was over first.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        let start = Instant::now();
        while self.all().iter().any(|session| session.is_under_way()) {
            if start.elapsed() >= timeout {
                return false;
            }
            hythe_sys::wait::sleep(LINGER_LOOK);
        }
        true
    }

    /// The session that there is.
    fn current(&self) -> Option<Arc<Session>> {
        let session = lock(&self.session);
        session.clone().filter(|session| !session.is_over())
    }

    /// A session with the agent, if it offers flows.
    fn session(&self, participant: &Arc<Participant>) -> Option<Arc<Session>> {
        if let Some(session) = self.current() {
            return Some(session);
        }
        let mut tried = lock(&self.tried);
        // Of one that was there the next is not waited for: its ports are found just once.
        let was_there = lock(&self.session)
            .as_ref()
            .is_some_and(|before| before.has_heard());
        if !was_there && tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return None;
        }
        *tried = Some(Instant::now());
        let opened = Session::open(participant).ok()?;
        let mut session = lock(&self.session);
        let before = session.replace(Arc::clone(&opened));
        drop((session, tried));
        if let Some(before) = before {
            lock(&self.alone).push(before);
        }
        Some(opened)
    }

    /// All sessions that have flows.
    fn all(&self) -> Vec<Arc<Session>> {
        let mut sessions: Vec<_> = lock(&self.session).iter().cloned().collect();
        let mut alone = lock(&self.alone);
        alone.retain(|session| !session.is_done());
        sessions.extend(alone.iter().cloned());
        sessions
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each statement leaves what is in there whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let hosts: Vec<PortInfo> = hosts.collect();
        if hosts.is_empty() {
            return Ok(());
        }
        let Some(session) = self.session(&participant) else {
            return Ok(());
        };
        let sessions = self.all();
        let flows = sessions.iter().flat_map(|session| {
            let flows = session.sending(port).into_iter();
            flows.map(move |flow| (session, flow))
        });
        let flows: Vec<_> = flows.collect();
        for host_port in hosts {
            // One that goes on without an agent ends first.
            let has_flow = flows
                .iter()
                .any(|(_, flow)| flow.host.has(&participant, &host_port));
            if !has_flow {
                session.ask(port, host_port.index);
            }
        }
        for (session, flow) in flows.iter().filter(|(_, flow)| !flow.is_over()) {
            let is_known = find.known().any(|target| {
                let target: &dyn std::any::Any = target;
                target
                    .downcast_ref::<FlowTarget>()
                    .is_some_and(|target| target.is_of(flow))
            });
            if !is_known {
                find.add(Box::new(FlowTarget::new(&participant, session, flow)));
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
        if has_host && let Some(session) = self.session(&participant) {
            session.offer(port);
        }
        let sessions = self.all();
        let flows = sessions.iter().flat_map(|session| {
            let flows = session.receiving(port).into_iter();
            flows.map(move |flow| (session, flow))
        });
        for (session, flow) in flows {
            let is_known = find.known().any(|source| {
                let source: &dyn std::any::Any = source;
                source
                    .downcast_ref::<FlowSource>()
                    .is_some_and(|source| source.is_of(&flow))
            });
            if !is_known {
                find.add(Box::new(FlowSource::new(
                    &participant,
                    session,
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
        if port != PortKind::Subscriber {
            return None;
        }
        let sessions = self.all();
        let flows = sessions.iter();
        let flows: Vec<_> = flows
            .flat_map(|session| session.receiving_on(channel))
            .collect();
        (!flows.is_empty()).then(|| Box::new(FlowWatch { sessions, flows }) as Box<dyn Watch>)
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.all().iter().for_each(|session| session.close());
    }
}

/// The flows of a channel, as a wait set sees them.
#[derive(Debug)]
struct FlowWatch {
    sessions: Vec<Arc<Session>>,
    flows: Vec<Arc<ReceivingFlow>>,
}

impl Watch for FlowWatch {
    fn is_ready(&mut self) -> bool {
        let now_ns = monotonic_ns();
        let is_ready = self.flows.iter().any(|flow| flow.is_ready(now_ns));
        if !is_ready {
            let sessions = self.sessions.iter();
            sessions.for_each(|session| session.help_held_up());
        }
        is_ready
    }

    fn nap(&self) -> Duration {
        let sessions = self.sessions.iter();
        sessions.for_each(|session| session.leave_held_up());
        let naps = self.flows.iter().map(|flow| crate::source::nap_of(flow));
        naps.min().unwrap_or(crate::source::NAP)
    }
}
