//! Who asks a runner over its socket. Never waits for one of them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hythe_sys::accept::{Accepted, Acceptor};
use hythe_sys::local_socket::LocalListener;
use rustix::event::PollFd;
use rustix::event::PollFlags;

use crate::HostName;
use crate::tasks::id::{TASKS_MAX, TaskId};
use crate::tasks::message::{LINE_BYTES_MAX, Reply, Request};

/// At once; one more is closed again. Each task has a connection, and commands come and go.
const CLIENTS_MAX: usize = TASKS_MAX as usize + 128;
/// The most ends that one may wait for.
const WATCHED_MAX: usize = 1024;
/// The longest request.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Read at one look, of one client.
const READ_BYTES: usize = 4096;

/// What a runner knows of one of them.
#[derive(Debug)]
pub(super) struct Client {
    /// Unlike that of any other of this runner.
    pub(super) key: u64,
    pub(super) stream: UnixStream,
    request: Vec<u8>,
    reply: Vec<u8>,
    /// An answer follows later: it is not read meanwhile.
    awaits: bool,
    /// Whose ends it wants to know.
    pub(super) watched: Vec<TaskId>,
    /// What it has enrolled as.
    pub(super) guest: Option<TaskId>,
    /// The task for which it waits at a barrier.
    pub(super) waiting: Option<TaskId>,
    /// It is on another host.
    pub(super) from: Option<HostName>,
}

#[derive(Debug, Default)]
pub(super) struct Clients {
    all: Vec<Client>,
    last_key: u64,
    acceptor: Acceptor,
}

impl Clients {
    /// What to wait for.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        // Of one that awaits an answer the end would be told again and again.
        let looked_at = self.all.iter();
        let looked_at = looked_at.filter(|client| !client.awaits || !client.reply.is_empty());
        looked_at.map(|client| {
            let wanted = match client.reply.is_empty() {
                true => PollFlags::IN,
                false => PollFlags::OUT,
            };
            PollFd::from_borrowed_fd(client.stream.as_fd(), wanted)
        })
    }

    /// Has one of them asked what is not answered yet, though it could be?
    pub(super) fn has_requests(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|client| !client.awaits && client.end_of_line().is_some())
    }

    /// What is left of the time in which nobody is taken in.
    pub(super) fn accept_pause(&self) -> Option<Duration> {
        self.acceptor.pause()
    }

    /// Takes in who waits. Those for whom there is no descriptor are refused.
    pub(super) fn accept(&mut self, listener: &LocalListener) {
        loop {
            let accepted = listener.accept_by(&mut self.acceptor, |error| {
                tracing::warn!(
                    %error,
                    "tasks that ask the runner of this job are refused; raise the number of files \
                     that it may open (`ulimit -n`)"
                );
            });
            match accepted {
                Accepted::Connection(stream) if self.all.len() < CLIENTS_MAX => {
                    self.last_key += 1;
                    self.all.push(Client::new(stream.into(), self.last_key));
                }
                Accepted::Connection(_) => {}
                Accepted::Surplus(stream) => {
                    let mut refused = Client::new(stream.into(), 0);
                    let reason = "the runner of this job may open no more files (`ulimit -n`)";
                    let reason = reason.to_owned();
                    // It fits the socket, whether that is read or not.
                    let _ = refused.say(&Reply::Failed { reason }) && refused.flush();
                    self.acceptor.take_back(refused.stream);
                }
                Accepted::Nothing => break,
            }
        }
    }

    /// Reads what has come, answers whole requests, and lets go of who went or makes no sense.
    /// Returns the tasks that had enrolled and went.
    pub(super) fn serve(
        &mut self,
        mut answer: impl FnMut(Request, &mut Client) -> Option<Reply>,
    ) -> Vec<TaskId> {
        let mut gone = Vec::new();
        self.all.retain_mut(|client| {
            let stays = client.serve(&mut answer);
            if !stays {
                gone.extend(client.guest);
            }
            stays
        });
        gone
    }

    /// The answer that one awaits.
    pub(super) fn reply(&mut self, key: u64, reply: &Reply) {
        let mut all = self.all.iter_mut();
        if let Some(client) = all.find(|client| client.key == key) {
            client.awaits = false;
            // One that cannot be told is let go at the next look.
            let _ = client.say(reply) && client.flush();
        }
    }

    /// Tells a task that its barrier has opened, or which member is missing there.
    pub(super) fn tell_met(&mut self, task: TaskId, group: &str, missing: Option<TaskId>) {
        for client in &mut self.all {
            if client.waiting == Some(task) {
                client.waiting = None;
                let group = group.to_owned();
                let _ = client.say(&Reply::Met { group, missing }) && client.flush();
            }
        }
    }

    /// Tells those who want to know that a task has ended.
    pub(super) fn tell_end(&mut self, task: TaskId) {
        for client in &mut self.all {
            let before = client.watched.len();
            client.watched.retain(|watched| *watched != task);
            client.guest.take_if(|guest| *guest == task);
            if client.watched.len() < before {
                // One that cannot be told is let go at the next look.
                let _ = client.say(&Reply::Ended { task }) && client.flush();
            }
        }
    }
}

impl Client {
    fn new(stream: UnixStream, key: u64) -> Self {
        Self {
            key,
            stream,
            request: Vec::new(),
            reply: Vec::new(),
            awaits: false,
            watched: Vec::new(),
            guest: None,
            waiting: None,
            from: None,
        }
    }

    /// It wants to know the end of a task that runs.
    pub(super) fn watch(&mut self, task: TaskId) -> Reply {
        if self.watched.len() >= WATCHED_MAX {
            return Reply::Failed {
                reason: format!("{WATCHED_MAX} ends are waited for already"),
            };
        }
        self.watched.push(task);
        Reply::Done
    }

    /// False: it is done with.
    fn serve(&mut self, answer: &mut impl FnMut(Request, &mut Self) -> Option<Reply>) -> bool {
        if !self.flush() {
            return false;
        }
        if !self.reply.is_empty() {
            return self.reply.len() <= LINE_BYTES_MAX;
        }
        // What was read with a request that was answered late.
        if !self.answer_lines(answer) {
            return false;
        }
        if self.awaits {
            return true;
        }
        let mut part = [0; READ_BYTES];
        match self.stream.read(&mut part) {
            Ok(0) => return false,
            Ok(read) => self.request.extend_from_slice(&part[..read]),
            Err(error) => {
                let is_for_now =
                    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                return is_for_now && self.flush();
            }
        }
        self.answer_lines(answer) && self.request.len() <= REQUEST_BYTES_MAX && self.flush()
    }

    /// Answers all whole requests, up to one whose answer comes later.
    fn answer_lines(
        &mut self,
        answer: &mut impl FnMut(Request, &mut Self) -> Option<Reply>,
    ) -> bool {
        while !self.awaits
            && let Some(end) = self.end_of_line()
        {
            let line: Vec<u8> = self.request.drain(..=end).collect();
            let reply = match serde_json::from_slice(&line) {
                Ok(request) => answer(request, self),
                Err(error) => Some(Reply::Failed {
                    reason: format!("the request cannot be read: {error}"),
                }),
            };
            let Some(reply) = reply else {
                self.awaits = true;
                break;
            };
            // Of many requests at once the answers are not all kept.
            if !self.say(&reply) || self.reply.len() > LINE_BYTES_MAX {
                return false;
            }
        }
        true
    }

    fn end_of_line(&self) -> Option<usize> {
        self.request.iter().position(|byte| *byte == b'\n')
    }

    fn say(&mut self, reply: &Reply) -> bool {
        let is_said = serde_json::to_writer(&mut self.reply, reply).is_ok();
        self.reply.push(b'\n');
        is_said
    }

    fn flush(&mut self) -> bool {
        while !self.reply.is_empty() {
            match self.stream.write(&self.reply) {
                Ok(0) => return false,
                Ok(written) => drop(self.reply.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use hythe_sys::local_socket::Peers;
    use rustix::net::SocketType;

    use super::*;
    use hythe_testing::eventually;

    fn client() -> (Client, UnixStream) {
        let (stream, other) = UnixStream::pair().expect("a pair");
        stream.set_nonblocking(true).expect("set");
        (Client::new(stream, 1), other)
    }

    #[test]
    fn answers_to_many_requests_at_once_have_a_bound() {
        let mut long = |_: Request, _: &mut Client| {
            let reason = "x".repeat(LINE_BYTES_MAX / 4);
            Some(Reply::Failed { reason })
        };
        let mut request = serde_json::to_vec(&Request::List).expect("plain");
        request.push(b'\n');
        let (mut client, mut other) = client();
        other.write_all(&request.repeat(2)).expect("written");
        assert!(client.serve(&mut long));
        let (mut client, mut other) = self::client();
        other.write_all(&request.repeat(100)).expect("written");
        let mut answered = 0;
        let stays = client.serve(&mut |request: Request, client: &mut Client| {
            answered += 1;
            long(request, client)
        });
        assert!(!stays && answered == 4, "{answered}");
    }

    /// In a child, which may open no more files for a while.
    #[test]
    fn accept_is_retried_after_pause_without_descriptors() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let peers = Peers::User(hythe_sys::identity::effective_user());
        let listener = LocalListener::bind(&path, SocketType::STREAM, 8, peers).expect("bound");
        let _waits = UnixStream::connect(&path).expect("it listens");
        let in_child = || {
            let limit = getrlimit(Resource::Nofile);
            let current = Some(0);
            let none = Rlimit { current, ..limit };
            let mut clients = Clients::default();
            setrlimit(Resource::Nofile, none).expect("lowered");
            // With no number permitted at all, not even the spare descriptor helps.
            clients.accept(&listener);
            assert!(clients.all.is_empty() && clients.accept_pause().is_some());
            setrlimit(Resource::Nofile, limit).expect("raised");
            eventually("the client is accepted", || {
                clients.accept(&listener);
                !clients.all.is_empty()
            });
            i32::from(clients.all.len() == 1)
        };
        assert_eq!(hythe_sys::fork::run_in_child(in_child).expect("forked"), 1);
    }

    #[test]
    fn request_waits_behind_delayed_answer() {
        let (client, mut other) = client();
        let mut clients = Clients {
            all: vec![client],
            last_key: 1,
            acceptor: Acceptor::default(),
        };
        let mut request = serde_json::to_vec(&Request::List).expect("plain");
        request.push(b'\n');
        other.write_all(&request.repeat(3)).expect("written");
        let mut asked = 0;
        let mut serve = |clients: &mut Clients| {
            clients.serve(|_, _| {
                asked += 1;
                (asked != 2).then_some(Reply::Done)
            });
            asked
        };
        assert_eq!([serve(&mut clients), serve(&mut clients)], [2, 2]);
        assert!(clients.poll_fds().next().is_none() && !clients.has_requests());
        clients.reply(1, &Reply::NoSuchTask);
        assert!(clients.has_requests(), "though nothing more comes");
        assert_eq!(serve(&mut clients), 3);
        drop(clients);
        let mut said = String::new();
        other.read_to_string(&mut said).expect("text");
        let said: Vec<Reply> = said
            .lines()
            .map(|line| serde_json::from_str(line).expect("a reply"))
            .collect();
        assert_eq!(said, [Reply::Done, Reply::NoSuchTask, Reply::Done]);
    }
}
