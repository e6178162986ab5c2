//! Which files are opened, and which are written, anywhere on the machine: fanotify.
//!
//! The recorder of the storage hop calls it. A [`Group`] holds its marks and its queue until it is
//! dropped. Needs `CAP_SYS_ADMIN`. Nobody who opens a file ever waits for us: events are told,
//! permission is never asked.

#![allow(
    unsafe_code,
    reason = "this is the island: calls that return descriptors as numbers"
)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `struct fanotify_event_metadata`: length, version, reserved, its own length, mask, descriptor,
/// process.
const METADATA_BYTES: usize = 24;
/// Each event opens a descriptor: few at a time, so that the usual limit of 1024 is never met.
const EVENTS_AT_A_TIME: usize = 128;

/// What is told: every opening (also those of `exec`), every change of the content, every end of
/// writing. Not of directories.
const TOLD: u64 = libc::FAN_OPEN | libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE;

/// How many events may wait to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// As many as there are: each takes memory of the kernel.
    Unlimited,
    /// As many as `fs.fanotify.max_queued_events` says: more are lost, which is told.
    Limited,
}

/// What a mark covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What is reached through this one mount.
    Mount,
    /// The file system, by whatever mount of whatever name space it is reached (Linux 4.20).
    FileSystem,
}

/// One thing that happened, or several of one process to one file.
#[derive(Debug)]
pub struct Event {
    /// It was opened.
    pub opened: bool,
    /// Its content was changed by a call (not through a mapping).
    pub modified: bool,
    /// Somebody who had opened it for writing closed it.
    pub closed_after_writing: bool,
    /// Events were lost before this one, which says nothing else.
    pub lost: bool,
    /// The process, as this one would name it; 0 where it has no name for it.
    pub process: u32,
    /// The file, open for reading. None where events were lost, or where it could not be opened.
    pub file: Option<OwnedFd>,
}

/// Marks, and the events that wait.
#[derive(Debug)]
pub struct Group {
    descriptor: OwnedFd,
    buffer: Vec<u8>,
}

impl Group {
    /// A group without marks.
    ///
    /// # Errors
    /// Not permitted without `CAP_SYS_ADMIN`; not implemented in kernels without `CONFIG_FANOTIFY`.
    pub fn new(queue: Queue) -> io::Result<Self> {
        let mut flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_UNLIMITED_MARKS;
        if queue == Queue::Unlimited {
            flags |= libc::FAN_UNLIMITED_QUEUE;
        }
        // Non-blocking: for a pipe with a name, the kernel would wait for its other end.
        let opened = libc::O_RDONLY
            | libc::O_LARGEFILE
            | libc::O_CLOEXEC
            | libc::O_NOATIME
            | libc::O_NONBLOCK;
        // SAFETY: takes two numbers and no pointer.
        let made = unsafe { libc::fanotify_init(flags, opened.cast_unsigned()) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made) };
        Ok(Self {
            descriptor,
            buffer: vec![0; EVENTS_AT_A_TIME * METADATA_BYTES],
        })
    }

    /// From now on events of the mount or file system that `path` leads to are told.
    ///
    /// # Errors
    /// What `fanotify_mark` says: no such path; invalid argument where the kernel does not know the
    /// scope.
    pub fn mark(&self, path: &Path, scope: Scope) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let scope = match scope {
            Scope::Mount => libc::FAN_MARK_MOUNT,
            Scope::FileSystem => libc::FAN_MARK_FILESYSTEM,
        };
        let group = self.descriptor.as_raw_fd();
        let flags = libc::FAN_MARK_ADD | scope;
        // SAFETY: `path` ends with a zero byte and lives through the call, which keeps no pointer.
        let result =
            unsafe { libc::fanotify_mark(group, flags, TOLD, libc::AT_FDCWD, path.as_ptr()) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Hands the events that wait to `take`, at most some hundred. Returns how many those were; 0:
    /// none waits.
    ///
    /// # Errors
    /// What `read` says, except that nothing waits; a kernel that speaks another version of the
    /// interface.
    pub fn read(&mut self, mut take: impl FnMut(Event)) -> io::Result<usize> {
        match rustix::io::read(&self.descriptor, &mut self.buffer) {
            Ok(length) => {
                let events = self.buffer[..length].chunks_exact(METADATA_BYTES);
                let count = events.len();
                for bytes in events {
                    take(event(bytes)?);
                }
                Ok(count)
            }
            Err(rustix::io::Errno::AGAIN) => Ok(0),
            Err(rustix::io::Errno::INTR) => self.read(take),
            Err(
                error @ (rustix::io::Errno::BADF
                | rustix::io::Errno::FAULT
                | rustix::io::Errno::INVAL),
            ) => Err(error.into()),
            // The kernel took the event out of its queue and could not open its file: a device that
            // is not there, a pipe.
            Err(_) => {
                take(unopened());
                Ok(1)
            }
        }
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn unopened() -> Event {
    Event {
        opened: false,
        modified: false,
        closed_after_writing: false,
        lost: false,
        process: 0,
        file: None,
    }
}

/// One event from its [`METADATA_BYTES`] bytes.
fn event(bytes: &[u8]) -> io::Result<Event> {
    let number =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let descriptor = number(16).cast_signed();
    let file = (descriptor >= 0).then(|| {
        // SAFETY: these bytes were filled by a read of the group just now, which opened this
        // descriptor for us alone; each event is looked at once.
        unsafe { OwnedFd::from_raw_fd(descriptor) }
    });
    let plain = number(0) as usize == METADATA_BYTES && bytes[4] == libc::FANOTIFY_METADATA_VERSION;
    if !plain {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("fanotify of version {} is not known here", bytes[4]),
        ));
    }
    let mask = u64::from_ne_bytes([
        bytes[8], bytes[9], bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15],
    ]);
    Ok(Event {
        opened: mask & libc::FAN_OPEN != 0,
        modified: mask & libc::FAN_MODIFY != 0,
        closed_after_writing: mask & libc::FAN_CLOSE_WRITE != 0,
        lost: mask & libc::FAN_Q_OVERFLOW != 0,
        process: number(20),
        file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(mask: u64, version: u8) -> Vec<u8> {
        let mut bytes = 24_u32.to_ne_bytes().to_vec();
        bytes.extend([version, 0]);
        bytes.extend(24_u16.to_ne_bytes());
        bytes.extend(mask.to_ne_bytes());
        bytes.extend((-1_i32).to_ne_bytes());
        bytes.extend(7_u32.to_ne_bytes());
        bytes
    }

    #[test]
    fn event_says_what_happened_and_who_did_it() {
        let told = event(&bytes(libc::FAN_OPEN | libc::FAN_MODIFY, 3)).unwrap();
        assert!(told.opened && told.modified && !told.closed_after_writing && !told.lost);
        assert_eq!((told.process, told.file.is_none()), (7, true));
        let lost = event(&bytes(libc::FAN_Q_OVERFLOW, 3)).unwrap();
        assert!(lost.lost && !lost.opened);
        let error = event(&bytes(0, 4)).unwrap_err();
        assert!(error.to_string().contains("version 4"), "{error}");
    }

    #[test]
    fn opened_file_is_told() {
        let mut group = match Group::new(Queue::Limited) {
            Ok(group) => group,
            Err(error) => return println!("skipped: no fanotify here: {error}"),
        };
        let directory = std::env::temp_dir().join(format!("hythe-fanotify-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("file");
        std::fs::write(&path, "one").unwrap();
        group.mark(&path, Scope::Mount).unwrap();
        std::fs::read(&path).unwrap();
        let own = std::process::id();
        let mut found = false;
        while group
            .read(|event| found |= event.opened && event.process == own && event.file.is_some())
            .unwrap()
            > 0
        {}
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(found);
        assert!(group.mark(&path, Scope::Mount).is_err());
    }
}
