//! The processes of this host that know flows: who they are, what they ask for and offer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use hythe_flows::Connection;
use hythe_flows::message::{FromAgent, VERSION};
use hythe_node::hop::HopPool as _;
use hythe_node::{MemberIndex, Pool, PortIndex};
use hythe_pool::{ChannelIndex, PortInfo, PortKind};

/// The most connections: a pool has fewer participants, and one may come anew before it is known
/// that it went.
const PROCESSES_MAX: usize = 512;
/// The most ports that a process may ask for, and offer.
const PORTS_MAX: usize = 8192;

/// Number of a connection.
pub(super) type ProcessId = u64;

/// The processes that are connected.
#[derive(Debug, Default)]
pub(super) struct Processes {
    by_id: BTreeMap<ProcessId, Process>,
    last: ProcessId,
}

#[derive(Debug)]
struct Process {
    connection: Arc<Connection>,
    /// The participant that it is, and its session, once it has said so.
    owner: Option<(MemberIndex, u32)>,
    asks: BTreeMap<Ask, Option<Instant>>,
    offers: BTreeSet<u32>,
}

/// A publisher's port, and a host's that it would not send to any more. Kept for as long as the
/// process: what it means is looked up each time, since ports come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ask {
    pub(super) port: u32,
    pub(super) host_port: u32,
}

impl Processes {
    pub(super) fn add(&mut self, connection: Connection) {
        if self.by_id.len() >= PROCESSES_MAX {
            tracing::warn!(
                most = PROCESSES_MAX,
                "one process too many: it gets no flows"
            );
            return;
        }
        self.last += 1;
        let process = Process {
            connection: Arc::new(connection),
            owner: None,
            asks: BTreeMap::new(),
            offers: BTreeSet::new(),
        };
        self.by_id.insert(self.last, process);
    }

    pub(super) fn connections(&self) -> Vec<(ProcessId, Arc<Connection>)> {
        let all = self.by_id.iter();
        all.map(|(id, process)| (*id, Arc::clone(&process.connection)))
            .collect()
    }

    pub(super) fn remove(&mut self, id: ProcessId) {
        self.by_id.remove(&id);
    }

    /// Who it is.
    pub(super) fn hello(
        &mut self,
        id: ProcessId,
        (version, member, session): (u32, MemberIndex, u32),
        pool: &Pool,
    ) -> Result<(), String> {
        if version != VERSION {
            return Err(format!("it speaks version {version}, this agent {VERSION}"));
        }
        let process = self.by_id.get_mut(&id).ok_or("it is gone")?;
        if process.owner.is_some() {
            return Err("a second hello".to_owned());
        }
        if !pool.control().tables().is_current(member, session) {
            return Err(format!("participant {} has another session", member.0));
        }
        process.owner = Some((member, session));
        Ok(())
    }

    pub(super) fn ask(&mut self, id: ProcessId, ask: Ask) -> Result<(), String> {
        let asks = &mut self.known(id)?.asks;
        asks.entry(ask).or_default();
        check(asks.len(), "asks for")
    }

    pub(super) fn offer(&mut self, id: ProcessId, port: u32) -> Result<(), String> {
        let offers = &mut self.known(id)?.offers;
        offers.insert(port);
        check(offers.len(), "offers")
    }

    fn known(&mut self, id: ProcessId) -> Result<&mut Process, String> {
        let process = self.by_id.get_mut(&id);
        let process = process.filter(|process| process.owner.is_some());
        process.ok_or_else(|| "it has not said who it is".to_owned())
    }

    /// What is asked for and may be tried now.
    pub(super) fn asks(&self, now: Instant) -> Vec<(ProcessId, Ask)> {
        let of = |(id, process): (&ProcessId, &Process)| {
            let id = *id;
            let due = process.asks.iter();
            let due = due.filter(|(_, retry)| retry.is_none_or(|retry| retry <= now));
            due.map(|(ask, _)| (id, *ask)).collect::<Vec<_>>()
        };
        self.by_id.iter().flat_map(of).collect()
    }

    /// It did not come to a flow, or that has ended.
    pub(super) fn retry(&mut self, id: ProcessId, ask: Ask, at: Instant) {
        let process = self.by_id.get_mut(&id);
        if let Some(retry) = process.and_then(|process| process.asks.get_mut(&ask)) {
            *retry = Some(at);
        }
    }

    /// The publisher's port, if it is one of that process.
    pub(super) fn publisher(&self, id: ProcessId, port: u32, pool: &Pool) -> Option<PortInfo> {
        self.port(id, port, pool)
            .filter(|info| info.kind == PortKind::Publisher)
    }

    /// The process that is this participant and offers a subscriber on the channel.
    pub(super) fn subscriber(
        &self,
        member: MemberIndex,
        channel: ChannelIndex,
        pool: &Pool,
    ) -> Option<(ProcessId, PortInfo)> {
        self.by_id.iter().find_map(|(id, process)| {
            process.owner.filter(|(owner, _)| *owner == member)?;
            let mut offers = process.offers.iter();
            offers.find_map(|port| {
                let info = self.port(*id, *port, pool)?;
                let fits = info.kind == PortKind::Subscriber && info.channel == channel;
                fits.then_some((*id, info))
            })
        })
    }

    fn port(&self, id: ProcessId, port: u32, pool: &Pool) -> Option<PortInfo> {
        let (member, session) = self.by_id.get(&id)?.owner?;
        let info = pool.control().tables().port(PortIndex(port))?;
        (info.member == member && info.session == session).then_some(info)
    }

    /// It has no flows any more.
    pub(super) fn close(&self, id: ProcessId, reason: &str) {
        if let Some(process) = self.by_id.get(&id) {
            tracing::debug!(reason, "closed the connection of a process");
            process.connection.close();
        }
    }

    /// Those whose participants have gone, though something keeps their connections: a forked copy
    /// for instance.
    pub(super) fn dead(&self, pool: &Pool) -> Vec<(ProcessId, Arc<Connection>)> {
        let tables = pool.control().tables();
        let is_dead = |process: &Process| {
            let owner = process.owner;
            owner.is_some_and(|(member, session)| !tables.is_current(member, session))
        };
        let dead = self.by_id.iter().filter(|(_, process)| is_dead(process));
        dead.map(|(id, process)| (*id, Arc::clone(&process.connection)))
            .collect()
    }

    /// A process that takes nothing in is no use.
    pub(super) fn tell(&self, id: ProcessId, message: &FromAgent) {
        let Some(process) = self.by_id.get(&id) else {
            return;
        };
        if let Err(error) = process.connection.send(message) {
            tracing::debug!(%error, "lost a process");
            process.connection.close();
        }
    }
}

fn check(count: usize, what: &str) -> Result<(), String> {
    match count <= PORTS_MAX {
        true => Ok(()),
        false => Err(format!("it {what} more than {PORTS_MAX} ports")),
    }
}

#[cfg(test)]
mod tests {
    use hythe_flows::Listener;
    use hythe_sys::accept::Acceptor;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn agent_drops_connection_of_process_that_reads_nothing() {
        let folder = TempDir::new().expect("made");
        let listener = Listener::open(folder.path()).expect("listens");
        let process = Connection::open(folder.path()).expect("connected");
        let mut processes = Processes::default();
        let accepted = listener.accept(&mut Acceptor::default(), |error| panic!("{error}"));
        processes.add(accepted.expect("connected"));
        let (id, connection) = processes.connections().remove(0);
        let reason = "r".repeat(900);
        let end = FromAgent::End { flow: 1, reason };
        // Stopped, it reads none of them. The socket's buffer is all that they fill.
        let mut told = 0;
        while connection.receive::<FromAgent>().is_ok() {
            processes.tell(id, &end);
            told += 1;
            assert!(told < 100_000, "{told} messages are kept");
        }
        let mut heard = 0;
        while let Ok(Some(message)) = process.receive::<FromAgent>() {
            assert_eq!(message, end);
            heard += 1;
        }
        assert_eq!(heard, told - 1, "and then it sees the end");
        assert!(process.receive::<FromAgent>().is_err());
    }
}
