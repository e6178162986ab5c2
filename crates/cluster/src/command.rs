//! What `hythe host` asks a running agent over its socket: JSON, a line each way.
//!
//! The socket is `agent.sock` in the directory of the host's files; who may open that directory may
//! ask. One request for each connection. Never blocks the agent: a request that does not come at
//! once is not waited for.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Status;

/// The socket's name.
pub const SOCKET_NAME: &str = "agent.sock";
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

/// The longest line; a status of many hosts is long.
const LINE_BYTES_MAX: u64 = 16 << 20;
/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

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
    let mut stream = UnixStream::connect(socket)?;
    prepare(&stream)?;
    write_line(&mut stream, request)?;
    read_line(&stream)
}

/// Answers one request, if somebody has connected; `listener` does not block then.
///
/// # Errors
/// What is wrong with the listener. A bad request is answered, and no error.
pub fn answer(
    listener: &UnixListener,
    answering: impl FnOnce(Request) -> Reply,
) -> io::Result<bool> {
    let mut stream = match listener.accept() {
        Ok((stream, _)) => stream,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        Err(error) => return Err(error),
    };
    stream.set_nonblocking(false)?;
    prepare(&stream)?;
    let reply = match read_line(&stream) {
        Ok(request) => answering(request),
        Err(error) => Reply::Failed {
            reason: format!("the request cannot be read: {error}"),
        },
    };
    // Who asks and goes does not need the reply.
    let _ = write_line(&mut stream, &reply);
    Ok(true)
}

fn prepare(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn write_line(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn read_line<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    let mut limited = BufReader::new(stream.take(LINE_BYTES_MAX));
    limited.read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        let cut = "the line is cut, or too long";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, cut));
    }
    Ok(serde_json::from_slice(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_and_nonsense_is_told_so() {
        let place = std::env::temp_dir().join(format!("hythe-command-{}", std::process::id()));
        std::fs::create_dir(&place).expect("own");
        let socket = place.join(SOCKET_NAME);
        let listener = UnixListener::bind(&socket).expect("bound");
        let serving = std::thread::spawn(move || {
            for _ in 0..2 {
                let answered = answer(&listener, |request| {
                    assert_eq!(request, Request::Reload);
                    Reply::Done
                });
                assert!(answered.expect("sound"));
            }
        });
        assert_eq!(ask(&socket, &Request::Reload).expect("asked"), Reply::Done);
        let mut liar = UnixStream::connect(&socket).expect("connects");
        liar.write_all(b"{\"request\":\"everything\"}\n")
            .expect("written");
        let reply: Reply = read_line(&liar).expect("a reply");
        assert!(matches!(reply, Reply::Failed { .. }));
        serving.join().expect("ended");
        std::fs::remove_dir_all(place).expect("own");
    }
}
