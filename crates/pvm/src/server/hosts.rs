//! The machine's other hosts: each is watched over a connection to the agent of this one, which
//! ends with the session of the two.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use hythe_cluster::HostName;
use hythe_cluster::tasks::{FoundHost, find_host, watch_host};
use rustix::event::{PollFd, PollFlags};

use super::Serving;
use crate::code::Code;
use crate::machine::{Outgoing, Reply};
use crate::tid::{FIRST_HOST, Tid};

/// How long the agent is asked about hosts of one request; about the one that it does not answer
/// then, that long again.
const ASKING: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct OtherHost {
    host: Tid,
    watch: UnixStream,
}

impl OtherHost {
    /// Ready once it is gone.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.watch, PollFlags::IN)
    }

    fn is_gone(&self) -> bool {
        match (&self.watch).read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

impl Serving {
    /// The number of each, or why it is not taken in.
    pub(super) fn add_hosts(&mut self, names: &[String]) -> (Reply, Vec<(Tid, Outgoing)>) {
        let (mut numbers, mut sent) = (Vec::new(), Vec::new());
        let mut added = Vec::new();
        let since = Instant::now();
        for (index, name) in names.iter().enumerate() {
            let watch = match self.state.host_named(name) {
                Some(_) => Err(Code::DUPLICATE_HOST),
                // All tasks of the machine wait meanwhile.
                None if since.elapsed() > ASKING => Err(Code::CANNOT_START),
                None => self.watch(name),
            };
            numbers.push(watch.as_ref().err().map_or(0, |code| code.number()));
            added.extend(watch.ok().map(|watch| (index, name.clone(), watch)));
        }
        let wanted: Vec<String> = added.iter().map(|(_, name, _)| name.clone()).collect();
        let (outcomes, notices) = self.state.add_hosts(&wanted);
        sent.extend(notices);
        for ((index, _, (watch, found)), outcome) in added.into_iter().zip(outcomes) {
            numbers[index] = match outcome {
                Ok(host) => {
                    let pointer_bytes = found.pointer_bytes.into();
                    self.state
                        .describe_host(host, pointer_bytes, found.is_big_endian);
                    self.others.push(OtherHost { host, watch });
                    host.number()
                }
                Err(code) => code.number(),
            };
        }
        (Reply::Numbers(numbers), sent)
    }

    /// The agent of this host answers at once, or is asked for 10 s at most; that of the other one
    /// for 6 s.
    fn watch(&self, name: &str) -> Result<(UnixStream, FoundHost), Code> {
        let name: HostName = name.parse().map_err(|_| Code::NO_HOST)?;
        if self.realm_number == 0 {
            return Err(Code::NO_HOST);
        }
        let watch = watch_host(&self.pool, &name).map_err(|error| {
            tracing::warn!(%error, "a host is not taken into the machine");
            Code::NO_HOST
        })?;
        watch.set_nonblocking(true).map_err(|_| Code::SYSTEM)?;
        let found = find_host(&self.pool, &name).map_err(|error| {
            tracing::warn!(%error, "a host does not say what it is");
            Code::CANNOT_START
        })?;
        Ok((watch, found))
    }

    /// 0 for each that is out, or why it is not.
    pub(super) fn delete_hosts(&mut self, names: &[String]) -> (Reply, Vec<(Tid, Outgoing)>) {
        let (mut numbers, mut sent) = (Vec::new(), Vec::new());
        for name in names {
            numbers.push(match self.state.host_named(name) {
                None => Code::NO_HOST.number(),
                // Where the machine is goes last.
                Some(FIRST_HOST) => Code::BAD_PARAMETER.number(),
                Some(host) => {
                    sent.extend(self.lose_host(host));
                    0
                }
            });
        }
        (Reply::Numbers(numbers), sent)
    }

    pub(super) fn look_at_hosts(&mut self) {
        let gone = self.others.iter().filter(|other| other.is_gone());
        for host in gone.map(|other| other.host).collect::<Vec<_>>() {
            let sent = self.lose_host(host);
            self.deliver(sent);
        }
    }

    /// Its tasks are none of the machine any more, whatever they do.
    fn lose_host(&mut self, host: Tid) -> Vec<(Tid, Outgoing)> {
        self.others.retain(|other| other.host != host);
        let sent = self.state.remove_host(host);
        let there = self.by_task.iter().filter(|(task, _)| task.host() == host);
        for number in there.map(|(_, number)| *number).collect::<Vec<_>>() {
            self.clients.remove(&number);
        }
        self.by_task.retain(|task, _| task.host() != host);
        sent
    }
}
