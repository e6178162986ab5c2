//! One connected TCP socket that never blocks.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hythe_node::Lease;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg, sockopt};

/// An idle connection is probed by the kernel at this interval, in seconds.
const KEEPALIVE_INTERVAL_S: u64 = 1;

/// A connection. Clones share the socket.
#[derive(Clone, Debug)]
pub(crate) struct Pipe(Arc<OwnedFd>);

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// At least one byte was read.
    Bytes(usize),
    /// No byte has arrived.
    Nothing,
}

impl Pipe {
    /// Prepares a connected socket: sends at once, and fails when the peer has not acknowledged or
    /// answered for `unreachable_ns`.
    pub(super) fn new(socket: Arc<OwnedFd>, unreachable_ns: u64) -> io::Result<Self> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        let unreachable_ms = u32::try_from(unreachable_ns / 1_000_000).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(&socket, unreachable_ms.max(1))?;
        let seconds = u64::from(unreachable_ms / 1_000).max(1);
        sockopt::set_socket_keepalive(&socket, true)?;
        let interval = std::time::Duration::from_secs(KEEPALIVE_INTERVAL_S);
        sockopt::set_tcp_keepidle(&socket, interval)?;
        sockopt::set_tcp_keepintvl(&socket, interval)?;
        // The kernel takes at most 127.
        sockopt::set_tcp_keepcnt(&socket, seconds.min(127) as u32)?;
        Ok(Self(socket))
    }

    /// Sends the first bytes of the pieces. Returns how many: fewer than there are when the
    /// socket's buffer is full.
    pub(super) fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let mut control = SendAncillaryBuffer::default();
        match sendmsg(&self.0, pieces, &mut control, flags) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<Read> {
        let received = recv(&self.0, into, RecvFlags::DONTWAIT).map(|(read, _)| read);
        result(received.map_err(io::Error::from))
    }

    /// Reads into a slot.
    pub(super) fn read_into(&self, lease: &mut Lease, at: usize, bytes: usize) -> io::Result<Read> {
        result(lease.read_stream(&self.0, at, bytes))
    }

    /// Another descriptor of the socket.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// The descriptor itself, which stays open while it is waited for.
    pub(crate) fn shared(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0)
    }
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn result(read: io::Result<usize>) -> io::Result<Read> {
    match read {
        Ok(0) => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the other end has closed the connection",
        )),
        Ok(bytes) => Ok(Read::Bytes(bytes)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Read::Nothing),
            _ => Err(error),
        },
    }
}
