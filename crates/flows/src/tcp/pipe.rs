//! One connected TCP socket that never blocks, sealed or not.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hythe_node::Lease;
use hythe_sys::socket_option::{tcp_silence, unsent_bytes};
use rustix::net::{RecvFlags, recv, sockopt};
use rustls::{ClientConfig, ServerConfig};

use super::seal::{Seal, closed, send};

/// An idle connection is probed by the kernel at this interval.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// As many probes as the kernel takes.
const KEEPALIVE_COUNT_MAX: u64 = 127;

/// A connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    socket: Arc<OwnedFd>,
    /// `None`: it goes in clear text, over a link that both users trust.
    seal: Option<Box<Seal>>,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// At least one byte was read.
    Bytes(usize),
    /// No byte has arrived.
    Nothing,
}

impl Pipe {
    /// The publisher's end of a connected socket: it sends at once, and an idle one fails when the
    /// peer's host has been silent for `unreachable_ns`.
    pub(crate) fn connected(
        socket: Arc<OwnedFd>,
        unreachable_ns: u64,
        seal: Option<(&Arc<ClientConfig>, IpAddr)>,
    ) -> io::Result<Self> {
        prepare(&socket, unreachable_ns)?;
        let seal = seal.map(|(config, peer)| Seal::client(config, peer));
        Ok(Self {
            socket,
            seal: seal.transpose()?.map(Box::new),
        })
    }

    /// The subscriber's end of one, as [`connected`](Self::connected).
    pub(super) fn accepted(
        socket: Arc<OwnedFd>,
        unreachable_ns: u64,
        seal: Option<&Arc<ServerConfig>>,
    ) -> io::Result<Self> {
        prepare(&socket, unreachable_ns)?;
        Ok(Self {
            socket,
            seal: seal.map(Seal::server).transpose()?.map(Box::new),
        })
    }

    /// Has the peer's host been silent for so long, with something unacknowledged?
    ///
    /// Not `TCP_USER_TIMEOUT`: that also ends the connection with a process which is stopped, or
    /// whose pool is full, while its kernel answers.
    pub(super) fn is_silent_for(&self, unreachable_ns: u64) -> bool {
        let silence = tcp_silence(&self.socket);
        silence.is_ok_and(|silence| silence.as_nanos() >= unreachable_ns.into())
    }

    /// Has the peer's kernel acknowledged all that was sent?
    pub(super) fn is_emptied(&self) -> bool {
        !self.has_unsent() && unsent_bytes(&self.socket).is_ok_and(|bytes| bytes == 0)
    }

    /// Is there something that was taken by [`send`](Self::send), and not by the socket?
    pub(super) fn has_unsent(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.has_unsent())
    }

    /// Sends that, as far as the socket takes it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if let Some(seal) = &mut self.seal {
            seal.flush(&self.socket)?;
        }
        Ok(())
    }

    /// Sends the first bytes of the pieces. Returns how many: fewer than there are when the
    /// socket's buffer is full.
    pub(super) fn send(&mut self, pieces: &mut [IoSlice<'_>]) -> io::Result<usize> {
        let sent = match &mut self.seal {
            Some(seal) => seal.send(&self.socket, pieces),
            None => send(&self.socket, pieces),
        };
        match sent {
            Err(error) if is_to_be_repeated(&error) => Ok(0),
            sent => sent,
        }
    }

    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<Read> {
        let most = into.len();
        match &mut self.seal {
            Some(seal) => of_seal(seal.read(&self.socket, most, |at, bytes| {
                into[at..at + bytes.len()].copy_from_slice(bytes);
            })),
            None => {
                let received = recv(&self.socket, into, RecvFlags::DONTWAIT);
                of_socket(received.map(|(read, _)| read).map_err(io::Error::from))
            }
        }
    }

    /// Reads into a slot.
    pub(super) fn read_into(
        &mut self,
        lease: &mut Lease,
        at: usize,
        bytes: usize,
    ) -> io::Result<Read> {
        match &mut self.seal {
            Some(seal) => of_seal(seal.read(&self.socket, bytes, |from, opened| {
                lease.write(at + from, opened);
            })),
            None => of_socket(lease.read_stream(&self.socket, at, bytes)),
        }
    }

    /// Another descriptor of the socket.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// The descriptor itself, which stays open while it is waited for.
    pub(crate) fn shared(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn prepare(socket: &OwnedFd, unreachable_ns: u64) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    let seconds = unreachable_ns / 1_000_000_000;
    sockopt::set_tcp_keepcnt(socket, seconds.clamp(1, KEEPALIVE_COUNT_MAX) as u32)?;
    Ok(())
}

fn of_seal(read: io::Result<usize>) -> io::Result<Read> {
    Ok(match read? {
        0 => Read::Nothing,
        bytes => Read::Bytes(bytes),
    })
}

fn of_socket(read: io::Result<usize>) -> io::Result<Read> {
    match read {
        Ok(0) => Err(closed()),
        Ok(bytes) => Ok(Read::Bytes(bytes)),
        Err(error) if is_to_be_repeated(&error) => Ok(Read::Nothing),
        Err(error) => Err(error),
    }
}

fn is_to_be_repeated(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
