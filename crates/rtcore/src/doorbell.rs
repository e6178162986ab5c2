//! The doorbell: a Unix stream socket of which a byte in either direction is one ring, or, where
//! the core's device is ivshmem-doorbell, one that hands over two events.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hythe_node::Node;
use hythe_node::hop::HopNode as _;
use hythe_sys::local_socket::{LocalListener, Peers};
use rustix::net::SocketType;

use crate::CoreError;
use crate::cpu_share::CpuShare;
use crate::error::system;
use crate::eventfds::Offer;
use crate::ivshmem::Events;
use crate::link::LinkMap;
use crate::manifest::DoorbellKind;

/// Longest path that the core's side can take (`rtos/boards/README.md`).
const PATH_BYTES_MAX: usize = 99;
/// Connections that may wait for the agent: the core's, and others that are refused.
const BACKLOG: i32 = 16;
/// A wake-up that was lost, in an emulator for instance, costs at most this.
pub(crate) const NAP: Duration = Duration::from_millis(20);
/// How long the sleeper goes without looking whether it is still wanted.
const LONG: Duration = Duration::from_secs(1);

/// Where the core connects to. The socket is removed when the core has, or when this goes.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) listener: LocalListener,
    pub(crate) path: PathBuf,
}

impl Entrance {
    pub(crate) fn open(pool: &Path, region: u8, board: &str) -> Result<Self, CoreError> {
        let path = pool.join(format!("doorbell.{region}"));
        if path.as_os_str().len() > PATH_BYTES_MAX {
            let reason =
                "a socket's path has at most 99 bytes; choose a shorter HYTHE_ROOT or pool name";
            return Err(CoreError::Path {
                board: board.to_owned(),
                path,
                reason,
            });
        }
        // Left by an agent that died before its core had connected; the log's lock says that it is
        // not in use.
        let _ = fs::remove_file(&path);
        // The core is a process that this one starts, and so of its user.
        let peers = Peers::User(hythe_sys::identity::effective_user());
        let listener = LocalListener::bind(&path, SocketType::STREAM, BACKLOG, peers)
            .map_err(system("listen on", &path))?;
        Ok(Self { listener, path })
    }

    /// The connection of this process, if it is there. Of any other: refused.
    pub(crate) fn accept(
        &self,
        pid: u32,
        kind: DoorbellKind,
    ) -> Result<Option<Doorbell>, CoreError> {
        let socket = match self.listener.accept() {
            Ok(socket) => UnixStream::from(socket),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(system("accept on", &self.path)(error)),
        };
        let peer = rustix::net::sockopt::socket_peercred(&socket)
            .map_err(system("ask who connected to", &self.path))?;
        if u32::try_from(peer.pid.as_raw_nonzero().get()) != Ok(pid) {
            tracing::warn!(peer = ?peer.pid, "refused a doorbell connection: it is not the core's");
            return Ok(None);
        }
        let events = match kind {
            DoorbellKind::Connect => None,
            DoorbellKind::Ivshmem => {
                Some(Events::greet(&socket).map_err(system("greet over", &self.path))?)
            }
        };
        Ok(Some(Doorbell { socket, events }))
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        // Gone already is fine.
        let _ = fs::remove_file(&self.path);
    }
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Doorbell {
    socket: UnixStream,
    /// What rings instead; the socket stays open as long as they shall.
    events: Option<Events>,
}

/// What came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// So many rings; there may be more.
    Times(u64),
    /// Nothing.
    No,
    /// The other side closed it.
    Closed,
}

/// Rings that are taken at once: a core that rings without end does not keep us here.
const RINGS: usize = 4096;

impl Doorbell {
    /// Rings the core. A full socket holds rings enough; a closed one is noticed by the reader.
    pub(crate) fn ring(&self) {
        if let Some(events) = &self.events {
            return events.ring();
        }
        let _ = (&self.socket).write(b"!");
    }

    /// Takes the rings that there are, or the first of them. That a core with events is gone is
    /// seen by its process alone.
    pub(crate) fn drain(&self) -> Rung {
        if let Some(events) = &self.events {
            // The eventfd is never read, so how often is not known.
            return if events.drain() {
                Rung::Times(1)
            } else {
                Rung::No
            };
        }
        match (&self.socket).read(&mut [0; RINGS]) {
            Ok(0) => Rung::Closed,
            Ok(count) => Rung::Times(count as u64),
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                Rung::No
            }
            Err(_) => Rung::Closed,
        }
    }

    /// Is woken by the core's rings, or not, where whoever waits for them can do without.
    fn hear(&self, wanted: impl FnOnce() -> bool) {
        if let Some(events) = &self.events {
            events.hear(wanted());
        }
    }

    /// Hands what rings the core, and is rung, to processes that attach, where it is more than one
    /// line of this process.
    pub(crate) fn offer(&mut self, pool: &Path, link: &LinkMap) -> Result<(), CoreError> {
        let Some(events) = &mut self.events else {
            return Ok(());
        };
        let offer = Offer::open(pool, link.region())?;
        let refused = system("wait for connections in", pool);
        events.offer(offer, link).map_err(refused)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        let events = self.events.as_ref();
        events.map_or_else(|| self.socket.as_fd(), Events::ready)
    }
}

/// Passes each ring of Linux on to the core, until `over`. Rings are counted in the link, so none
/// is lost between two looks. Sees to it that the agent hears the core's rings as long as somebody
/// attached to it does not. Trusted, every ring is taken to be of use.
pub(crate) fn pass_on(
    node: &Node,
    link: &LinkMap,
    doorbell: &Doorbell,
    (over, trusts_rings): (&AtomicBool, bool),
) {
    let mut seen = link.linux_rings().wrapping_sub(1);
    let (mut share, mut news) = (CpuShare::begin(), link.linux_news());
    while !over.load(Ordering::Acquire) {
        let rung = node.wait_until(NAP, LONG, || {
            let rings = link.linux_rings();
            doorbell.hear(|| link.needs_agent());
            let ended = over.load(Ordering::Acquire);
            Ok((rings != seen || ended).then_some(rings))
        });
        if let Ok(Some(rings)) = rung
            && rings != seen
        {
            seen = rings;
            doorbell.ring();
        }
        // The count is Linux's, and a core that can write it makes us ring without end.
        let now = link.linux_news();
        let is_useful = std::mem::replace(&mut news, now) != now || trusts_rings;
        if let Some(rest) = share.rest(is_useful) {
            std::thread::sleep(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_rings_at_once_and_no_more() {
        let (socket, mut core) = UnixStream::pair().expect("sockets");
        socket.set_nonblocking(true).expect("ours");
        let doorbell = Doorbell {
            socket,
            events: None,
        };
        assert_eq!(doorbell.drain(), Rung::No);
        core.write_all(b"!!").expect("it fits");
        assert_eq!(doorbell.drain(), Rung::Times(2));
        core.write_all(&[b'!'; 2 * RINGS]).expect("it fits");
        assert_eq!(doorbell.drain(), Rung::Times(RINGS as u64));
        drop(core);
        assert_eq!(doorbell.drain(), Rung::Times(RINGS as u64));
        assert_eq!(doorbell.drain(), Rung::Closed);
    }
}
