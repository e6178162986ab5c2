//! TCP connections of flows: the first of each, and those that replace a broken one.
//!
//! The publisher's process connects, the subscriber's accepts; the session's thread does both. A
//! flow begins when its connection is there: one that a firewall keeps away never does, and its
//! channel stays with the agents.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hythe_node::hop::Doorbell;
use hythe_node::monotonic_ns;
use rustix::event::PollFlags;

use super::Session;
use crate::flow::{FlowId, ReceivingFlow, SendingFlow};
use crate::frames::FrameSocket;
use crate::message::{Agreed, Role, WirePlace};
use crate::position::Position;
use crate::tcp::{Connector, Destination, FlowSecret, Pipe, Progress, TcpSending};

/// Pause behind an attempt that failed.
const RETRY_NS: u64 = 100_000_000;

/// The connection of a publisher's flow, and how to make another.
#[derive(Debug)]
pub(super) struct FlowConnection {
    id: FlowId,
    host_port: u32,
    address: IpAddr,
    interface: Option<String>,
    to: Destination,
    agreed: Agreed,
    attempt: Option<Connector>,
    /// The next attempt begins at this time or later.
    retry_ns: u64,
    has_begun: bool,
    /// For the flow that begins with the connection.
    frames: Option<FrameSocket>,
    pub(super) wire: Option<WirePlace>,
}

/// Result of an attempt.
type AttemptResult = Result<(Pipe, Position), io::Error>;

impl FlowSecret {
    pub(super) fn of(agreed: &Agreed) -> Self {
        Self {
            flow: agreed.number,
            word: agreed.word,
        }
    }
}

impl FlowConnection {
    /// Does the flow wait for its first connection?
    pub(super) fn is_first(&self) -> bool {
        !self.has_begun
    }

    /// Begins an attempt.
    fn attempt(&mut self, now_ns: u64) -> io::Result<()> {
        let mut connector = Connector::open(self.address, self.interface.as_deref())?;
        connector.connect(now_ns, self.to.clone())?;
        self.attempt = Some(connector);
        Ok(())
    }

    /// Continues the attempt, if there is one; `None`: it has not ended.
    fn advance(&mut self, now_ns: u64) -> Option<AttemptResult> {
        let attempt = self.attempt.take()?;
        match attempt.advance(now_ns) {
            Ok(Progress::Waits(attempt)) => {
                self.attempt = Some(attempt);
                None
            }
            Ok(Progress::Connected(pipe, position)) => Some(Ok((pipe, position))),
            Err(error) => {
                self.retry_ns = now_ns + RETRY_NS;
                Some(Err(error))
            }
        }
    }
}

impl Session {
    /// Begins to connect to a subscriber's process, for a flow that begins then.
    pub(super) fn begin_connecting(
        &self,
        id: FlowId,
        role: Role,
        (mut connector, (address, interface)): (Connector, (IpAddr, Option<String>)),
        (to, frames, agreed): (Destination, Option<FrameSocket>, &Agreed),
    ) -> Result<(), String> {
        let Role::Send { host_port, .. } = role else {
            return Err("a subscriber's flow that connects".to_owned());
        };
        let connected = connector.connect(monotonic_ns(), to.clone());
        connected.map_err(|error| error.to_string())?;
        let connection = FlowConnection {
            id,
            host_port,
            address,
            interface,
            to,
            agreed: *agreed,
            attempt: Some(connector),
            retry_ns: 0,
            has_begun: false,
            frames,
            wire: None,
        };
        self.lock().connections.insert(id.number, connection);
        Ok(())
    }

    pub(super) fn has_connections(&self) -> bool {
        !self.lock().connections.is_empty()
    }

    /// Sockets to poll: of flows with something unsent, of attempts, and those that listen.
    pub(super) fn awaited(&self, unsent: &[Arc<SendingFlow>]) -> Vec<(Arc<OwnedFd>, PollFlags)> {
        let mut awaited: Vec<_> = unsent.iter().filter_map(|flow| flow.awaited()).collect();
        let (_, receiving) = self.flows();
        let listening = receiving.iter().flat_map(|flow| flow.listening());
        awaited.extend(listening.map(|socket| (socket, PollFlags::IN)));
        let state = self.lock();
        let attempts = state.connections.values();
        awaited.extend(attempts.filter_map(|it| it.attempt.as_ref().map(Connector::awaited)));
        awaited
    }

    /// Continues all attempts, and begins those for flows whose connections broke.
    pub(super) fn connect_flows(&self, now_ns: u64) {
        if !self.has_connections() {
            return;
        }
        let (sending, _) = self.flows();
        let broken = sending.into_iter().filter(|flow| flow.needs_connection());
        for flow in broken {
            let mut state = self.lock();
            let connection = state.connections.get_mut(&flow.id.number);
            let idle = connection.filter(|it| it.attempt.is_none() && now_ns >= it.retry_ns);
            let failed = idle.and_then(|connection| {
                connection.retry_ns = now_ns + RETRY_NS;
                connection.attempt(now_ns).err()
            });
            drop(state);
            if let Some(error) = failed {
                end_if_refused(&flow, now_ns, &error);
            }
        }
        let ended: Vec<(u32, AttemptResult)> = {
            let mut state = self.lock();
            let all = state.connections.iter_mut();
            all.filter_map(|(number, it)| it.advance(now_ns).map(|ended| (*number, ended)))
                .collect()
        };
        for (number, ended) in ended {
            self.end_attempt(now_ns, number, ended);
        }
    }

    /// A flow that waits for its first connection never begins.
    pub(super) fn end_first_attempt(&self, number: u32, reason: &str) {
        let mut state = self.lock();
        let connection = state.connections.get(&number);
        if connection.is_some_and(FlowConnection::is_first) {
            state.connections.remove(&number);
            drop(state);
            self.say_ended(number, reason.to_owned(), 0);
        }
    }

    fn end_attempt(&self, now_ns: u64, number: u32, ended: AttemptResult) {
        let begins = {
            let mut state = self.lock();
            let Some(connection) = state.connections.get_mut(&number) else {
                return;
            };
            let has_begun = std::mem::replace(&mut connection.has_begun, true);
            let id = (connection.id, connection.host_port, connection.agreed);
            (!has_begun).then(|| (id, connection.frames.take(), connection.wire.take()))
        };
        match (begins, ended) {
            (Some(((id, host_port, agreed), frames, wire)), ended) => {
                let begun = ended.map_err(|error| error.to_string());
                let begun = begun.and_then(|(pipe, _)| {
                    let (window, unreachable_ns) = (agreed.window, agreed.unreachable_ns);
                    let half = TcpSending::new(pipe, frames, window, unreachable_ns);
                    self.add_sending(id, host_port, half, &agreed)
                });
                match (begun, wire) {
                    (Ok(()), Some(wire)) => self.carry(number, Some(wire)),
                    (Ok(()), None) => {}
                    (Err(reason), _) => {
                        self.lock().connections.remove(&number);
                        self.say_ended(number, reason, 0);
                    }
                }
            }
            (None, Ok((pipe, position))) => {
                self.with_sending(number, |flow| {
                    flow.resume(now_ns, pipe, position);
                    if flow.is_held_up() {
                        self.held_up.note();
                    }
                });
            }
            (None, Err(error)) => {
                self.with_sending(number, |flow| end_if_refused(flow, now_ns, &error));
            }
        }
    }

    /// Accepts a connection of the flow's publisher, whose messages wake the port from now on. One
    /// that has ended wakes nobody: it would do so without end.
    pub(super) fn accept_connection(&self, flow: &Arc<ReceivingFlow>, now_ns: u64) {
        if flow.is_disconnected() {
            self.replace_doorbell(flow, None);
        }
        if !flow.accept(now_ns) {
            return;
        }
        let doorbell = flow.descriptor().map(|descriptor| {
            descriptor.and_then(|file| self.participant.doorbells().add_file(file))
        });
        match doorbell {
            Some(Ok(doorbell)) => self.replace_doorbell(flow, Some(doorbell)),
            // Its port would sleep beside messages that have arrived.
            Some(Err(error)) => flow.cut(&format!("its connection wakes nobody: {error}")),
            None => {}
        }
        self.announce(flow.id);
    }

    fn replace_doorbell(&self, flow: &Arc<ReceivingFlow>, doorbell: Option<Arc<Doorbell>>) {
        let mut state = self.lock();
        let mut ends = state.receiving.iter_mut();
        let before = ends
            .find(|end| Arc::ptr_eq(&end.flow, flow))
            .map(|end| std::mem::replace(&mut end.connection, doorbell));
        // Behind the lock: it takes one of its own.
        drop(state);
        drop(before);
    }
}

/// No process listens there any more: the subscriber's has ended.
fn end_if_refused(flow: &SendingFlow, now_ns: u64, error: &io::Error) {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        flow.end(
            now_ns,
            &format!("its subscriber's process has ended: {error}"),
        );
    }
}
