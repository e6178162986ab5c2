//! The subscriber's listening socket, until its flow ends.
//!
//! Anybody on the link can connect to it. A connection is the flow's when it comes from the
//! publisher's host, proves to have the publisher's key if the flow is sealed, and begins with the
//! flow's secret; others are closed. A later connection of the
//! publisher replaces the one before.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hythe_sys::socket_option::bind_to_interface;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, acceptfrom_with, bind, getsockname, listen, socket_with,
};
use rustls::ServerConfig;

use super::encoding::{FlowSecret, GREETING_BYTES};
use super::pipe::{Pipe, Read};
use crate::position::Position;

/// Connections whose greeting has not arrived; a further one replaces the oldest.
const PENDING_MAX: usize = 4;
/// A connection that has not greeted within this time is closed.
const GREETING_NS: u64 = 5_000_000_000;
/// Connections that the kernel keeps until the session's thread accepts them.
const BACKLOG: i32 = 16;
const SOCKET_FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A listening socket, with the connections that have not greeted.
#[derive(Debug)]
pub(crate) struct FlowListener {
    socket: Arc<OwnedFd>,
    pending: Vec<Pending>,
}

/// A connection of somebody.
#[derive(Debug)]
struct Pending {
    pipe: Pipe,
    greeting: [u8; GREETING_BYTES],
    received: usize,
    deadline_ns: u64,
}

/// Whose connection is accepted, and for how long it may be silent.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) peer: IpAddr,
    pub(super) secret: FlowSecret,
    pub(super) unreachable_ns: u64,
    /// `None`: in clear text.
    pub(super) seal: Option<Arc<ServerConfig>>,
}

impl FlowListener {
    /// Listens on an address of this host, at a port that the kernel chooses; packets leave and
    /// arrive by that interface, if one is named.
    pub(crate) fn open(address: IpAddr, interface: Option<&str>) -> io::Result<Self> {
        let socket = open_socket(address, interface)?;
        listen(&socket, BACKLOG)?;
        Ok(Self {
            socket: Arc::new(socket),
            pending: Vec::new(),
        })
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        port_of(&self.socket)
    }

    /// Sockets that become readable when [`accept`](Self::accept) has something to do.
    pub(super) fn sockets(&self) -> impl Iterator<Item = Arc<OwnedFd>> {
        let pending = self.pending.iter().map(|pending| pending.pipe.shared());
        std::iter::once(Arc::clone(&self.socket)).chain(pending)
    }

    /// The publisher's connection, if there is a new one: its greeting is answered with `position`.
    pub(super) fn accept(
        &mut self,
        now_ns: u64,
        expected: &Expected,
        position: Position,
    ) -> Option<Pipe> {
        let mut accepted = None;
        for _ in 0..BACKLOG {
            let Ok((socket, from)) = acceptfrom_with(&self.socket, SOCKET_FLAGS) else {
                break;
            };
            if from
                .and_then(|from| SocketAddr::try_from(from).ok())
                .map(|from| from.ip())
                != Some(expected.peer)
            {
                continue;
            }
            let (socket, unreachable_ns) = (Arc::new(socket), expected.unreachable_ns);
            let pipe = Pipe::accepted(socket, unreachable_ns, expected.seal.as_ref());
            let Ok(pipe) = pipe else {
                continue;
            };
            if self.pending.len() == PENDING_MAX {
                // The oldest may have greeted meanwhile.
                accepted = self.judge(now_ns, expected).or(accepted);
            }
            if self.pending.len() == PENDING_MAX {
                self.pending.remove(0);
            }
            self.pending.push(Pending {
                pipe,
                greeting: [0; GREETING_BYTES],
                received: 0,
                deadline_ns: now_ns + GREETING_NS,
            });
        }
        let mut pipe = self.judge(now_ns, expected).or(accepted)?;
        let answer = position.answer(expected.secret.flow);
        // It fits the buffer of a socket that has sent next to nothing.
        let sent = pipe.send(&mut [IoSlice::new(&answer)]).ok()?;
        (sent == answer.len()).then_some(pipe)
    }

    /// Reads all greetings: the connection whose is the flow's, and closes those that are not.
    fn judge(&mut self, now_ns: u64, expected: &Expected) -> Option<Pipe> {
        let mut accepted = None;
        for mut pending in std::mem::take(&mut self.pending) {
            match pending.read() {
                Ok(false) if now_ns < pending.deadline_ns => self.pending.push(pending),
                Ok(true) if expected.secret.matches(&pending.greeting) => {
                    accepted = Some(pending.pipe);
                }
                Ok(_) | Err(_) => {}
            }
        }
        accepted
    }
}

impl Pending {
    /// True: the greeting is whole.
    fn read(&mut self) -> io::Result<bool> {
        if let Read::Bytes(bytes) = self.pipe.read(&mut self.greeting[self.received..])? {
            self.received += bytes;
        }
        Ok(self.received == GREETING_BYTES)
    }
}

/// A TCP socket on an address of this host, at a port that the kernel chooses.
pub(super) fn open_socket(address: IpAddr, interface: Option<&str>) -> io::Result<OwnedFd> {
    let family = match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SOCKET_FLAGS, None)?;
    // Before it is bound: its route is that of the interface.
    interface.map_or(Ok(()), |name| bind_to_interface(&socket, name))?;
    bind(&socket, &SocketAddr::new(address, 0))?;
    Ok(socket)
}

pub(super) fn port_of(socket: &OwnedFd) -> io::Result<u16> {
    let address = SocketAddr::try_from(getsockname(socket)?)?;
    Ok(address.port())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    const SECRET: FlowSecret = FlowSecret { flow: 7, word: 11 };
    const POSITION: Position = Position {
        received: 5,
        accepted: 4,
    };

    fn here() -> IpAddr {
        [127, 0, 0, 1].into()
    }

    fn expected(peer: IpAddr) -> Expected {
        Expected {
            peer,
            secret: SECRET,
            unreachable_ns: 2_000_000_000,
            seal: None,
        }
    }

    /// A listener, and a connection to it that has sent these bytes.
    fn connected(listener: &FlowListener, bytes: &[u8]) -> TcpStream {
        let port = listener.port().expect("bound");
        let mut stream = TcpStream::connect((here(), port)).expect("connects");
        stream.write_all(bytes).expect("sent");
        stream
    }

    fn accepted(listener: &mut FlowListener, peer: IpAddr) -> Option<Pipe> {
        let mut accepted = None;
        hythe_testing::eventually("it is judged", || {
            accepted = listener.accept(1, &expected(peer), POSITION);
            accepted.is_some() || listener.pending.is_empty()
        });
        accepted
    }

    #[test]
    fn listener_accepts_publisher_with_secret() {
        let mut listener = FlowListener::open(here(), Some("lo")).expect("listens");
        let silent = connected(&listener, b"HYTHE");
        let mut stream = connected(&listener, &SECRET.greeting());
        let mut pipe = None;
        hythe_testing::eventually("it is accepted", || {
            pipe = listener.accept(1, &expected(here()), POSITION);
            pipe.is_some()
        });
        let mut answer = [0; GREETING_BYTES];
        stream.read_exact(&mut answer).expect("answered");
        assert_eq!(Position::of_answer(&answer, 7), Some(POSITION));
        // One that does not greet is closed after a while.
        assert_eq!(listener.pending.len(), 1);
        let late_ns = 2 * GREETING_NS;
        assert!(
            listener
                .accept(late_ns, &expected(here()), POSITION)
                .is_none()
        );
        assert!(listener.pending.is_empty());
        drop(silent);
    }

    #[test]
    fn listener_closes_connections_of_strangers() {
        let mut listener = FlowListener::open(here(), None).expect("listens");
        let wrong = FlowSecret { word: 12, ..SECRET };
        let mut stream = connected(&listener, &wrong.greeting());
        assert!(accepted(&mut listener, here()).is_none());
        assert!(
            !matches!(stream.read(&mut [0; 32]), Ok(1..)),
            "it is closed unanswered"
        );
        // The right secret from another host.
        let other = [127, 0, 0, 2].into();
        let mut stream = connected(&listener, &SECRET.greeting());
        assert!(accepted(&mut listener, other).is_none());
        assert!(
            !matches!(stream.read(&mut [0; 32]), Ok(1..)),
            "it is closed unanswered"
        );
        // More than are kept: the oldest is closed.
        let mut streams = Vec::new();
        for _ in 0..2 * PENDING_MAX {
            let before = listener.pending.len();
            streams.push(connected(&listener, b"x"));
            hythe_testing::eventually("it is seen", || {
                assert!(listener.accept(1, &expected(here()), POSITION).is_none());
                let pending = &listener.pending;
                pending.len() > before || pending.len() == PENDING_MAX
            });
        }
        assert_eq!(listener.pending.len(), PENDING_MAX);
        assert!(matches!(streams[0].read(&mut [0]), Ok(0) | Err(_)));
    }
}
