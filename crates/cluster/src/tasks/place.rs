//! Sockets of runners: `tasks.JOB` in the pool's directory, or `tasks.HOST.JOB` where the host has
//! a number in a realm.
//!
//! Who binds one has the job's number. A socket that nobody listens at is what a killed runner
//! left: whoever finds it takes it away.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hythe_node::Pool;
use hythe_sys::identity::effective_user;
use hythe_sys::local_socket::{LocalListener, Peers};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::agent_message::SERVICE_SOCKET;
use super::error::TaskError;
use super::id::{JOB_MAX, JobId};
use super::message::Request;
use crate::HostName;

/// What the names begin with.
const PREFIX: &str = "tasks.";
/// How long a runner may take to hear where a task is.
const TELLING: Duration = Duration::from_secs(2);
/// The longest answer to that.
const TOLD_BYTES_MAX: usize = 4096;
/// Whether a runner is there need not be waited for: one with a full queue is.
const SOON: Duration = Duration::from_millis(1);
/// Tasks and commands that may wait to be taken in.
const BACKLOG: i32 = 4096;
/// The lock under which sockets are made and taken away, and the last job's number.
const LAST: &str = "tasks.last";

/// The socket of a runner; its name goes when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) job: JobId,
    pub(super) listener: LocalListener,
    path: PathBuf,
}

/// Connects a task on another host to the runner of a job of this one, which is told that host.
pub(crate) fn connect_to_runner(
    directory: &Path,
    job: JobId,
    from: &HostName,
) -> io::Result<UnixStream> {
    let mut stream = connect_within(&socket_path(directory, job), TELLING)?;
    stream.set_read_timeout(Some(TELLING))?;
    stream.set_write_timeout(Some(TELLING))?;
    let mut line = serde_json::to_vec(&Request::From { host: from.clone() })?;
    line.push(b'\n');
    stream.write_all(&line)?;
    // A byte at a time: what follows is the task's. Its answers come when it asks.
    let mut byte = [0];
    for _ in 0..TOLD_BYTES_MAX {
        stream.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return Ok(stream);
        }
    }
    Err(io::Error::other("its answer is too long"))
}

/// Connects to a socket of this directory. One whose owner is stopped has a queue that may be full:
/// [`ErrorKind::WouldBlock`] then, after so long.
pub(super) fn connect_within(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // It bounds the wait of `connect`, too.
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    let address = SocketAddrUnix::new(path)?;
    match rustix::io::retry_on_intr(|| connect(&socket, &address)) {
        Ok(()) => {}
        Err(Errno::AGAIN) => {
            let reason = "its queue is full, and nobody is taken from it; is it stopped?";
            return Err(io::Error::new(ErrorKind::WouldBlock, reason));
        }
        Err(error) => return Err(error.into()),
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

/// Connects a task on another host to what serves the jobs of this one besides their runners.
pub(crate) fn lead_to_service(directory: &Path, from: &HostName) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(directory.join(SERVICE_SOCKET))?;
    stream.set_write_timeout(Some(TELLING))?;
    stream.write_all(format!("{from}\n").as_bytes())?;
    Ok(stream)
}

pub(super) fn socket_path(directory: &Path, job: JobId) -> PathBuf {
    directory.join(format!("{PREFIX}{job}"))
}

impl Place {
    /// Takes the next number that is free on this host, which has that number in its realm.
    pub(super) fn take(pool: &Pool, host: u32) -> Result<Self, TaskError> {
        let directory = pool.path();
        let last = lock_last(&directory)?;
        let before = read_last(&last);
        for step in 1..=JOB_MAX {
            let number = (before + step - 1) % JOB_MAX + 1;
            let Some(job) = JobId::new(host, number) else {
                continue;
            };
            let path = socket_path(&directory, job);
            // Under the lock nobody else takes it away, or makes it anew.
            let connected = connect_within(&path, SOON);
            if connected.is_err_and(|error| is_left_behind(&error)) {
                let _ = std::fs::remove_file(&path);
            }
            match listen(&path) {
                Ok(listener) => {
                    let text = format!("{number:>10}\n");
                    let _ = rustix::io::pwrite(&last, text.as_bytes(), 0);
                    return Ok(Self {
                        job,
                        listener,
                        path,
                    });
                }
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(file("listen at", &path, error)),
            }
        }
        Err(TaskError::TooManyJobs)
    }
}

/// A runner starts programs as its own user: so no other may ask it, whoever may use the pool.
fn listen(path: &Path) -> io::Result<LocalListener> {
    let peers = Peers::User(effective_user());
    LocalListener::bind(path, SocketType::STREAM, BACKLOG, peers)
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The numbers of all jobs whose socket is there.
pub(super) fn jobs(pool: &Pool) -> Result<Vec<JobId>, TaskError> {
    let directory = pool.path();
    let entries = std::fs::read_dir(&directory);
    let entries = entries.map_err(|source| file("list", &directory, source))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut jobs: Vec<JobId> = names
        .filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok())
        .collect();
    jobs.sort_unstable();
    Ok(jobs)
}

/// Takes away the socket of a runner that was killed, if nobody has made it anew meanwhile. Where
/// this process may not, it stays.
pub(super) fn remove_left_behind(directory: &Path, job: JobId) {
    let path = socket_path(directory, job);
    let Ok(_last) = lock_last(directory) else {
        return;
    };
    if connect_within(&path, SOON).is_err_and(|error| is_left_behind(&error)) {
        let _ = std::fs::remove_file(&path);
    }
}

/// Nobody listens there, and nobody will.
pub(super) fn is_left_behind(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused
}

fn lock_last(directory: &Path) -> Result<OwnedFd, TaskError> {
    let path = directory.join(LAST);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let failed = |error: rustix::io::Errno| file("open", &path, error.into());
    let opened = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    flock(&opened, FlockOperation::LockExclusive).map_err(failed)?;
    Ok(opened)
}

/// 0 where it cannot be read: the first number that is free then serves.
fn read_last(last: &OwnedFd) -> u32 {
    let mut bytes = [0; 16];
    let read = rustix::io::pread(last, &mut bytes, 0).unwrap_or(0);
    let text = std::str::from_utf8(&bytes[..read]).unwrap_or_default();
    text.trim()
        .parse()
        .map_or(0, |job: u32| job % (JOB_MAX + 1))
}

pub(super) fn file(action: &'static str, path: &Path, source: io::Error) -> TaskError {
    TaskError::File {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::net::{bind, listen};

    use super::*;

    /// The socket of a runner that takes in nobody any more, and whose queue is full.
    fn stopped(directory: &Path, job: JobId) -> (OwnedFd, Vec<UnixStream>) {
        let path = socket_path(directory, job);
        let flags = SocketFlags::CLOEXEC;
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let listener = listener.expect("a socket");
        bind(&listener, &SocketAddrUnix::new(&path).expect("short")).expect("bound");
        listen(&listener, 0).expect("listens");
        let waiting = std::iter::from_fn(|| connect_within(&path, SOON).ok());
        let waiting: Vec<UnixStream> = waiting.collect();
        assert!(!waiting.is_empty());
        (listener, waiting)
    }

    #[test]
    fn stopped_runner_holds_nobody_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let job = JobId::new(2, 1).expect("in range");
        let (_listener, _waiting) = stopped(directory.path(), job);
        let from: HostName = "b".parse().expect("a name");
        let refused = connect_to_runner(directory.path(), job, &from);
        let refused = refused.expect_err("nobody takes it in");
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        assert!(!is_left_behind(&refused), "its number is its own");
    }

    #[test]
    fn answer_without_end_is_not_read_for_ever() {
        let directory = tempfile::tempdir().expect("a directory");
        let job = JobId::new(2, 1).expect("in range");
        let listener = UnixListener::bind(socket_path(directory.path(), job)).expect("bound");
        let liar = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it connects");
            while stream.write_all(&[b'x'; 1024]).is_ok() {}
        });
        let from: HostName = "b".parse().expect("a name");
        let refused = connect_to_runner(directory.path(), job, &from);
        assert!(
            refused
                .expect_err("no answer")
                .to_string()
                .contains("too long")
        );
        liar.join().expect("no panic");
    }
}
