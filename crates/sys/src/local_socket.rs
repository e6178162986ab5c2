//! Listening sockets with names in the file system, and who may connect to them.
//!
//! All crates that listen on a Unix socket with a name do it by [`LocalListener`]. Its rights are
//! those that the caller asks for, whatever the umask, and they are set before the socket listens:
//! nobody can connect earlier. The peer's user is compared before a connection is returned, so that
//! nothing of another user is ever read. Never removes a name, and never waits.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, SocketType};

use crate::accept::{Accepted, Acceptor};
use crate::{identity, peer};

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// Connections of other users that one call closes: a flood of them costs no more than this.
const REFUSED_AT_ONCE: usize = 64;

/// Processes that may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Those of one user, and of root. The socket is given to that user where this process is
    /// root's.
    User(u32),
    /// The same, for a service that may not be able to give files away: the kernel lets everybody
    /// connect, and the user is compared alone.
    ComparedUser(u32),
    /// Those that the kernel lets through by the permissions `mode`, of whatever user. Only for
    /// sockets over which nothing is ever read. Given to `owner` where this process is root's.
    Permitted {
        /// Permissions of the socket.
        mode: u32,
        /// The user to whom it is given.
        owner: u32,
    },
}

/// A socket that listens under a name. The name stays when this goes.
#[derive(Debug)]
pub struct LocalListener {
    socket: OwnedFd,
    peers: Peers,
}

impl LocalListener {
    /// Listens under a name that is free. `backlog` connections may wait to be accepted.
    ///
    /// # Errors
    /// What the system says; `EADDRINUSE` if the name is taken.
    pub fn bind(path: &Path, kind: SocketType, backlog: i32, peers: Peers) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        let family = rustix::net::AddressFamily::UNIX;
        let socket = rustix::net::socket_with(family, kind, FLAGS, None)?;
        let mode = Mode::from_raw_mode(peers.mode());
        // The file gets the mode of the socket, less the umask: it never has more than that.
        rustix::fs::fchmod(&socket, mode)?;
        rustix::net::bind(&socket, &address)?;
        let listening = complete_rights(path, mode, peers.owner())
            .and_then(|()| Ok(rustix::net::listen(&socket, backlog)?));
        match listening {
            Ok(()) => Ok(Self { socket, peers }),
            Err(error) => {
                let _ = rustix::fs::unlink(path);
                Err(error)
            }
        }
    }

    /// The next connection of a process that may connect, closed on `exec` and non-blocking. Those
    /// of others are closed unread. For what is polled in a loop there is
    /// [`accept_by`](Self::accept_by).
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if none waits; else what `accept` says.
    pub fn accept(&self) -> io::Result<OwnedFd> {
        for _ in 0..REFUSED_AT_ONCE {
            let connection = rustix::net::accept_with(&self.socket, FLAGS)?;
            if self.peers.admit(&connection) {
                return Ok(connection);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// The next connection of a process that may connect, also where the system has no descriptor
    /// left: see [`Acceptor::accept`]. Those of others are closed unread.
    pub fn accept_by(&self, acceptor: &mut Acceptor, report: impl Fn(&io::Error)) -> Accepted {
        for _ in 0..REFUSED_AT_ONCE {
            match acceptor.accept(&self.socket, &report) {
                Accepted::Connection(stranger) if !self.peers.admit(&stranger) => {}
                Accepted::Surplus(stranger) if !self.peers.admit(&stranger) => {
                    acceptor.take_back(stranger);
                }
                accepted => return accepted,
            }
        }
        Accepted::Nothing
    }

    /// As [`accept_by`](Self::accept_by), and hands the connections of others to `refuse`, also
    /// surplus ones.
    pub fn accept_or_refuse(
        &self,
        acceptor: &mut Acceptor,
        report: impl Fn(&io::Error),
        mut refuse: impl FnMut(OwnedFd),
    ) -> Accepted {
        for _ in 0..REFUSED_AT_ONCE {
            match acceptor.accept(&self.socket, &report) {
                Accepted::Connection(stranger) | Accepted::Surplus(stranger)
                    if !self.peers.admit(&stranger) =>
                {
                    refuse(stranger);
                }
                accepted => return accepted,
            }
        }
        Accepted::Nothing
    }

    /// A second handle of the same socket.
    ///
    /// # Errors
    /// Too many open files.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            socket: rustix::io::fcntl_dupfd_cloexec(&self.socket, 0)?,
            peers: self.peers,
        })
    }
}

impl AsFd for LocalListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<LocalListener> for OwnedFd {
    fn from(listener: LocalListener) -> Self {
        listener.socket
    }
}

impl Peers {
    const fn mode(self) -> u32 {
        match self {
            Self::User(_) => 0o600,
            Self::ComparedUser(_) => 0o666,
            Self::Permitted { mode, .. } => mode,
        }
    }

    /// To whom the socket is given.
    const fn owner(self) -> Option<u32> {
        match self {
            Self::User(owner) | Self::Permitted { owner, .. } => Some(owner),
            Self::ComparedUser(_) => None,
        }
    }

    fn admit(self, connection: &OwnedFd) -> bool {
        match self {
            Self::Permitted { .. } => true,
            Self::User(user) | Self::ComparedUser(user) => {
                peer::peer_uid(connection).is_ok_and(|peer| peer == user || peer == 0)
            }
        }
    }
}

/// Gives a socket that does not listen yet what the umask took away, and its owner.
fn complete_rights(path: &Path, mode: Mode, owner: Option<u32>) -> io::Result<()> {
    let own = identity::effective_user();
    let owner = owner.filter(|owner| own == 0 && *owner != 0);
    // Held fast: what is checked is what is changed, also where somebody else may write the folder.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&file)?;
    if !is_own_socket(&found, own) {
        return Err(Errno::ACCESS.into());
    }
    if Mode::from_raw_mode(found.st_mode) != mode {
        rustix::fs::chmod(reach(&file, path), mode)?;
    }
    if let Some(owner) = owner {
        let (empty, flags) = ("", rustix::fs::AtFlags::EMPTY_PATH);
        let group: Option<Gid> = None;
        rustix::fs::chownat(&file, empty, Some(Uid::from_raw(owner)), group, flags)?;
    }
    Ok(())
}

fn is_own_socket(found: &Stat, own: u32) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Socket && found.st_uid == own
}

/// A path to an open file that leads nowhere else; without `/proc` its name must do.
fn reach(file: &OwnedFd, path: &Path) -> PathBuf {
    let held = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    match held.symlink_metadata() {
        Ok(_) => held,
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn bind(path: &Path, peers: Peers) -> LocalListener {
        LocalListener::bind(path, SocketType::STREAM, 8, peers).unwrap()
    }

    fn permissions(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & 0o777
    }

    /// In a child: the umask is the process', and other tests make files meanwhile.
    #[test]
    fn socket_has_its_mode_under_every_umask() {
        let folder = tempfile::tempdir().unwrap();
        for umask in [0o000, 0o002, 0o022, 0o077, 0o777] {
            for peers in [
                Peers::User(identity::effective_user()),
                Peers::ComparedUser(1),
                Peers::Permitted {
                    mode: 0o660,
                    owner: identity::effective_user(),
                },
            ] {
                let path = folder.path().join("socket");
                let in_child = || {
                    rustix::process::umask(Mode::from_raw_mode(umask));
                    let _listener = bind(&path, peers);
                    i32::from(permissions(&path) == peers.mode())
                };
                let has_mode = crate::fork::run_in_child(in_child).unwrap();
                assert_eq!(has_mode, 1, "{peers:?} under umask {umask:03o}");
                std::fs::remove_file(&path).unwrap();
            }
        }
    }

    #[test]
    fn listener_accepts_its_user_and_refuses_others() {
        let folder = tempfile::tempdir().unwrap();
        let own = identity::effective_user();
        // A connection of root is accepted by all: so this user must be another to be refused.
        let stranger = Peers::ComparedUser(own + 1);
        for (name, peers) in [("own", Peers::User(own)), ("others", stranger)] {
            let path = folder.path().join(name);
            let listener = bind(&path, peers);
            assert_eq!(
                listener.accept().unwrap_err().kind(),
                io::ErrorKind::WouldBlock
            );
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(b"command").unwrap();
            let accepted = listener.accept();
            assert_eq!(accepted.is_ok(), name == "own" || own == 0, "{name}");
        }
    }

    #[test]
    fn flood_of_refused_connections_ends_a_call() {
        if identity::effective_user() == 0 {
            eprintln!("SKIPPED (needs a user that is not root): a flood of strangers");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let peers = Peers::ComparedUser(identity::effective_user() + 1);
        let listener = LocalListener::bind(&path, SocketType::STREAM, 128, peers).unwrap();
        let streams: Vec<UnixStream> = (0..=REFUSED_AT_ONCE)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        let mut refused = 0;
        let unexpected = |error: &io::Error| panic!("{error}");
        let mut acceptor = Acceptor::default();
        let accepted = listener.accept_or_refuse(&mut acceptor, unexpected, |_| refused += 1);
        assert!(matches!(accepted, Accepted::Nothing), "{accepted:?}");
        assert_eq!(refused, REFUSED_AT_ONCE);
        drop(streams);
    }

    #[test]
    fn name_that_is_taken_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        std::fs::write(&path, "kept").unwrap();
        let own = Peers::User(identity::effective_user());
        let refused = LocalListener::bind(&path, SocketType::STREAM, 8, own).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    }
}
