//! Whether any process has a file open for writing, asked of the kernel by a lease (`fcntl(2)`).
//!
//! The answer covers mappings, and processes of other containers, which `/proc` does not show.
//! Called for files that others may have left. Never waits, never changes the file.

#![allow(
    unsafe_code,
    reason = "this is the island: rustix has no leases of files"
)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// `F_SETSIG` of `<fcntl.h>`, which the crate libc has for one target only.
const F_SETSIG: libc::c_int = 10;

/// A lease for reading: no process has the file open for writing, or mapped so from one that it had
/// open. While it is held, opening the file for writing waits, at most for
/// `/proc/sys/fs/lease-break-time`, or fails with `EWOULDBLOCK` where it does not wait.
#[derive(Debug)]
pub struct ReadLease {
    _file: OwnedFd,
}

impl ReadLease {
    /// Takes the lease of a file that is open for reading only.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: some process has it open for writing. Otherwise nothing is
    /// known: the file is another user's, or its file system has no leases.
    pub fn take(file: OwnedFd) -> io::Result<Self> {
        // Who opens the file for writing makes the kernel send a signal to this process. SIGIO, the
        // usual one, ends a process that does not handle it; SIGURG does nothing.
        control(&file, F_SETSIG, libc::SIGURG)?;
        control(&file, libc::F_SETLEASE, libc::F_RDLCK)?;
        Ok(Self { _file: file })
    }
}

fn control(file: &OwnedFd, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open, and both commands take a number.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    #[test]
    fn lease_is_refused_while_a_file_is_open_for_writing_or_mapped() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().join("file");
        let take = || ReadLease::take(File::open(&path).expect("there").into());
        let is_refused = || take().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        std::fs::write(&path, [0; 4096]).expect("own");
        drop(take().expect("it is closed"));
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let opened = opened.expect("own");
        assert!(is_refused(), "it is open");
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (anywhere, shared) = (std::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: a new mapping, wherever the kernel has place.
        let mapped = unsafe { mmap(anywhere, 4096, access, shared, &opened, 0) }.expect("mapped");
        drop(opened);
        assert!(is_refused(), "it is mapped");
        // SAFETY: mapped above, and used by nothing.
        unsafe { munmap(mapped, 4096) }.expect("own");
        let held = take().expect("it is unmapped");
        let _second = take().expect("readers do not exclude each other");
        drop(held);
    }
}
