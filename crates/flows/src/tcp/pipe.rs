//! One connected TCP socket that never blocks.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hythe_node::Lease;
use hythe_sys::socket_option::{tcp_silence, unsent_bytes};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg, sockopt};

/// An idle connection is probed by the kernel at this interval.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// As many probes as the kernel takes.
const KEEPALIVE_COUNT_MAX: u64 = 127;

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
    /// Prepares a connected socket: it sends at once, and an idle one fails when the peer's host
    /// has been silent for `unreachable_ns`.
    pub(super) fn new(socket: Arc<OwnedFd>, unreachable_ns: u64) -> io::Result<Self> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepintvl(&socket, KEEPALIVE_INTERVAL)?;
        let seconds = unreachable_ns / 1_000_000_000;
        sockopt::set_tcp_keepcnt(&socket, seconds.clamp(1, KEEPALIVE_COUNT_MAX) as u32)?;
        Ok(Self(socket))
    }

    /// Has the peer's host been silent for so long, with something unacknowledged?
    ///
    /// Not `TCP_USER_TIMEOUT`: that also ends the connection with a process which is stopped, or
    /// whose pool is full, while its kernel answers.
    pub(super) fn is_silent_for(&self, unreachable_ns: u64) -> bool {
        let silence = tcp_silence(&self.0);
        silence.is_ok_and(|silence| silence.as_nanos() >= unreachable_ns.into())
    }

    /// Has the peer's kernel acknowledged all that was sent?
    pub(super) fn is_emptied(&self) -> bool {
        unsent_bytes(&self.0).is_ok_and(|bytes| bytes == 0)
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
