//! What the server answers: what it does itself, or what the state of the machine says.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::client::Client;
use super::{Pipe, Serving};
use crate::code::Code;
use crate::machine::{Outgoing, Reply, Request};
use crate::tid::{FIRST_HOST, Tid};

impl Serving {
    pub(super) fn answer(&mut self, number: u64, request: Request) {
        let may_ask = self.clients.get(&number).is_some_and(Client::may_ask);
        let sent = match request {
            Request::Enroll { task } => return self.enroll(number, task),
            request @ Request::Collect { .. } => return self.collect(number, request),
            _ if !may_ask => return self.reply(number, Reply::Refused(Code::SYSTEM)),
            Request::AddHosts { names } => {
                let (reply, sent) = self.add_hosts(&names);
                self.reply(number, reply);
                sent
            }
            Request::DeleteHosts { names } => {
                let (reply, sent) = self.delete_hosts(&names);
                self.reply(number, reply);
                sent
            }
            Request::SetHosts { named, others } => {
                // Where their programs are is not for other hosts to say.
                let is_far = |client: &Client| client.far_host().is_some();
                if self.clients.get(&number).is_none_or(is_far) {
                    return self.reply(number, Reply::Refused(Code::NO_HOST));
                }
                self.state.set_hosts(named, others);
                return self.reply(number, Reply::Number(0));
            }
            Request::Hosts => return self.reply(number, self.state.hosts()),
            request => match self.clients.get(&number).map(|client| client.task) {
                Some(Some(task)) => self.state.ask(task, request),
                _ => return self.reply(number, Reply::Refused(Code::SYSTEM)),
            },
        };
        self.deliver(sent);
    }

    fn reply(&mut self, number: u64, reply: Reply) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.send(&Outgoing::Reply(reply));
        }
    }

    /// Is the task on the host from which that is said?
    fn is_there(&self, client: &Client, task: Tid) -> bool {
        let host = match client.far_host() {
            Some(name) => self.state.host_named(name),
            None => Some(FIRST_HOST),
        };
        task.is_task() && host == Some(task.host())
    }

    fn enroll(&mut self, number: u64, task: Tid) {
        let Some(client) = self.clients.get(&number) else {
            return;
        };
        let reply = match (client.task, self.is_there(client, task)) {
            (Some(_), _) => Reply::Refused(Code::SYSTEM),
            (None, false) => Reply::Refused(Code::NO_HOST),
            (None, true) if self.by_task.contains_key(&task) => Reply::Refused(Code::ALREADY),
            (None, true) => {
                if let Some(client) = self.clients.get_mut(&number) {
                    client.task = Some(task);
                }
                self.by_task.insert(task, number);
                self.state.enroll(task);
                // Fits: it has 12 bits.
                Reply::Number(self.realm_number as i32)
            }
        };
        self.reply(number, reply);
    }

    /// What a task prints comes over a pipe that goes with the request; from another host it comes
    /// over the connection itself.
    fn collect(&mut self, number: u64, request: Request) {
        let Request::Collect { task, to, .. } = request else {
            return;
        };
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        let is_far = client.far_host().is_some();
        let passed = client.descriptors.pop_front();
        let is_sound = passed.is_some() || (is_far && client.task.is_none());
        let is_there = self
            .clients
            .get(&number)
            .is_some_and(|client| self.is_there(client, task));
        if !is_sound || !is_there {
            return self.reply(number, Reply::Refused(Code::BAD_PARAMETER));
        }
        let sent = self.state.ask(task, request);
        let is_done = sent.contains(&(task, Outgoing::Reply(Reply::Number(0))));
        let (replies, messages): (Vec<_>, Vec<_>) = sent
            .into_iter()
            .partition(|(_, outgoing)| matches!(outgoing, Outgoing::Reply(_)));
        if let Some(client) = self.clients.get_mut(&number) {
            replies.iter().for_each(|(_, reply)| client.send(reply));
        }
        let from = match passed {
            Some(passed) => own_end(&passed),
            None => match is_done.then(|| self.clients.remove(&number)).flatten() {
                Some(client) => client.into_output(),
                None => None,
            },
        };
        if is_done && let Some(from) = from {
            self.pipes.push(Pipe { task, to, from });
        }
        self.deliver(messages);
    }
}

/// The pipe opened anew, so that nobody who has it can make reading it wait. `None`: it is no pipe.
fn own_end(passed: &OwnedFd) -> Option<OwnedFd> {
    let kind = FileType::from_raw_mode(fstat(passed).ok()?.st_mode);
    let path = format!("/proc/self/fd/{}", passed.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match kind {
        FileType::Fifo => open(path, flags, Mode::empty()).ok(),
        _ => None,
    }
}
