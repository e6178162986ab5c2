//! The directory in which a host keeps its keys, certificates and rights.
//!
//! It belongs to one user, and nobody else can reach it: that is checked each time it is opened.
//! All files are reached through its descriptor, never through a link, and are replaced whole: who
//! reads sees the old one or the new one. Never interprets what is in them.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RawMode};

use crate::error::HostdError;

/// No file here is larger: the longest is the list of hosts, whose own limit is half of this.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;

/// How long a lock is waited for, and how often it is tried.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_LOOK: Duration = Duration::from_millis(20);

/// Of a directory or file that only its owner can reach.
const OTHERS: RawMode = 0o077;

/// An open directory of keys.
#[derive(Debug)]
pub struct HostsDirectory {
    path: PathBuf,
    directory: OwnedFd,
}

/// A lock that ends with the process that holds it, however it ends.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: OwnedFd,
}

impl HostsDirectory {
    /// Opens it, and makes it where it is missing.
    ///
    /// # Errors
    /// What the system says; [`HostdError::NotPrivate`] if others can reach it.
    pub fn open_or_create(path: &Path) -> Result<Self, HostdError> {
        let fail = |source: io::Error| HostdError::File {
            path: path.to_owned(),
            source,
        };
        if let Some(parent) = path.parent() {
            // Whatever the umask: who may write it could take the directory away.
            let mut builder = std::fs::DirBuilder::new();
            let builder = builder.recursive(true).mode(0o755);
            builder.create(parent).map_err(fail)?;
        }
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Self::open(path),
            Err(errno) => Err(fail(errno.into())),
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// As [`open_or_create`](Self::open_or_create); [`HostdError::NoRealm`] if it is missing.
    pub fn open(path: &Path) -> Result<Self, HostdError> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(rustix::io::Errno::NOENT) => {
                return Err(HostdError::NoRealm {
                    directory: path.to_owned(),
                    file: "host.pem",
                });
            }
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
                return Err(HostdError::NotPrivate {
                    path: path.to_owned(),
                    reason: "is a symbolic link, or no directory: name the directory itself in \
                             HYTHE_HOSTS_DIR"
                        .to_owned(),
                });
            }
            Err(errno) => return Err(file_error(path, errno.into())),
        };
        let status =
            rustix::fs::fstat(&directory).map_err(|errno| file_error(path, errno.into()))?;
        check_private(path, status.st_uid, status.st_mode)?;
        Ok(Self {
            path: path.to_owned(),
            directory,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Is what is open still what its path leads to? True also where that cannot be seen.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let open = rustix::fs::fstat(&self.directory);
        match (rustix::fs::lstat(&self.path), open) {
            (Ok(found), Ok(open)) => (found.st_dev, found.st_ino) == (open.st_dev, open.st_ino),
            (Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR), _) => false,
            _ => true,
        }
    }

    /// Where a file of it is, for programs that take paths.
    #[must_use]
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// All of a file; `None` if there is none.
    ///
    /// # Errors
    /// What the system says, or a file of more than 16 MiB.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, HostdError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.file_error(name, errno.into())),
        };
        let fail = |source| self.file_error(name, source);
        if !file.metadata().map_err(fail)?.is_file() {
            return Err(fail(io::Error::other("it is no regular file")));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(fail)?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(fail(too_large())),
            false => Ok(Some(bytes)),
        }
    }

    /// As [`read`](Self::read), of text.
    ///
    /// # Errors
    /// As [`read`](Self::read), and if it is not UTF-8.
    pub fn read_text(&self, name: &str) -> Result<Option<String>, HostdError> {
        let bytes = self.read(name)?;
        bytes
            .map(String::from_utf8)
            .transpose()
            .map_err(|_| self.damaged(name, "it is not UTF-8 text"))
    }

    /// The JSON document in a file; `None` if there is none.
    ///
    /// # Errors
    /// As [`read`](Self::read), and if it is no such document.
    pub fn read_json<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, HostdError> {
        let bytes = self.read(name)?;
        bytes
            .map(|bytes| serde_json::from_slice(&bytes))
            .transpose()
            .map_err(|error| self.damaged(name, &error.to_string()))
    }

    /// Writes a file, mode 0600, in the place of the one that was there, if any. It is on the disk
    /// when this returns.
    ///
    /// # Errors
    /// What the system says, or more than 16 MiB; the old file is as it was then.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), HostdError> {
        let fail = |source| self.file_error(name, source);
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(fail(too_large()));
        }
        let (temporary, mut file) = self.create_temporary(name)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| self.rename(&temporary, name));
        if written.is_err() {
            // The first error is the one to report.
            let _ = rustix::fs::unlinkat(&self.directory, temporary.as_str(), AtFlags::empty());
        }
        written.map_err(fail)
    }

    /// As [`write`](Self::write), as a JSON document.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_json<T: serde::Serialize>(&self, name: &str, value: &T) -> Result<(), HostdError> {
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|error| self.file_error(name, io::Error::other(error)))?;
        text.push(b'\n');
        self.write(name, &text)
    }

    /// Removes a file, if there is one.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self, name: &str) -> Result<(), HostdError> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.file_error(name, errno.into())),
        }
    }

    /// Takes the lock of this name, and waits for whoever has it: 10 s at most, since nobody has it
    /// for longer than it takes to write some files.
    ///
    /// # Errors
    /// What the system says; somebody keeps it.
    pub fn lock(&self, name: &str) -> Result<DirectoryLock, HostdError> {
        let end = Instant::now() + LOCK_TIMEOUT;
        loop {
            if let Some(lock) = self.try_lock(name)? {
                return Ok(lock);
            }
            if Instant::now() >= end {
                let what = format!(
                    "another process has locked it for {LOCK_TIMEOUT:?}: `fuser` names it; it may \
                     be stopped"
                );
                return Err(self.file_error(name, io::Error::new(ErrorKind::TimedOut, what)));
            }
            std::thread::sleep(LOCK_LOOK);
        }
    }

    /// Takes the lock of this name; `None` if somebody has it.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_lock(&self, name: &str) -> Result<Option<DirectoryLock>, HostdError> {
        let file = self.open_lock(name)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(DirectoryLock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(self.file_error(name, errno.into())),
        }
    }

    /// An error about the text of one of its files.
    #[must_use]
    pub fn damaged(&self, name: &str, reason: &str) -> HostdError {
        HostdError::Damaged {
            path: self.path_of(name),
            reason: reason.to_owned(),
        }
    }

    fn open_lock(&self, name: &str) -> Result<OwnedFd, HostdError> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| self.file_error(name, errno.into()))
    }

    /// A new file beside `name`. A leftover of a process that was killed stops nobody.
    fn create_temporary(&self, name: &str) -> Result<(String, File), HostdError> {
        let temporary = format!(".{name}.{}", std::process::id());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let create = || {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::openat(&self.directory, temporary.as_str(), flags, mode)
        };
        let made = create().or_else(|errno| match errno {
            rustix::io::Errno::EXIST => {
                rustix::fs::unlinkat(&self.directory, temporary.as_str(), AtFlags::empty())?;
                create()
            }
            errno => Err(errno),
        });
        match made {
            Ok(file) => Ok((temporary, File::from(file))),
            Err(errno) => Err(self.file_error(&temporary, errno.into())),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        rustix::fs::renameat(&self.directory, from, &self.directory, to)?;
        rustix::fs::fsync(&self.directory)?;
        Ok(())
    }

    fn file_error(&self, name: &str, source: io::Error) -> HostdError {
        file_error(&self.path_of(name), source)
    }
}

fn too_large() -> io::Error {
    io::Error::other(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20))
}

fn file_error(path: &Path, source: io::Error) -> HostdError {
    HostdError::File {
        path: path.to_owned(),
        source,
    }
}

fn check_private(path: &Path, owner: u32, mode: RawMode) -> Result<(), HostdError> {
    let user = hythe_sys::identity::effective_user();
    let reason = if owner != user {
        format!("belongs to user {owner}, and this is user {user}: use a directory of your own")
    } else if mode & OTHERS != 0 {
        let mode = mode & 0o7777;
        format!("can be reached by others (mode {mode:04o}), and holds keys: chmod 0700 it")
    } else {
        return Ok(());
    };
    Err(HostdError::NotPrivate {
        path: path.to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn open_new() -> (tempfile::TempDir, HostsDirectory) {
        let root = tempfile::tempdir().expect("a directory");
        let directory = HostsDirectory::open_or_create(&root.path().join("config/hosts"));
        (root, directory.expect("the directory is made"))
    }

    #[test]
    fn files_are_replaced_whole_and_private() {
        let (_root, directory) = open_new();
        assert_eq!(directory.read("a").expect("missing is no error"), None);
        directory.write("a", b"one").expect("written");
        directory.write("a", b"two").expect("written again");
        assert_eq!(directory.read("a").expect("read"), Some(b"two".to_vec()));
        for path in [directory.path().to_owned(), directory.path_of("a")] {
            let mode = std::fs::metadata(&path).expect("it is there").permissions();
            assert_eq!(mode.mode() & OTHERS, 0, "{path:?}");
        }
        let names = std::fs::read_dir(directory.path()).expect("listed").count();
        assert_eq!(names, 1, "nothing temporary is left");
    }

    #[test]
    fn leftover_of_a_killed_process_stops_nobody() {
        let (_root, directory) = open_new();
        let leftover = format!(".a.{}", std::process::id());
        std::fs::write(directory.path_of(&leftover), "half").expect("written");
        directory.write("a", b"whole").expect("written");
        assert_eq!(directory.read("a").expect("read"), Some(b"whole".to_vec()));
    }

    #[test]
    fn directory_that_others_reach_is_refused() {
        let (_root, directory) = open_new();
        let mode = std::fs::Permissions::from_mode(0o750);
        std::fs::set_permissions(directory.path(), mode).expect("set");
        let error = HostsDirectory::open(directory.path()).expect_err("refused");
        assert!(error.to_string().contains("mode 0750"), "{error}");
        assert!(error.to_string().contains("chmod 0700"), "{error}");
    }

    #[test]
    fn links_are_not_followed() {
        let (root, directory) = open_new();
        let link = root.path().join("link");
        symlink(directory.path(), &link).expect("linked");
        let error = HostsDirectory::open(&link).expect_err("refused");
        assert!(matches!(error, HostdError::NotPrivate { .. }), "{error}");

        let elsewhere = root.path().join("elsewhere");
        std::fs::write(&elsewhere, "kept").expect("written");
        symlink(&elsewhere, directory.path_of("a")).expect("linked");
        assert!(directory.read("a").is_err());
        directory.write("a", b"own").expect("the link is replaced");
        assert_eq!(std::fs::read(&elsewhere).expect("read"), b"kept");
        assert_eq!(directory.read("a").expect("read"), Some(b"own".to_vec()));
    }

    #[test]
    fn lock_is_of_one() {
        let (_root, directory) = open_new();
        let held = directory.try_lock("lock").expect("tried");
        assert!(held.is_some());
        assert!(directory.try_lock("lock").expect("tried").is_none());
        drop(held);
        assert!(directory.try_lock("lock").expect("tried").is_some());
    }
}
