//! Sockets of runners: `tasks.JOB` in the pool's directory, or `tasks.HOST.JOB` where the host has
//! a number in a realm.
//!
//! Who binds one has the job's number. A socket that nobody listens at is what a killed runner
//! left: whoever finds it takes it away.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hythe_node::Pool;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::error::TaskError;
use super::id::{JOB_MAX, JobId};
use super::message::Request;
use crate::HostName;

/// What the names begin with.
const PREFIX: &str = "tasks.";
/// How long a runner may take to hear where a task is.
const TELLING: Duration = Duration::from_secs(2);
/// The lock under which sockets are made and taken away, and the last job's number.
const LAST: &str = "tasks.last";

/// The socket of a runner; its name goes when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) job: JobId,
    pub(super) listener: UnixListener,
    path: PathBuf,
}

/// Connects a task on another host to the runner of a job of this one, which is told that host.
pub(crate) fn connect_to_runner(
    directory: &Path,
    job: JobId,
    from: &HostName,
) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket_path(directory, job))?;
    stream.set_read_timeout(Some(TELLING))?;
    stream.set_write_timeout(Some(TELLING))?;
    let mut line = serde_json::to_vec(&Request::From { host: from.clone() })?;
    line.push(b'\n');
    stream.write_all(&line)?;
    // A byte at a time: what follows is the task's. Its answers come when it asks.
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte)?;
    }
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
            if UnixStream::connect(&path).is_err_and(|error| is_left_behind(&error)) {
                let _ = std::fs::remove_file(&path);
            }
            match UnixListener::bind(&path) {
                Ok(listener) => {
                    let file = |source| file("listen at", &path, source);
                    listener.set_nonblocking(true).map_err(file)?;
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
