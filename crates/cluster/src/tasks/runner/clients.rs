//! Who asks a runner over its socket. Never waits for one of them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::event::PollFd;
use rustix::event::PollFlags;

use crate::tasks::message::{LINE_BYTES_MAX, Reply, Request};

/// At once; one more is closed again.
const CLIENTS_MAX: usize = 64;
/// The longest request.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Read at one look, of one client.
const READ_BYTES: usize = 4096;

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    request: Vec<u8>,
    reply: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Clients(Vec<Client>);

impl Clients {
    /// What to wait for.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(|client| {
            let wanted = match client.reply.is_empty() {
                true => PollFlags::IN,
                false => PollFlags::OUT,
            };
            PollFd::from_borrowed_fd(client.stream.as_fd(), wanted)
        })
    }

    /// Takes in who waits.
    pub(super) fn accept(&mut self, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            if self.0.len() < CLIENTS_MAX && stream.set_nonblocking(true).is_ok() {
                self.0.push(Client {
                    stream,
                    request: Vec::new(),
                    reply: Vec::new(),
                });
            }
        }
    }

    /// Reads what has come, answers whole requests, and lets go of who went or makes no sense.
    pub(super) fn serve(&mut self, mut answer: impl FnMut(Request) -> Reply) {
        self.0.retain_mut(|client| client.serve(&mut answer));
    }
}

impl Client {
    /// False: it is done with.
    fn serve(&mut self, answer: &mut impl FnMut(Request) -> Reply) -> bool {
        if !self.flush() || !self.reply.is_empty() {
            return self.reply.len() <= LINE_BYTES_MAX;
        }
        let mut part = [0; READ_BYTES];
        match self.stream.read(&mut part) {
            Ok(0) => return false,
            Ok(read) => self.request.extend_from_slice(&part[..read]),
            Err(error) => {
                return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
            }
        }
        while let Some(end) = self.request.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.request.drain(..=end).collect();
            let reply = match serde_json::from_slice(&line) {
                Ok(request) => answer(request),
                Err(error) => Reply::Failed {
                    reason: format!("the request cannot be read: {error}"),
                },
            };
            if serde_json::to_writer(&mut self.reply, &reply).is_err() {
                return false;
            }
            self.reply.push(b'\n');
        }
        self.request.len() <= REQUEST_BYTES_MAX && self.flush()
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
