//! The socket by which others see that a participant is there, also from another container.
//!
//! Process ids mean nothing across PID namespaces, but a directory can be shared. So each
//! participant listens on a socket `members/<session>` in the pool's directory *before* its record
//! names that session, and until after the record is free. Who connects gets a pidfd of the
//! listener (Linux 6.5), and a connection that hangs up when it dies, leaves, or calls `exec`. A
//! socket that refuses while the record still stands is the sign of a death: the kernel closes it
//! only after the memory of the process is gone. But a program may close all descriptors that it
//! finds open: where its process can be seen, it is asked whether it still maps the pool
//! ([`crate::pool::peers`]). Joining, the watcher and [`crate::pool::life`] call this. Nothing is
//! ever sent over these sockets, and accepting never waits.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use hythe_pool::MemberInfo;
use hythe_sys::local_socket::{LocalListener, Peers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::pool::Pool;
use crate::pool::directory::{self, MEMBERS};
use crate::pool::files::Place;
use crate::pool::process::{has_ended, has_hung_up};
use crate::{NodeError, PoolOptions};

/// Connections that may wait to be accepted. Who finds no place looks again later.
const BACKLOG: i32 = 128;
/// Accepted at one look, and kept at most: a flood of connections costs no more than this.
const ACCEPTED_AT_ONCE: usize = 64;
const KEPT_MAX: usize = 256;
/// Every participant has a place.
const _: () = assert!(KEPT_MAX > hythe_abi::pool::PARTICIPANTS_MAX as usize);
/// Session numbers tried: one is in use only if it was left behind 2^24 sessions ago, or put there
/// to annoy.
const TRIES: u32 = 64;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// The own socket. It stays in the directory until [`LivenessSocket::withdraw`].
#[derive(Debug)]
pub(crate) struct LivenessSocket {
    members: OwnedFd,
    listener: LocalListener,
    /// Which socket that is. `None`: the kernel does not say.
    socket: Option<Place>,
    session: u32,
}

impl LivenessSocket {
    /// Listens under a session number that nobody else has.
    pub(crate) fn announce(pool: &Pool) -> Result<Self, NodeError> {
        let members = directory::open_members(pool.directory(), pool.options())?;
        let hidden = listen_hidden(&members, pool)?;
        for _ in 0..TRIES {
            let session = pool.control().new_session();
            if hidden.reveal(&members, session, pool)? {
                let listener = hidden.socket;
                return Ok(Self {
                    members,
                    socket: fs::fstat(&listener).ok().map(|found| Place::of(&found)),
                    listener,
                    session,
                });
            }
        }
        let _ = fs::unlinkat(&members, &hidden.name, AtFlags::empty());
        let path = pool.path().join(MEMBERS);
        let reason = format!("{TRIES} sockets in a row were there that belong to no participant");
        Err(NodeError::Unsafe { path, reason })
    }

    /// The session number that it proves to be in use.
    pub(crate) const fn session(&self) -> u32 {
        self.session
    }

    /// Is its descriptor what it was? As [`LivenessAcceptor::is_open`].
    pub(crate) fn is_open(&self) -> bool {
        let found = fs::fstat(&self.listener).ok();
        self.socket.is_none() || found.map(|found| Place::of(&found)) == self.socket
    }

    /// A second handle of the socket, for the thread that accepts.
    pub(crate) fn acceptor(&self) -> std::io::Result<LivenessAcceptor> {
        let listener = self.listener.try_clone()?;
        Ok(LivenessAcceptor {
            socket: Place::of(&fs::fstat(&listener)?),
            listener,
            kept: Vec::new(),
        })
    }

    /// Takes the name away and closes. Only when no record bears the session any more: a refusal is
    /// the proof of a death.
    pub(crate) fn withdraw(self) {
        let _ = fs::unlinkat(&self.members, file_name(self.session), AtFlags::empty());
    }
}

/// Where connections come in. They are kept open, so that their hang-up tells of our death.
#[derive(Debug)]
pub(crate) struct LivenessAcceptor {
    listener: LocalListener,
    /// Which socket that is.
    socket: Place,
    kept: Vec<OwnedFd>,
}

impl LivenessAcceptor {
    /// Is its descriptor what it was? The program may have closed it, with all others that it finds
    /// open (`closefrom(3)`), and the number may be another file's by now.
    pub(crate) fn is_open(&self) -> bool {
        fs::fstat(&self.listener).is_ok_and(|found| Place::of(&found) == self.socket)
    }

    /// Takes in whoever waits, and lets go of those who went. Never waits, and never does more than
    /// a fixed number.
    pub(crate) fn look(&mut self) {
        self.forget_gone();
        for _ in 0..ACCEPTED_AT_ONCE {
            let Ok(connection) = self.listener.accept() else {
                return;
            };
            // One too many is closed again; it is hung up on, and connects again at its next look.
            if self.kept.len() < KEPT_MAX {
                self.kept.push(connection);
            }
        }
    }

    fn forget_gone(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let mut asked: Vec<PollFd<'_>> = self
            .kept
            .iter()
            .map(|kept| PollFd::new(kept, PollFlags::empty()))
            .collect();
        match poll(&mut asked, Some(&Timespec::default())) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                let gone: Vec<bool> = asked.iter().map(|one| !one.revents().is_empty()).collect();
                let mut gone = gone.into_iter();
                self.kept.retain(|_| !gone.next().unwrap_or(false));
            }
            // Not so many at once, or not at all: one by one.
            Err(_) => self.kept.retain(|kept| !has_hung_up(kept)),
        }
    }
}

/// What a look at somebody's socket showed.
#[derive(Debug)]
pub(crate) enum Seen {
    /// The process that listened has ended.
    Ended,
    /// Somebody listens.
    There {
        /// It hangs up when the last descriptor of the socket is closed.
        connection: OwnedFd,
        /// A pidfd of the process that called `listen`; a kernel before 6.5 gives none.
        process: Option<OwnedFd>,
    },
    /// Nobody listens any more.
    Refused,
    /// No socket, no permission, or no place in its backlog: nothing is proven.
    Nothing,
}

/// Looks at the socket of a session.
pub(crate) fn look_at(pool: &Pool, session: u32) -> Seen {
    let Ok(members) = directory::open_members(pool.directory(), pool.options()) else {
        return Seen::Nothing;
    };
    match reach(&members, &file_name(session), &pool.path()) {
        Err(seen) => seen,
        Ok(connection) => match hythe_sys::peer::peer_pidfd(&connection) {
            Ok(process) if has_ended(&process) => Seen::Ended,
            Ok(process) => Seen::There {
                connection,
                process: Some(process),
            },
            Err(error) => match Errno::from_io_error(&error) {
                // It was waited for. Kernels differ in how they say so; the arguments are good.
                Some(Errno::SRCH | Errno::INVAL) => Seen::Ended,
                _ => Seen::There {
                    connection,
                    process: None,
                },
            },
        },
    }
}

/// Connects to a socket. What is not a socket, or not its owner's, proves nothing.
fn reach(members: &OwnedFd, name: &str, pool: &Path) -> Result<OwnedFd, Seen> {
    // The file first, held fast: so that what was checked is what is connected to.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(members, name, flags, Mode::empty()).map_err(|_| Seen::Nothing)?;
    let found = fs::fstat(&file).map_err(|_| Seen::Nothing)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(Seen::Nothing);
    }
    let path = by_descriptor(&file).unwrap_or_else(|| pool.join(MEMBERS).join(name));
    let address = SocketAddrUnix::new(path).map_err(|_| Seen::Nothing)?;
    let socket = new_socket().map_err(|_| Seen::Nothing)?;
    match connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED) => return Err(Seen::Refused),
        Err(_) => return Err(Seen::Nothing),
    }
    match hythe_sys::peer::peer_uid(&socket) {
        Ok(uid) if uid == found.st_uid || uid == 0 => Ok(socket),
        _ => Err(Seen::Nothing),
    }
}

/// Who listens on the sockets of a pool, whatever its layout: name and process id.
pub(crate) fn listeners(directory: &OwnedFd, options: &PoolOptions) -> Vec<String> {
    let Ok(members) = directory::open_members(directory, options) else {
        return Vec::new();
    };
    let names = directory::entries(&members);
    let reached = names
        .iter()
        .filter_map(|name| reach(&members, name, &options.path()).ok());
    let described = reached.map(|connection| {
        let Ok(Some(pid)) = hythe_sys::peer::peer_pid(&connection) else {
            return "a process of another container".to_owned();
        };
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{} (pid {pid})", name.trim_end())
    });
    described.collect()
}

/// Removes the sockets of participants that are gone, as far as permission goes.
pub(crate) fn sweep(pool: &Pool) {
    let Ok(members) = directory::open_members(pool.directory(), pool.options()) else {
        return;
    };
    for name in directory::entries(&members) {
        let Ok(session) = name.parse::<u32>() else {
            continue;
        };
        if !is_in_use(pool, session)
            && matches!(reach(&members, &name, &pool.path()), Err(Seen::Refused))
        {
            let _ = fs::unlinkat(&members, &name, AtFlags::empty());
        }
    }
}

/// Removes the socket of one participant whose record is free.
pub(crate) fn forget(pool: &Pool, session: u32) {
    if let Ok(members) = directory::open_members(pool.directory(), pool.options()) {
        // What belongs to another user stays, for somebody who may remove it.
        let _ = fs::unlinkat(&members, file_name(session), AtFlags::empty());
    }
}

/// Does the socket of a session still have its name? Whoever leaves takes it away, and nobody else
/// may. True also where nothing can be seen.
pub(crate) fn is_announced(pool: &Pool, session: u32) -> bool {
    let Ok(members) = directory::open_members(pool.directory(), pool.options()) else {
        return true;
    };
    let found = fs::statat(&members, file_name(session), AtFlags::SYMLINK_NOFOLLOW);
    !matches!(found, Err(Errno::NOENT))
}

fn is_in_use(pool: &Pool, session: u32) -> bool {
    let control = pool.control();
    control
        .tables()
        .members()
        .any(|member| member.session == session)
        || control
            .tables()
            .claiming_sessions()
            .any(|claim| claim == session)
}

fn file_name(session: u32) -> String {
    session.to_string()
}

fn new_socket() -> rustix::io::Result<OwnedFd> {
    // Of packets, so that the hang-up is all that can be heard.
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)
}

/// A listening socket under a name that nobody looks for: what can be found must listen already.
struct Hidden {
    socket: LocalListener,
    name: String,
}

fn listen_hidden(members: &OwnedFd, pool: &Pool) -> Result<Hidden, NodeError> {
    let name = format!(".new.{:016x}", directory::random());
    let path = pool.path().join(MEMBERS).join(&name);
    let reach = by_descriptor(members).map_or_else(|| path.clone(), |at| at.join(&name));
    // Whoever may take part may connect: nothing is read. What root brings into a user's pool must
    // be within that user's reach.
    let peers = Peers::Permitted {
        mode: directory::control_mode(pool.directory()),
        owner: pool.options().owner,
    };
    match LocalListener::bind(&reach, SocketType::SEQPACKET, BACKLOG, peers) {
        Ok(socket) => Ok(Hidden { socket, name }),
        Err(error) => Err(directory::refused("listen on", &path, error)),
    }
}

impl Hidden {
    /// Gives it its name. False: another bears it.
    fn reveal(&self, members: &OwnedFd, session: u32, pool: &Pool) -> Result<bool, NodeError> {
        let name = file_name(session);
        match fs::renameat_with(members, &self.name, members, &name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => {
                let path = pool.path().join(MEMBERS).join(name);
                Err(directory::refused("name", &path, error.into()))
            }
        }
    }
}

/// A path to what is open that is short, and the same in every mount namespace. `None` without
/// `/proc`.
fn by_descriptor(open: impl AsFd) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_fd().as_raw_fd()));
    Path::new("/proc/self/fd").exists().then_some(path)
}

/// Does this record still say what it said? Asked after a refusal: in good order the record goes
/// before the socket.
pub(crate) fn still_stands(pool: &Pool, member: &MemberInfo) -> bool {
    hythe_memory::full_barrier();
    pool.control()
        .tables()
        .member(member.index)
        .is_some_and(|now| (now.session, now.status) == (member.session, member.status))
}

/// For tests: a connection to the socket of a session, as kernels without pidfds of peers give it.
#[cfg(test)]
pub(crate) fn connection(pool: &Pool, session: u32) -> Result<OwnedFd, Seen> {
    let members = directory::open_members(pool.directory(), pool.options()).expect("there");
    reach(&members, &file_name(session), &pool.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_testing::eventually;

    fn pool(test: &str) -> (PathBuf, Pool) {
        let name = format!("hythe-liveness-{test}-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        (root, Pool::open_or_create(&options).expect("made"))
    }

    /// What a kernel without pidfds of peers has: the connection hangs up with the listener,
    /// accepted or not.
    #[test]
    fn connection_hangs_up_when_the_listener_ends() {
        let (root, pool) = pool("hangs-up");
        let liveness_socket = LivenessSocket::announce(&pool).expect("listens");
        let session = liveness_socket.session();
        let mut acceptor = liveness_socket.acceptor().expect("opened");
        let accepted = connection(&pool, session).expect("connects");
        acceptor.look();
        let waiting = connection(&pool, session).expect("connects");
        assert!(!has_hung_up(&accepted) && !has_hung_up(&waiting));
        // As when the process dies: the name stays.
        drop((liveness_socket, acceptor));
        assert!(has_hung_up(&accepted) && has_hung_up(&waiting));
        assert!(matches!(look_at(&pool, session), Seen::Refused));
        sweep(&pool);
        assert!(
            matches!(look_at(&pool, session), Seen::Nothing),
            "not swept"
        );
        std::fs::remove_dir_all(root).expect("own");
    }

    /// A child that another test forks has copies of what we close, until it executes its program.
    fn await_closing(is_closed: impl FnMut() -> bool) {
        eventually(
            "a child of another test has executed its program",
            is_closed,
        );
    }

    #[test]
    fn acceptor_drops_closed_and_excess_connections() {
        let (root, pool) = pool("let-go");
        let liveness_socket = LivenessSocket::announce(&pool).expect("listens");
        let mut acceptor = liveness_socket.acceptor().expect("opened");
        let mut connections = Vec::new();
        for _ in 0..KEPT_MAX / 32 + 1 {
            connections.extend((0..32).map(|_| {
                connection(&pool, liveness_socket.session()).expect("room in the backlog")
            }));
            acceptor.look();
        }
        assert_eq!(acceptor.kept.len(), KEPT_MAX);
        let hung_up = || connections.iter().filter(|one| has_hung_up(one)).count();
        await_closing(|| hung_up() >= 32);
        assert_eq!(hung_up(), 32, "those above the limit");
        connections.truncate(5);
        await_closing(|| {
            acceptor.look();
            acceptor.kept.len() == 5
        });
        assert_eq!(acceptor.kept.len(), 5);
        liveness_socket.withdraw();
        std::fs::remove_dir_all(root).expect("own");
    }

    #[test]
    fn number_that_is_taken_is_passed_over() {
        let (root, pool) = pool("taken");
        let next = pool.control().new_session() + 1;
        let taken = pool.path().join(MEMBERS).join(file_name(next));
        std::fs::write(taken, "").expect("own");
        let liveness_socket = LivenessSocket::announce(&pool).expect("listens");
        assert_eq!(liveness_socket.session(), next + 1);
        liveness_socket.withdraw();
        std::fs::remove_dir_all(root).expect("own");
    }
}
