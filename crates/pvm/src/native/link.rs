//! A task's connection to the server of its machine.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hythe_cluster::tasks::{TaskId, connect_to_service};
use hythe_node::{Pool, PoolOptions};
use hythe_sys::own_file::OwnFile;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use super::place::{Place, started};
use crate::code::Code;
use crate::hostfile::Hostfile;
use crate::machine::{Host, Outgoing, Reply, Request};
use crate::numbers::tid_of;
use crate::server::socket_path;
use crate::session::variables;
use crate::tid::Tid;
use crate::wire;

const READ_BYTES: usize = 64 << 10;
/// How long a reply is waited for at a time: as long as it takes, since others may have to come.
const WAIT: Duration = Duration::from_secs(10);
/// The server reads at once; one that was stopped by a signal does not.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Link {
    stream: OwnFile<UnixStream>,
    came: Vec<u8>,
    /// What is read goes here first.
    space: Vec<u8>,
    messages: VecDeque<Vec<u8>>,
    /// A request was sent whose reply was not taken.
    is_asked: bool,
    reply: Option<Reply>,
    /// The machine is on another host: no descriptors come there.
    is_far: bool,
}

impl Link {
    /// The machine of a task, which is where its job began, or of a pool, which has this directory.
    pub(super) fn connect(directory: &Path, task: Option<TaskId>) -> Result<Self, Code> {
        let far = match task {
            Some(task) => connect_to_service(directory, task).map_err(|error| {
                tracing::warn!(%error, "the machine cannot be reached");
                Code::SYSTEM
            })?,
            None => None,
        };
        let is_far = far.is_some();
        let stream = match far {
            Some(stream) => stream,
            None => UnixStream::connect(socket_path(directory)).map_err(|_| Code::SYSTEM)?,
        };
        let limited = stream.set_write_timeout(Some(WRITE_TIMEOUT));
        limited.map_err(|_| Code::SYSTEM)?;
        Ok(Self {
            stream: OwnFile::new(stream),
            came: Vec::new(),
            space: vec![0; READ_BYTES],
            messages: VecDeque::new(),
            is_asked: false,
            reply: None,
            is_far,
        })
    }

    /// Asks, and waits for the reply.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Reply, Code> {
        self.begin(request)?;
        self.wait_for_reply()
    }

    /// Asks. Replies have no numbers, so nothing else is asked before [`Link::reply`] has it.
    pub(super) fn begin(&mut self, request: &Request) -> Result<(), Code> {
        if self.is_asked {
            return Err(Code::SYSTEM);
        }
        let mut bytes = Vec::new();
        wire::append(&mut bytes, request)?;
        self.check_open()?;
        (&*self.stream)
            .write_all(&bytes)
            .map_err(|_| Code::SYSTEM)?;
        self.is_asked = true;
        Ok(())
    }

    /// The reply, waiting for at most so long.
    pub(super) fn reply(&mut self, timeout: Duration) -> Result<Option<Reply>, Code> {
        if !self.is_asked {
            return Err(Code::SYSTEM);
        }
        if self.reply.is_none() {
            self.check_open()?;
            let mut waited_for = [PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::IN)];
            // What it says is found out by reading.
            let _ = hythe_sys::wait::poll_or_sleep(&mut waited_for, timeout);
            self.read()?;
            self.sort()?;
        }
        let reply = self.reply.take();
        self.is_asked = reply.is_none();
        Ok(reply)
    }

    fn wait_for_reply(&mut self) -> Result<Reply, Code> {
        loop {
            if let Some(reply) = self.reply(WAIT)? {
                return Ok(reply);
            }
        }
    }

    /// A message of the machine itself, if one has come.
    pub(super) fn next_message(&mut self) -> Result<Option<Vec<u8>>, Code> {
        if let Some(message) = self.messages.pop_front() {
            return Ok(Some(message));
        }
        self.read()?;
        self.sort()?;
        Ok(self.messages.pop_front())
    }

    /// Sorts what has come. A reply to nothing is nobody's.
    fn sort(&mut self) -> Result<(), Code> {
        while let Some(outgoing) = wire::take(&mut self.came)? {
            match outgoing {
                Outgoing::Reply(reply) if self.is_asked => self.reply = Some(reply),
                Outgoing::Reply(_) => {}
                Outgoing::Message(frame) => self.messages.push_back(frame),
            }
        }
        Ok(())
    }

    /// An error: the program has closed its descriptor, whose number may be another file's.
    pub(super) fn check_open(&self) -> Result<(), Code> {
        match self.stream.is_open() {
            true => Ok(()),
            false => Err(Code::SYSTEM),
        }
    }

    /// Reads what is there, without waiting.
    fn read(&mut self) -> Result<(), Code> {
        // Nearly always nothing is there. Before reading, it is asked whose descriptor this is.
        let peek = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        if matches!(recv(&self.stream, &mut [0; 1], peek), Err(Errno::AGAIN)) {
            return Ok(());
        }
        self.check_open()?;
        loop {
            match recv(&self.stream, &mut self.space[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Code::SYSTEM),
                Ok((read, _)) => {
                    self.came.extend_from_slice(&self.space[..read]);
                    if read < self.space.len() {
                        return Ok(());
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(Code::SYSTEM),
            }
        }
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

/// Takes hosts into the machine of a pool, for a process that is no task: all hosts that it has
/// then. One that cannot be reached is not among them. The file says what holds for them, and for
/// hosts that come later.
///
/// # Errors
/// [`Code::SYSTEM`]: nobody serves a machine there.
pub fn take_in_hosts(
    pool: &Pool,
    names: Vec<String>,
    file: Option<&Hostfile>,
) -> Result<Vec<Host>, Code> {
    let mut link = Link::connect(&pool.path(), None)?;
    if let Some(file) = file {
        link.ask(&Request::SetHosts {
            named: file.settings(),
            others: file.others.clone(),
        })?;
    }
    link.ask(&Request::AddHosts { names })?;
    match link.ask(&Request::Hosts)? {
        Reply::Hosts(hosts) => Ok(hosts),
        _ => Err(Code::SYSTEM),
    }
}

/// What this process prints goes to the task that its parent said, if it said one. Called when the
/// library is loaded, before the program prints; never starts a thread.
///
/// # Errors
/// What the system says; then it prints as before.
pub fn collect_output() -> io::Result<()> {
    let missing = || io::Error::from(ErrorKind::NotFound);
    let Some(output) = hythe_sys::environment::text(variables::OUTPUT) else {
        return Ok(());
    };
    let words: Vec<i32> = output
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [to, tag, context] = words[..] else {
        return Err(missing());
    };
    if !Tid::from_number(to).is_task() {
        return Ok(());
    }
    let own = started().ok_or_else(missing)?;
    let place = Place::of_this_process();
    let pool = hythe_sys::environment::text("HYTHE_POOL").ok_or_else(missing)?;
    let directory = PoolOptions::new(&pool).path();
    let parent = std::env::var("HYTHE_PARENT").ok();
    let parent = parent.and_then(|text| text.parse::<TaskId>().ok());
    let request = Request::Collect {
        task: tid_of(own, place.own).ok_or_else(missing)?,
        parent: parent.and_then(|parent| place.parent(parent)),
        to: Tid::from_number(to),
        tag,
        context,
    };
    let refused = |_: Code| io::Error::from(ErrorKind::ConnectionRefused);
    let mut link = Link::connect(&directory, Some(own)).map_err(refused)?;
    if link.is_far {
        // What is printed goes where the request did.
        return match link.ask(&request).map_err(refused)? {
            Reply::Number(_) => {
                link.stream.set_write_timeout(None)?;
                rustix::stdio::dup2_stdout(&link.stream)?;
                rustix::stdio::dup2_stderr(&link.stream)?;
                Ok(())
            }
            _ => Err(io::Error::from(ErrorKind::ConnectionRefused)),
        };
    }
    let (from, into) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let mut bytes = Vec::new();
    wire::append(&mut bytes, &request).map_err(refused)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [from.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let slices = [IoSlice::new(&bytes)];
    // A request is short, so it goes as a whole.
    sendmsg(&link.stream, &slices, &mut control, SendFlags::NOSIGNAL)?;
    link.is_asked = true;
    match link.wait_for_reply().map_err(refused)? {
        Reply::Number(_) => {}
        _ => return Err(io::Error::from(ErrorKind::ConnectionRefused)),
    }
    rustix::stdio::dup2_stdout(&into)?;
    rustix::stdio::dup2_stderr(&into)?;
    Ok(())
}
