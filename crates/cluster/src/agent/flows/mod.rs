//! Flows: what a publisher of this host sends to a subscriber of another by a socket of its own
//! process, sealed, or over a link that both users trust in clear text (ADR 0052).
//!
//! The agents set them up and take them down; no message passes here. [`Processes`] are the tasks
//! of this host, over the file `flows` in the pool's directory; `sending` has the flows of their
//! publishers, `receiving` those of their subscribers. What is asked for or offered waits until
//! it can be: the watching thread looks, whatever changes.
//!
//! One lock for all, which nobody holds over a wait. Behind it only those of a session's streams,
//! outbox and participant are taken. What neither host says again is bounded by a deadline.

mod alone;
mod carried;
mod link;
mod pause;
mod places;
mod processes;
mod receiving;
mod sending;
mod session;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hythe_flows::Connection;
use hythe_flows::message::{FromProcess, PublicKey, Transport};
use hythe_node::{MemberIndex, Pool};

use self::alone::Alone;
pub(crate) use self::link::Link;
pub(crate) use self::pause::Pause;
use self::places::Places;
use self::processes::{Ask, ProcessId, Processes};
use self::receiving::Receiving;
use self::sending::Sending;
pub(crate) use self::session::FlowSession;
use super::local::LocalEnds;
use super::lock::lock;
use crate::error::ClusterError;
use crate::frame::{Control, EndKind, FlowSide};
use crate::status::{ChannelStatus, Direction, LinkStatus};

/// The most flows of a session in either direction, with those that wait.
const FLOWS_MAX: usize = 1024;
/// How long what is to happen may take: what was sent by the agent is to arrive, a flow is to end.
const SETTLING: Duration = Duration::from_secs(5);

/// What a process has opened for a flow.
#[derive(Clone, Copy, Debug)]
struct ReadySocket {
    port: u16,
    /// Of its UDP socket for frames; 0: it has none.
    frame_port: u16,
    /// Of the process, if the flow is to be sealed.
    key: Option<PublicKey>,
}

/// The flows of an agent.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    processes: Processes,
    sending: Sending,
    receiving: Receiving,
    alone: Alone,
    /// Number of the last flow, of either direction: a process may have both.
    last: u32,
}

impl Flows {
    /// A process has connected.
    pub(crate) fn process_came(&self, connection: Connection) {
        lock(&self.state).processes.add(connection);
    }

    /// The connections of processes, with their numbers.
    pub(crate) fn processes(&self) -> Vec<(ProcessId, Arc<Connection>)> {
        lock(&self.state).processes.connections()
    }

    /// A process says something.
    ///
    /// # Errors
    /// What makes no sense of it.
    pub(crate) fn process_said(
        &self,
        pool: &Pool,
        id: ProcessId,
        message: FromProcess,
    ) -> Result<(), String> {
        lock(&self.state).process_said(pool, id, message)
    }

    pub(crate) fn process_gone(&self, id: ProcessId) {
        lock(&self.state).process_gone(id);
    }

    /// Connections of processes whose participants are gone.
    pub(crate) fn dead_processes(&self, pool: &Pool) -> Vec<(ProcessId, Arc<Connection>)> {
        lock(&self.state).processes.dead(pool)
    }

    /// A message of the other side that is about flows.
    pub(crate) fn came(
        &self,
        session: &Arc<dyn FlowSession>,
        message: Control,
    ) -> Result<(), ClusterError> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        match message {
            Control::FlowOffer(offer) => {
                state.receiving.offered(session, offer)?;
            }
            Control::FlowWaits { flow, reason } => state.sending.waits(&**session, flow, reason),
            Control::FlowTaken(taken) => {
                state
                    .sending
                    .taken(&mut state.processes, &**session, &taken)?
            }
            Control::FlowFinish { flow } => {
                state
                    .sending
                    .finish(&mut state.processes, &**session, flow)?;
            }
            Control::FlowEnded { flow, side, reason } => match side {
                FlowSide::Sending => {
                    let key = (session.number(), flow);
                    state.receiving.end(&state.processes, key, &reason);
                }
                FlowSide::Receiving => {
                    let processes = &mut state.processes;
                    state
                        .sending
                        .ended_there(processes, &**session, flow, &reason);
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// The ends on this host are these now: begins and ends flows of a session.
    pub(crate) fn update(&self, session: &Arc<dyn FlowSession>, local: &LocalEnds) {
        session.look_at_link();
        let mut state = lock(&self.state);
        if session.is_over() {
            // Whoever ended it has said so here, or will.
            return;
        }
        let State {
            processes,
            sending,
            receiving,
            alone,
            last,
        } = &mut *state;
        let host = session.host();
        let (all, own) = (|_: &str| true, |other: &str| other == host);
        let taken = |which: &dyn Fn(&str) -> bool| {
            sending.count(which) + receiving.count(which) + alone.count(which)
        };
        let mut places = Places::of(session.pool(), taken(&own), taken(&all));
        let places = &mut places;
        sending.update(processes, session, (alone, places), last);
        receiving.update(processes, &**session, local, (places, last));
    }

    /// Everything that the publisher of a flow sent by its stream has arrived.
    pub(crate) fn arrived(&self, flow: u32) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        state.sending.arrived(&mut state.processes, flow);
    }

    /// The stream of a channel is over, and with it the port that flows were in the place of.
    pub(crate) fn stream_ended(&self, session: &dyn FlowSession, channel: &str) {
        if session.is_over() {
            // That comes first: they may go on.
            return;
        }
        let mut state = lock(&self.state);
        let state = &mut *state;
        state
            .sending
            .end_all(&mut state.processes, "its stream is over", |flow| {
                flow.is_of(session) && flow.channel == channel
            });
    }

    /// Do publishers send by flows on a channel of the session with this number?
    pub(crate) fn are_on(&self, session: u64, channel: &str) -> bool {
        lock(&self.state).sending.are_on(session, channel)
    }

    /// A session is over. Where nobody meant that (`is_broken`) flows go on that have begun: those
    /// of subscribers here are on these channels.
    pub(crate) fn session_over(
        &self,
        session: &dyn FlowSession,
        is_broken: bool,
    ) -> BTreeSet<String> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let mut channels = BTreeSet::new();
        if is_broken {
            let State {
                processes,
                sending,
                receiving,
                alone,
                ..
            } = state;
            for (who, flow) in sending.take_going(session, alone.free_places()) {
                alone.add(processes, who, flow);
            }
            for (who, flow) in receiving.take_begun(session, alone.free_places()) {
                channels.insert(flow.channel.clone());
                alone.add(processes, who, flow);
            }
        }
        let reason = "the session of the hosts is over";
        state
            .sending
            .session_over(&mut state.processes, session, reason);
        state.receiving.end_all(&state.processes, session, reason);
        channels
    }

    /// Ends flows that go on without a session, and may not any more.
    pub(crate) fn look_after_alone(&self) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        state.alone.update(&state.processes);
    }

    /// The agent stops: nothing goes on.
    pub(crate) fn end_alone(&self) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        state.alone.end_all(&state.processes);
    }

    /// How many flows with a host go on without a session.
    pub(crate) fn alone_with(&self, host: &str) -> usize {
        lock(&self.state).alone.count(|other| other == host)
    }

    pub(crate) fn status(
        &self,
        session: &dyn FlowSession,
        channels: &mut [ChannelStatus],
    ) -> LinkStatus {
        let state = lock(&self.state);
        let why = session.why_no_flows();
        for channel in channels {
            session.carrier().clone_into(&mut channel.carrier);
            if channel.kind != EndKind::Publish {
                continue;
            }
            let name = channel.channel.as_str();
            let carriage = match channel.direction {
                Direction::Sending => state.sending.status(session, name),
                Direction::Receiving => state.receiving.status(session, name),
            };
            channel.flows = carriage.flows;
            channel.flow_copies = carriage.copies;
            channel.why_not_better = carriage.reason;
            if carriage.flows > 0 {
                channel.carrier = carriage.carrier;
            } else if let Some(why) = &why {
                channel.why_not_better.clone_from(why);
            }
        }
        let (sending, offered) = state.sending.counts(session);
        let (receiving, waiting) = state.receiving.counts(session);
        LinkStatus {
            interface: session.link().interface(),
            why_no_flows: why.unwrap_or_default(),
            sending,
            receiving,
            pending: offered + waiting,
            transport: match session.link().transport() {
                Transport::Tls => "tls",
                Transport::Tcp => "tcp",
            }
            .to_owned(),
            why_sealed: session.link().trusted().err().unwrap_or_default(),
        }
    }
}

impl State {
    fn process_said(
        &mut self,
        pool: &Pool,
        id: ProcessId,
        message: FromProcess,
    ) -> Result<(), String> {
        let processes = &mut self.processes;
        match message {
            FromProcess::Hello {
                version,
                member,
                session,
            } => {
                let who = (version, MemberIndex(member), session);
                processes.hello(id, who, pool)?;
            }
            FromProcess::Ask { port, host_port } => {
                processes.ask(id, Ask { port, host_port })?;
            }
            FromProcess::Offer { port } => {
                processes.offer(id, port)?;
            }
            FromProcess::Ready {
                flow,
                port,
                frame_port,
                key,
            } => {
                if port == 0 {
                    return Err("a socket without a port".to_owned());
                }
                let socket = ReadySocket {
                    port,
                    frame_port,
                    key,
                };
                self.sending.ready(processes, (id, flow), socket);
                self.receiving.ready(processes, (id, flow), socket);
            }
            FromProcess::Carried {
                flow,
                frames,
                reason,
            } => {
                self.sending.carried((id, flow), frames, &reason);
                self.receiving.carried((id, flow), frames, &reason);
            }
            FromProcess::Left { flow } => self.sending.left(processes, (id, flow)),
            FromProcess::Ended {
                flow,
                reason,
                unconfirmed,
            } => {
                if self.alone.ended_here(processes, (id, flow), unconfirmed) {
                    return Ok(());
                }
                let what = (reason.as_str(), unconfirmed);
                self.sending.ended_here(processes, (id, flow), what);
                self.receiving.ended_here((id, flow), &reason);
            }
        }
        Ok(())
    }

    fn process_gone(&mut self, id: ProcessId) {
        self.processes.remove(id);
        self.alone.process_gone(id);
        self.sending.process_gone(id);
        self.receiving.process_gone(id);
    }
}

/// The next number.
fn next(last: &mut u32) -> u32 {
    // As many as that are not begun while the agent runs.
    *last = last.wrapping_add(1);
    *last
}
