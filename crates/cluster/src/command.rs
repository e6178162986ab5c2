//! What `hythe host` asks a running agent over its socket: JSON, a line each way.
//!
//! The socket is `agent.sock` in the directory of the host's files; who may open that directory may
//! ask. One request for each connection. Never keeps the agent longer than two times
//! `LINE_TIMEOUT`: for the request, and for the reply to be read. Whoever asks waits three times as
//! long at most, for a place, too.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hythe_sys::accept::{Accepted, Acceptor};
use hythe_sys::local_socket::LocalListener;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Status;

/// The socket's name.
pub const SOCKET_NAME: &str = "agent.sock";
/// The longest reply; a status of many hosts is long.
const REPLY_BYTES_MAX: usize = 16 << 20;
/// The longest request.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// How long either side waits for a line of the other, from its first byte to its last.
const LINE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a caller looks whether an agent has a place for it.
const CONNECT_LOOK: Duration = Duration::from_millis(20);

/// Nothing says where the files of this host are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "none of HYTHE_HOSTS_DIR, XDG_CONFIG_HOME and HOME says where the files of this host are: set \
     HYTHE_HOSTS_DIR"
)]
pub struct NoHostsDirectory;

/// Where the files of this host are, whether there are any or not: `HYTHE_HOSTS_DIR`, else
/// `hythe/hosts` below `XDG_CONFIG_HOME`, else below `~/.config`.
///
/// # Errors
/// None of them is set.
pub fn hosts_directory() -> Result<PathBuf, NoHostsDirectory> {
    let from = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let given = from("HYTHE_HOSTS_DIR");
    let configured = || from("XDG_CONFIG_HOME").map(|folder| folder.join("hythe/hosts"));
    let at_home = || from("HOME").map(|home| home.join(".config/hythe/hosts"));
    given
        .or_else(configured)
        .or_else(at_home)
        .ok_or(NoHostsDirectory)
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
#[non_exhaustive]
pub enum Request {
    /// How the agent is.
    Status,
    /// To stop.
    Stop,
    /// To read the rights and the list of revoked certificates anew.
    Reload,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
#[non_exhaustive]
pub enum Reply {
    /// How the agent is.
    Status {
        /// The document.
        status: Box<Status>,
    },
    /// It is done, or will be at once.
    Done,
    /// It is not.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Asks the agent behind a socket.
///
/// # Errors
/// Nobody listens there ([`io::ErrorKind::NotFound`], [`io::ErrorKind::ConnectionRefused`]); what
/// came is no reply.
pub fn ask(socket: &Path, request: &Request) -> io::Result<Reply> {
    let stream = connect(socket)?;
    write_line(&stream, request)?;
    read_line(&stream, REPLY_BYTES_MAX)
}

/// Connects; an agent that stands still has no place for one more caller after a while.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let address = SocketAddrUnix::new(socket)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let start = Instant::now();
    loop {
        let made = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&made, &address) {
            Ok(()) => {
                let stream = UnixStream::from(made);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                hythe_sys::wait::sleep(CONNECT_LOOK.min(time_left(start)?));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Answers one request, if somebody has connected who may. False: there is none. Also an agent that
/// may open no more files is asked and stopped so.
pub fn answer(
    acceptor: &mut Acceptor,
    listener: &LocalListener,
    answering: impl FnOnce(Request) -> Reply,
) -> bool {
    let accepted = listener.accept_by(acceptor, |error| {
        tracing::warn!(%error, "requests to the agent are answered late, or not at all");
    });
    // Who asks and goes does not need the reply.
    match accepted {
        Accepted::Connection(stream) => {
            let _ = serve(&stream.into(), answering);
        }
        Accepted::Surplus(stream) => {
            let stream = UnixStream::from(stream);
            let _ = serve(&stream, answering);
            acceptor.take_back(stream);
        }
        Accepted::Nothing => return false,
    }
    true
}

fn serve(stream: &UnixStream, answering: impl FnOnce(Request) -> Reply) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let reply = match read_line(stream, REQUEST_BYTES_MAX) {
        Ok(request) => answering(request),
        Err(error) => Reply::Failed {
            reason: format!("the request cannot be read: {error}"),
        },
    };
    write_line(stream, &reply)
}

fn write_line(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let (start, mut left) = (Instant::now(), line.as_slice());
    while !left.is_empty() {
        stream.set_write_timeout(Some(time_left(start)?))?;
        match stream.write(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => left = &left[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_line<T: DeserializeOwned>(mut stream: &UnixStream, bytes_max: usize) -> io::Result<T> {
    let (start, mut line, mut part) = (Instant::now(), Vec::new(), [0; 4096]);
    while line.last() != Some(&b'\n') {
        stream.set_read_timeout(Some(time_left(start)?))?;
        match stream.read(&mut part) {
            Ok(read) if read > 0 && line.len() < bytes_max => line.extend_from_slice(&part[..read]),
            Ok(_) => {
                let cut = "the line is cut, or too long";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(serde_json::from_slice(&line)?)
}

/// Of `LINE_TIMEOUT`; never zero, which would be no limit.
fn time_left(start: Instant) -> io::Result<Duration> {
    let left = LINE_TIMEOUT.saturating_sub(start.elapsed());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use hythe_sys::local_socket::Peers;

    use super::*;
    use hythe_testing::let_time_pass;

    fn listener(socket: &Path) -> LocalListener {
        let peers = Peers::User(hythe_sys::identity::effective_user());
        let kind = rustix::net::SocketType::STREAM;
        LocalListener::bind(socket, kind, 128, peers).expect("bound")
    }

    fn await_request(listener: &LocalListener) {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut files = [PollFd::new(listener, PollFlags::IN)];
        poll(&mut files, None).expect("waits");
    }

    #[test]
    fn request_is_answered_and_nonsense_is_told_so() {
        let place = std::env::temp_dir().join(format!("hythe-command-{}", std::process::id()));
        std::fs::create_dir(&place).expect("own");
        let socket = place.join(SOCKET_NAME);
        let listener = listener(&socket);
        let serving = std::thread::spawn(move || {
            for _ in 0..2 {
                await_request(&listener);
                let answered = answer(&mut Acceptor::default(), &listener, |request| {
                    assert_eq!(request, Request::Reload);
                    Reply::Done
                });
                assert!(answered);
            }
        });
        assert_eq!(ask(&socket, &Request::Reload).expect("asked"), Reply::Done);
        let mut liar = UnixStream::connect(&socket).expect("connects");
        liar.write_all(b"{\"request\":\"everything\"}\n")
            .expect("written");
        let reply: Reply = read_line(&liar, REPLY_BYTES_MAX).expect("a reply");
        assert!(matches!(reply, Reply::Failed { .. }));
        serving.join().expect("ended");
        std::fs::remove_dir_all(place).expect("own");
    }

    /// Nobody takes calls, and so many wait that there is no place for another.
    #[test]
    fn agent_that_stands_still_is_waited_for_for_a_bounded_time() {
        let place = tempfile::tempdir().expect("a directory");
        let socket = place.path().join(SOCKET_NAME);
        let listener = listener(&socket);
        rustix::net::listen(&listener, 1).expect("fewer places");
        let mut waiting = Vec::new();
        let error = loop {
            assert!(waiting.len() < 100, "there is always a place");
            let fd = rustix::net::socket_with(
                rustix::net::AddressFamily::UNIX,
                rustix::net::SocketType::STREAM,
                rustix::net::SocketFlags::NONBLOCK,
                None,
            )
            .expect("a socket");
            let address = rustix::net::SocketAddrUnix::new(&socket).expect("an address");
            match rustix::net::connect(&fd, &address) {
                Ok(()) => waiting.push(fd),
                Err(_) => break ask(&socket, &Request::Status).expect_err("nobody answers"),
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn request_that_never_ends_keeps_the_agent_for_a_bounded_time() {
        let place = tempfile::tempdir().expect("a directory");
        let socket = place.path().join(SOCKET_NAME);
        let listener = listener(&socket);
        let mut slow = UnixStream::connect(&socket).expect("connects");
        let is_answered = AtomicBool::new(false);
        let answered = std::thread::scope(|scope| {
            // More often than a limit for each byte alone would notice.
            scope.spawn(|| {
                while !is_answered.load(Ordering::Relaxed) && slow.write_all(b" ").is_ok() {
                    let_time_pass(LINE_TIMEOUT / 50, "bytes come slowly");
                }
            });
            let answered = answer(&mut Acceptor::default(), &listener, |request| {
                panic!("{request:?} was not asked")
            });
            is_answered.store(true, Ordering::Relaxed);
            answered
        });
        assert!(answered);
    }
}
