//! The machine's sockets: `pvm` in the pool's directory, and that to which agents lead tasks of
//! other hosts. One that nobody listens at is what a killed server left.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hythe_cluster::tasks::service_socket;
use hythe_node::Pool;
use hythe_sys::identity::effective_user;
use hythe_sys::local_socket::{LocalListener, Peers};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::net::SocketType;

const NAME: &str = "pvm";
/// The lock under which it is made and taken away.
const LOCK: &str = "pvm.lock";
/// Tasks that may wait to be taken in.
const BACKLOG: i32 = 4096;

#[derive(Debug)]
pub(super) struct Place {
    pub(super) listener: LocalListener,
    pub(super) far_listener: LocalListener,
    path: PathBuf,
    far_path: PathBuf,
}

pub(crate) fn socket_path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

impl Place {
    /// `None`: somebody listens there.
    pub(super) fn take(pool: &Pool) -> io::Result<Option<Self>> {
        let directory = &pool.path();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(directory.join(LOCK), flags, Mode::RUSR | Mode::WUSR)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let path = socket_path(directory);
        match UnixStream::connect(&path) {
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Under the lock nobody makes it anew.
                std::fs::remove_file(&path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listen = |path: &Path| {
            let peers = Peers::User(effective_user());
            LocalListener::bind(path, SocketType::STREAM, BACKLOG, peers)
        };
        let listener = listen(&path)?;
        let far_path = service_socket(pool);
        // Who serves the machine has this one, too.
        match std::fs::remove_file(&far_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let far_listener = listen(&far_path)?;
        Ok(Some(Self {
            listener,
            far_listener,
            path,
            far_path,
        }))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.far_path);
        let _ = std::fs::remove_file(&self.path);
    }
}
