//! A TCP socket, or a tunnel over Zenoh, of two threads: one sends, one receives, each in its time.
//!
//! Called by the handshake and by both halves of a connection. Never knows what the bytes are.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

use crate::zenoh_session::Tunnel;

/// For how long the kernel sends again what the other side does not acknowledge. A host is known
/// to be gone earlier, by its lease; this ends connections that nobody else ends.
const USER_TIMEOUT: Duration = Duration::from_secs(5);

/// A connected socket.
#[derive(Debug)]
pub(super) struct Socket {
    way: Way,
    closed: AtomicBool,
}

#[derive(Debug)]
enum Way {
    Tcp(TcpStream, SocketAddr),
    Zenoh(Arc<Tunnel>),
}

impl Socket {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let timeout_ms = u32::try_from(USER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
        rustix::net::sockopt::set_tcp_user_timeout(&stream, timeout_ms)?;
        let peer = stream.peer_addr()?;
        Ok(Self {
            way: Way::Tcp(stream, peer),
            closed: AtomicBool::new(false),
        })
    }

    pub(super) fn over(tunnel: Arc<Tunnel>) -> Self {
        Self {
            way: Way::Zenoh(tunnel),
            closed: AtomicBool::new(false),
        }
    }

    /// The address of the other end; over Zenoh there is none.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match &self.way {
            Way::Tcp(_, peer) => Some(*peer),
            Way::Zenoh(_) => None,
        }
    }

    /// The address of this end; over Zenoh there is none.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        match &self.way {
            Way::Tcp(stream, _) => stream.local_addr().ok(),
            Way::Zenoh(_) => None,
        }
    }

    /// Ends both directions; whoever waits on it wakes.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        // It may be over already.
        match &self.way {
            Way::Tcp(stream, _) => drop(stream.shutdown(Shutdown::Both)),
            Way::Zenoh(tunnel) => tunnel.close(),
        }
    }

    /// Whether this side has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Sends all bytes of these buffers, which are used up, before `deadline`.
    pub(super) fn send_all(&self, buffers: &[Vec<u8>], deadline: Instant) -> io::Result<()> {
        let stream = match &self.way {
            Way::Tcp(stream, _) => stream,
            Way::Zenoh(tunnel) => {
                let mut each = buffers.iter();
                return each.try_for_each(|one| tunnel.send_all(one, deadline));
            }
        };
        let mut slices: Vec<IoSlice<'_>> = buffers.iter().map(|one| IoSlice::new(one)).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            match send_some(stream, left) {
                Ok(sent) => IoSlice::advance_slices(&mut left, sent),
                Err(Errno::AGAIN) => wait(stream, PollFlags::OUT, deadline)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Receives what is there, waiting for it until `deadline`; 0 is the end of the stream.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if nothing came, or what broke the connection.
    pub(super) fn receive(&self, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
        let stream = match &self.way {
            Way::Tcp(stream, _) => stream,
            Way::Zenoh(tunnel) => return tunnel.receive(into, deadline),
        };
        loop {
            match rustix::net::recv(stream, &mut *into, RecvFlags::DONTWAIT) {
                Ok((received, _)) => return Ok(received),
                Err(Errno::AGAIN) => wait(stream, PollFlags::IN, deadline)?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !self.is_closed() {
            self.close();
        }
    }
}

fn send_some(stream: &TcpStream, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut ancillary = SendAncillaryBuffer::default();
    rustix::net::sendmsg(stream, slices, &mut ancillary, flags)
}

fn wait(stream: &TcpStream, what: PollFlags, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).ok();
    let mut set = [PollFd::new(stream, what)];
    match rustix::event::poll(&mut set, timeout.as_ref()) {
        Ok(0) => Err(ErrorKind::TimedOut.into()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The instant at which `timeout` is over, from now; in a day at the latest.
pub(super) fn deadline(timeout: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(86_400);
    Instant::now() + timeout.min(LONGEST)
}
