//! The publisher's connection attempt: connect, greet, read the answer; sealed, the handshake
//! happens with that.
//!
//! A state machine over a socket that never blocks; its owner polls the socket.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{connect, sockopt};
use rustls::ClientConfig;

use super::encoding::{FlowSecret, GREETING_BYTES};
use super::listener::{open_socket, port_of};
use super::pipe::{Pipe, Read};
use crate::position::Position;

/// One attempt takes no longer than this: a firewall that drops packets answers nothing.
const ATTEMPT_NS: u64 = 3_000_000_000;

/// An attempt.
#[derive(Debug)]
pub(crate) struct Connector {
    socket: Arc<OwnedFd>,
    stage: Stage,
}

/// Whom to connect to, and how.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) peer: SocketAddr,
    pub(crate) secret: FlowSecret,
    pub(crate) unreachable_ns: u64,
    /// `None`: in clear text.
    pub(crate) seal: Option<Arc<ClientConfig>>,
}

#[derive(Debug)]
enum Stage {
    /// Bound to its address.
    Bound,
    /// Waits for the peer's kernel.
    Connecting(Attempt),
    /// Waits for the peer's answer, of which so many bytes have arrived.
    Greeted(Attempt, Pipe, [u8; GREETING_BYTES], usize),
}

#[derive(Clone, Debug)]
struct Attempt {
    to: Destination,
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
    pub(crate) fn connect(&mut self, now_ns: u64, to: Destination) -> io::Result<()> {
        match connect(&self.socket, &to.peer) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(failed(to.peer, error.into())),
        }
        self.stage = Stage::Connecting(Attempt {
            to,
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
    pub(crate) fn advance(mut self, now_ns: u64) -> io::Result<Progress> {
        let deadline_ns = match &mut self.stage {
            Stage::Bound => return Ok(Progress::Waits(self)),
            Stage::Connecting(attempt) => {
                let peer = attempt.to.peer;
                let is_connected = is_connected(&self.socket);
                let deadline_ns = attempt.deadline_ns;
                if is_connected.map_err(|error| failed(peer, error))? {
                    let pipe = greet(&self.socket, &attempt.to);
                    let pipe = pipe.map_err(|error| failed(peer, error))?;
                    self.stage = Stage::Greeted(attempt.clone(), pipe, [0; GREETING_BYTES], 0);
                }
                deadline_ns
            }
            Stage::Greeted(attempt, pipe, answer, received) => {
                let peer = attempt.to.peer;
                match pipe.read(&mut answer[*received..]) {
                    Ok(Read::Bytes(bytes)) => *received += bytes,
                    Ok(Read::Nothing) => {}
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        return Err(io::Error::new(
                            io::ErrorKind::ConnectionAborted,
                            format!("{peer} does not accept the connection"),
                        ));
                    }
                    Err(error) => return Err(failed(peer, error)),
                }
                attempt.deadline_ns
            }
        };
        if let Stage::Greeted(attempt, pipe, answer, GREETING_BYTES) = self.stage {
            let Destination { peer, secret, .. } = attempt.to;
            let position = Position::of_answer(&answer, secret.flow)
                .ok_or_else(|| io::Error::other(format!("{peer} answers with foreign bytes")))?;
            return Ok(Progress::Connected(pipe, position));
        }
        if now_ns >= deadline_ns {
            return Err(io::Error::new(io::ErrorKind::TimedOut, self.late()));
        }
        Ok(Progress::Waits(self))
    }

    fn late(&self) -> String {
        let seconds = ATTEMPT_NS / 1_000_000_000;
        match &self.stage {
            Stage::Bound => format!("no TCP connection within {seconds} s"),
            Stage::Connecting(attempt) => {
                format!(
                    "no TCP connection to {} within {seconds} s",
                    attempt.to.peer
                )
            }
            Stage::Greeted(attempt, ..) => {
                format!("{} does not answer within {seconds} s", attempt.to.peer)
            }
        }
    }
}

/// Sends the greeting over a socket that has just connected.
fn greet(socket: &Arc<OwnedFd>, to: &Destination) -> io::Result<Pipe> {
    let seal = to.seal.as_ref().map(|config| (config, to.peer.ip()));
    let mut pipe = Pipe::connected(Arc::clone(socket), to.unreachable_ns, seal)?;
    // It fits the buffer of a socket that has sent nothing.
    pipe.send(&mut [IoSlice::new(&to.secret.greeting())])?;
    Ok(pipe)
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
