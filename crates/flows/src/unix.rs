//! The socket between the processes of a pool and the agent of their host.
//!
//! A file `flows` in the pool's directory, of which the kernel lets only processes of the pool's
//! owner connect: whoever has a flow can send to the other host in the publisher's name. Each
//! message is one packet. Never blocks, on either side.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hythe_sys::accept::{Accepted, Acceptor};
use hythe_sys::local_socket::{LocalListener, Peers};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
    connect, recv, send, shutdown, socket_with,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{MESSAGE_BYTES_MAX, decode, encode};

/// Connections that may wait for the agent.
const BACKLOG: i32 = 64;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn path_of(pool: &Path) -> PathBuf {
    pool.join("flows")
}

/// The agent's end. The file is removed when this goes.
#[derive(Debug)]
pub struct Listener {
    socket: LocalListener,
    path: PathBuf,
}

impl Listener {
    /// Listens in a pool's directory. One agent serves a pool: it removes what another left.
    ///
    /// # Errors
    /// What the system says, with the file's name.
    pub fn open(pool: &Path) -> io::Result<Self> {
        let path = path_of(pool);
        let _ = fs::remove_file(&path);
        let open = || -> io::Result<LocalListener> {
            let peers = Peers::User(fs::metadata(pool)?.uid());
            LocalListener::bind(&path, SocketType::SEQPACKET, BACKLOG, peers)
        };
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let socket = open().map_err(named)?;
        Ok(Self { socket, path })
    }

    /// The next process that has connected. One for which there is no descriptor finds its
    /// connection closed. `report` receives why, now and then.
    pub fn accept(
        &self,
        acceptor: &mut Acceptor,
        report: impl Fn(&io::Error),
    ) -> Option<Connection> {
        loop {
            match self.socket.accept_by(acceptor, &report) {
                Accepted::Connection(socket) => return Some(Connection { socket }),
                Accepted::Surplus(socket) => acceptor.take_back(socket),
                Accepted::Nothing => return None,
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Gone already is fine.
        let _ = fs::remove_file(&self.path);
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Connects to the agent of a pool.
    ///
    /// # Errors
    /// No agent is there, or it is not one of the pool's owner.
    pub fn open(pool: &Path) -> io::Result<Self> {
        let refused = || io::Error::from(Errno::ACCESS);
        // The file first, held fast: so that what was checked is what is connected to.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open(path_of(pool), flags, Mode::empty())?;
        let (found, owner) = (fstat(&file)?, fs::metadata(pool)?.uid());
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket || found.st_uid != owner {
            return Err(refused());
        }
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
        let held = format!("/proc/self/fd/{}", file.as_raw_fd());
        connect(&socket, &SocketAddrUnix::new(held)?)?;
        match hythe_sys::peer::peer_uid(&socket)? {
            user if user == owner || user == 0 => Ok(Self { socket }),
            _ => Err(refused()),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The other end is gone, or takes nothing in: the connection is of no use any more.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let packet = encode(message).map_err(io::Error::other)?;
        send(&self.socket, &packet, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message, if one has come.
    ///
    /// # Errors
    /// The other end is gone, or sends what is no message.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        let mut packet = [0; MESSAGE_BYTES_MAX];
        match recv(&self.socket, &mut packet, RecvFlags::TRUNC) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
            Ok((_, 0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, length)) => {
                let packet = packet.get(..length).ok_or(io::ErrorKind::InvalidData)?;
                decode(packet).map(Some).map_err(io::Error::other)
            }
        }
    }

    /// Ends it: both ends see that.
    pub fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
