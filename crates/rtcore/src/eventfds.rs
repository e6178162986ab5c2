//! A core's two eventfds, handed from its agent to a process that attaches: by one it rings the
//! core, to the other the core adds when it rings. From then on the agent is not in the wake path.
//!
//! The agent listens on a socket `eventfds.<region>` in the pool's directory ([`Offer`]), of which
//! the kernel lets only processes of the pool's owner connect. Each gets one packet: a version, the
//! Linux session of the link, both files ([`Request`]). A process that gets nothing in time rings
//! through the agent. Never waits, on either side.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hythe_abi::RegionIndex;
use hythe_sys::accept::{Accepted, Acceptor};
use hythe_sys::local_socket::{LocalListener, Peers};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};

use crate::CoreError;
use crate::error::system;

/// Of the packet.
const VERSION: u32 = 1;
const PACKET_BYTES: usize = 8;
/// Connections that may wait for the agent. Who finds no place rings through the agent.
const BACKLOG: i32 = 64;
/// Served at one look: a flood of connections costs no more than this. More than may wait, as the
/// agent learns of a connection once.
const SERVED_AT_ONCE: usize = 2 * BACKLOG as usize;
/// How long a process waits for its packet, at most. An agent that runs sends it at once.
pub(crate) const BOUND: Duration = Duration::from_secs(1);

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn path_of(pool: &Path, region: RegionIndex) -> PathBuf {
    pool.join(format!("eventfds.{}", region.0))
}

/// The agent's end. The socket is removed when this goes.
#[derive(Debug)]
pub(crate) struct Offer {
    listener: LocalListener,
    /// Of the thread that serves; no other uses it.
    acceptor: Mutex<Acceptor>,
    path: PathBuf,
}

impl Offer {
    /// Offers the eventfds of the core that shares this region.
    pub(crate) fn open(pool: &Path, region: RegionIndex) -> Result<Self, CoreError> {
        let path = path_of(pool, region);
        // Left by an agent that was killed; the log's lock says that it is not in use.
        let _ = fs::remove_file(&path);
        let open = || -> io::Result<LocalListener> {
            // Whoever may ring a core by a file that all share may also fill it, or make a write to
            // it block: the pool's owner can do as much to each process anyway, others cannot.
            let peers = Peers::User(fs::metadata(pool)?.uid());
            LocalListener::bind(&path, SocketType::SEQPACKET, BACKLOG, peers)
        };
        let listener = open().map_err(system("listen on", &path))?;
        Ok(Self {
            listener,
            acceptor: Mutex::default(),
            path,
        })
    }

    /// Readable when somebody asks.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Hands both files to whoever asks at the moment, with the Linux session of this moment.
    pub(crate) fn serve(&self, session: u32, (ring, rung): (&OwnedFd, &OwnedFd)) {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..SERVED_AT_ONCE {
            let accepted = self.listener.accept_by(&mut acceptor, |error| {
                tracing::warn!(%error, "processes that attach ring their core through its agent");
            });
            let (connection, is_surplus) = match accepted {
                Accepted::Connection(connection) => (connection, false),
                Accepted::Surplus(connection) => (connection, true),
                Accepted::Nothing => return,
            };
            // Who hung up meanwhile does without.
            if let Err(error) = send(&connection, session, [ring, rung]) {
                tracing::debug!(%error, "a process did not get the eventfds of its core");
            }
            if is_surplus {
                acceptor.take_back(connection);
            }
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // Gone already is fine.
        let _ = fs::remove_file(&self.path);
    }
}

fn send(connection: &OwnedFd, session: u32, files: [&OwnedFd; 2]) -> io::Result<()> {
    let mut packet = [0; PACKET_BYTES];
    packet[..4].copy_from_slice(&VERSION.to_le_bytes());
    packet[4..].copy_from_slice(&session.to_le_bytes());
    let files = files.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(
        connection,
        &[IoSlice::new(&packet)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// The end of a process that asks for the eventfds.
#[derive(Debug)]
pub(crate) struct Request {
    connection: OwnedFd,
    session: u32,
    deadline: Instant,
}

/// What has come of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Nothing yet.
    Pending,
    /// What rings the core, and what it adds to.
    Granted(OwnedFd, OwnedFd),
    /// The agent does not hand them out, or does not run, or they are of another life.
    Refused,
}

impl Request {
    /// Asks for the eventfds of this life of a core, and waits for them for at most `bound`.
    /// `None`: its agent offers none, or is dead.
    pub(crate) fn begin(
        pool: &Path,
        region: RegionIndex,
        session: u32,
        bound: Duration,
    ) -> Option<Self> {
        let connection = reach(pool, &path_of(pool, region)).ok()?;
        Some(Self {
            connection,
            session,
            deadline: Instant::now() + bound,
        })
    }

    /// Looks for the answer.
    pub(crate) fn look(&self) -> Answer {
        match self.receive() {
            Ok(Some((ring, rung))) => Answer::Granted(ring, rung),
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < self.deadline => Answer::Pending,
            Ok(None) | Err(_) => Answer::Refused,
        }
    }

    fn receive(&self) -> Result<Option<(OwnedFd, OwnedFd)>, Errno> {
        let mut packet = [0; PACKET_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut pieces = [IoSliceMut::new(&mut packet)];
        let received = recvmsg(&self.connection, &mut pieces, &mut control, flags)?;
        // Whatever does not fit is closed with these.
        let mut files = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.collect(),
            _ => Vec::new(),
        });
        let (ring, rung) = (files.next(), files.next());
        let mut expected = [0; PACKET_BYTES];
        expected[..4].copy_from_slice(&VERSION.to_le_bytes());
        expected[4..].copy_from_slice(&self.session.to_le_bytes());
        let is_ours = received.bytes == PACKET_BYTES && packet == expected;
        let files = ring.zip(rung).filter(|_| is_ours);
        Ok(files.filter(|(ring, rung)| is_eventfd(ring) && is_eventfd(rung)))
    }
}

/// Connects to the agent. What is not a socket of the pool's owner is none of an agent.
fn reach(pool: &Path, path: &Path) -> io::Result<OwnedFd> {
    let refused = || io::Error::from(Errno::ACCESS);
    // The file first, held fast: so that what was checked is what is connected to.
    let file = open(
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let (found, owner) = (fstat(&file)?, fs::metadata(pool)?.uid());
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket || found.st_uid != owner {
        return Err(refused());
    }
    let connection = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
    let held = format!("/proc/self/fd/{}", file.as_raw_fd());
    connect(&connection, &SocketAddrUnix::new(held)?)?;
    match hythe_sys::peer::peer_uid(&connection)? {
        user if user == owner || user == 0 => Ok(connection),
        _ => Err(refused()),
    }
}

/// Is it an eventfd, and one that never blocks?
fn is_eventfd(file: &OwnedFd) -> bool {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let kind = fs::read_link(path);
    let never_blocks =
        rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
    never_blocks && kind.is_ok_and(|kind| kind == Path::new("anon_inode:[eventfd]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::fcntl_setfl;

    const REGION: RegionIndex = RegionIndex(1);

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("hythe-eventfds-{name}-{}", std::process::id());
            let place = std::env::temp_dir().join(name);
            fs::create_dir(&place).expect("own");
            Self(place)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn event() -> OwnedFd {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("made")
    }

    fn ask(place: &Place, session: u32) -> Request {
        Request::begin(&place.0, REGION, session, BOUND).expect("somebody listens")
    }

    fn is_refused(request: &Request) -> bool {
        matches!(request.look(), Answer::Refused)
    }

    #[test]
    fn who_asks_gets_both_and_of_its_own_life_only() {
        let place = Place::new("both");
        let asks = |session| Request::begin(&place.0, REGION, session, BOUND);
        assert!(asks(5).is_none(), "no offer");
        let (ring, rung) = (event(), event());
        let offer = Offer::open(&place.0, REGION).expect("listens");
        let (early, other_life) = (ask(&place, 5), ask(&place, 4));
        assert!(matches!(early.look(), Answer::Pending));
        offer.serve(5, (&ring, &rung));
        let Answer::Granted(to_core, from_core) = early.look() else {
            panic!("not granted");
        };
        assert!(is_refused(&other_life));
        rustix::io::write(&to_core, &3_u64.to_ne_bytes()).expect("written");
        let mut count = [0; 8];
        rustix::io::read(&ring, &mut count).expect("read");
        assert_eq!(u64::from_ne_bytes(count), 3);
        rustix::io::write(&rung, &1_u64.to_ne_bytes()).expect("written");
        rustix::io::read(&from_core, &mut count).expect("read");

        let late = ask(&place, 5);
        drop(offer);
        assert!(is_refused(&late), "the agent hung up");
        assert!(asks(5).is_none());
        assert_eq!(fs::read_dir(&place.0).expect("own").count(), 0);
    }

    #[test]
    fn who_gets_no_answer_asks_no_longer_than_it_said() {
        let place = Place::new("silent");
        let _silent = Offer::open(&place.0, REGION).expect("listens");
        let hasty = Request::begin(&place.0, REGION, 5, Duration::ZERO);
        assert!(is_refused(&hasty.expect("somebody listens")));
        let slow = Request::begin(&place.0, REGION, 5, Duration::from_secs(3600));
        let slow = slow.expect("somebody listens");
        assert!(matches!(slow.look(), Answer::Pending));
    }

    #[test]
    fn leftovers_of_killed_agent_offer_and_block_nothing() {
        let place = Place::new("left");
        let offer = Offer::open(&place.0, REGION).expect("listens");
        let kept = place.0.join("kept");
        fs::rename(&offer.path, &kept).expect("own");
        let path = offer.path.clone();
        drop(offer);
        fs::rename(kept, path).expect("own");
        let asked = Request::begin(&place.0, REGION, 1, BOUND);
        assert!(asked.is_none(), "refused");
        let offer = Offer::open(&place.0, REGION).expect("listens");
        let asked = ask(&place, 2);
        offer.serve(2, (&event(), &event()));
        assert!(matches!(asked.look(), Answer::Granted(..)));
    }

    /// Whoever answers may send anything; a file that may block a writer is not taken.
    #[test]
    fn only_eventfds_that_never_block_are_taken() {
        let place = Place::new("kinds");
        let offer = Offer::open(&place.0, REGION).expect("listens");
        let blocking = eventfd(0, EventfdFlags::CLOEXEC).expect("made");
        let (_, pipe) = rustix::pipe::pipe().expect("made");
        fcntl_setfl(&pipe, OFlags::NONBLOCK).expect("set");
        for odd in [blocking, pipe] {
            let asked = ask(&place, 1);
            offer.serve(1, (&event(), &odd));
            assert!(is_refused(&asked));
        }
    }

    #[test]
    fn what_is_not_a_socket_is_not_connected_to() {
        let place = Place::new("file");
        let path = path_of(&place.0, REGION);
        fs::write(&path, "").expect("own");
        let asks = || Request::begin(&place.0, REGION, 1, BOUND);
        assert!(asks().is_none());
        fs::remove_file(&path).expect("own");
        let offer = Offer::open(&place.0, RegionIndex(2)).expect("listens");
        std::os::unix::fs::symlink(&offer.path, &path).expect("own");
        assert!(asks().is_none(), "no link");
    }
}
