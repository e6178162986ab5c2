//! The publisher's connection attempt: connect, greet, read the answer.
//!
//! A state machine over a socket that never blocks; its owner polls the socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, connect, recv, send, sockopt};

use super::encoding::{FlowSecret, GREETING_BYTES, Position};
use super::listener::{open_socket, port_of};
use super::pipe::Pipe;

/// One attempt takes no longer than this: a firewall that drops packets answers nothing.
const ATTEMPT_NS: u64 = 3_000_000_000;

/// An attempt.
#[derive(Debug)]
pub(crate) struct Connector {
    socket: Arc<OwnedFd>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Bound to its address.
    Bound,
    /// Waits for the peer's kernel.
    Connecting(Attempt),
    /// Waits for the peer's answer, of which so many bytes have arrived.
    Greeted(Attempt, [u8; GREETING_BYTES], usize),
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    secret: FlowSecret,
    peer: SocketAddr,
    deadline_ns: u64,
}

/// Result of a step.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The socket is to be polled.
    Waits(Connector),
    /// The connection is the flow's from now on.
    Connected(Pipe, Position),
}

impl Connector {
    /// A socket on an address of this host; its packets leave and arrive by that interface, if one
    /// is named.
    pub(crate) fn open(address: IpAddr, interface: Option<&str>) -> io::Result<Self> {
        Ok(Self {
            socket: Arc::new(open_socket(address, interface)?),
            stage: Stage::Bound,
        })
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        port_of(&self.socket)
    }

    /// Begins to connect.
    pub(crate) fn connect(
        &mut self,
        now_ns: u64,
        peer: SocketAddr,
        secret: FlowSecret,
    ) -> io::Result<()> {
        match connect(&self.socket, &peer) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(failed(peer, error.into())),
        }
        self.stage = Stage::Connecting(Attempt {
            secret,
            peer,
            deadline_ns: now_ns + ATTEMPT_NS,
        });
        Ok(())
    }

    /// The socket, and what is awaited of it.
    pub(crate) fn awaited(&self) -> (Arc<OwnedFd>, PollFlags) {
        let flags = match self.stage {
            Stage::Greeted(..) => PollFlags::IN,
            Stage::Bound | Stage::Connecting(_) => PollFlags::OUT,
        };
        (Arc::clone(&self.socket), flags)
    }

    /// Continues as far as it can without waiting.
    ///
    /// # Errors
    /// The attempt failed.
    pub(crate) fn advance(mut self, now_ns: u64, unreachable_ns: u64) -> io::Result<Progress> {
        let (attempt, is_done) = match &mut self.stage {
            Stage::Bound => return Ok(Progress::Waits(self)),
            Stage::Connecting(attempt) => {
                let attempt = *attempt;
                let is_connected = is_connected(&self.socket);
                if is_connected.map_err(|error| failed(attempt.peer, error))? {
                    // It fits the buffer of a socket that has sent nothing.
                    let greeting = attempt.secret.greeting();
                    let sent = send(&self.socket, &greeting, SendFlags::NOSIGNAL);
                    sent.map_err(|error| failed(attempt.peer, error.into()))?;
                    self.stage = Stage::Greeted(attempt, [0; GREETING_BYTES], 0);
                }
                (attempt, false)
            }
            Stage::Greeted(attempt, answer, received) => {
                match recv(&self.socket, &mut answer[*received..], RecvFlags::empty()) {
                    Ok((0, _)) => {
                        return Err(io::Error::new(
                            io::ErrorKind::ConnectionRefused,
                            format!("{} does not accept the connection", attempt.peer),
                        ));
                    }
                    Ok((bytes, _)) => *received += bytes,
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(error) => return Err(failed(attempt.peer, error.into())),
                }
                (*attempt, *received == GREETING_BYTES)
            }
        };
        if let (true, Stage::Greeted(_, answer, _)) = (is_done, &self.stage) {
            let position = Position::of_answer(answer, attempt.secret.flow).ok_or_else(|| {
                io::Error::other(format!("{} answers with foreign bytes", attempt.peer))
            })?;
            let pipe = Pipe::new(self.socket, unreachable_ns)?;
            return Ok(Progress::Connected(pipe, position));
        }
        if now_ns >= attempt.deadline_ns {
            let seconds = ATTEMPT_NS / 1_000_000_000;
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no TCP connection to {} within {seconds} s", attempt.peer),
            ));
        }
        Ok(Progress::Waits(self))
    }
}

/// False: not yet.
fn is_connected(socket: &OwnedFd) -> io::Result<bool> {
    sockopt::socket_error(socket)??;
    match rustix::net::getpeername(socket) {
        Ok(_) => Ok(true),
        Err(Errno::NOTCONN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn failed(peer: SocketAddr, error: io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("no TCP connection to {peer}: {error}"),
    )
}
