//! Files of a library, whose descriptors its program may close with others that it finds open
//! (`closefrom(3)`, `close_range(2)`).
//!
//! From then on the number may be that of a file of the program. Tasks, the machine of PVM and wait
//! sets hold their files so. Asking whether one is still there costs one system call. Descriptors
//! of the same kind without a name (eventfd, epoll) are not told apart. Never closes what it was
//! not made of; whether it may be read or written is the caller's to ask.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::fstat;

/// What owns a descriptor, and which file that was when it was made.
#[derive(Debug)]
pub struct OwnFile<T: AsFd> {
    file: ManuallyDrop<T>,
    /// Device and inode. `None`: the kernel does not say.
    identity: Option<(u64, u64)>,
    is_abandoned: bool,
}

impl<T: AsFd> OwnFile<T> {
    /// Notes which file it is.
    #[must_use]
    pub fn new(file: T) -> Self {
        Self {
            identity: identity(&file),
            file: ManuallyDrop::new(file),
            is_abandoned: false,
        }
    }

    /// Is the descriptor what it was?
    #[must_use]
    pub fn is_open(&self) -> bool {
        let is_own = |own| identity(&*self.file) == Some(own);
        !self.is_abandoned && self.identity.is_none_or(is_own)
    }

    /// From now on it is not what it was: for files of a kind that is not told apart, where others
    /// of the library are gone.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
    }
}

impl<T: AsFd> Deref for OwnFile<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.file
    }
}

impl<T: AsFd> AsFd for OwnFile<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<T: AsFd> Drop for OwnFile<T> {
    #[allow(unsafe_code, reason = "the only place that ends what has the file")]
    fn drop(&mut self) {
        if self.is_open() {
            // SAFETY: once, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

#[allow(
    clippy::useless_conversion,
    reason = "the words of `stat` are narrower on some machines"
)]
fn identity(file: impl AsFd) -> Option<(u64, u64)> {
    let found = fstat(file).ok()?;
    Some((found.st_dev.into(), found.st_ino.into()))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::fork::run_in_child;

    #[test]
    fn own_file_is_closed_by_its_end() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let near = OwnFile::new(near);
        assert!(near.is_open());
        drop(near);
        assert_eq!(far.read(&mut [0]).expect("the end"), 0);
    }

    /// In a child: descriptors are the whole process's.
    #[test]
    #[allow(unsafe_code, reason = "what the program does to the library")]
    fn file_behind_the_same_number_is_left_alone() {
        let in_child = || {
            let (near, _far) = UnixStream::pair().expect("a pair");
            let near = OwnFile::new(near);
            let number = near.as_raw_fd();
            // SAFETY: the owner finds out, and does not close it again.
            unsafe { libc::close(number) };
            let was_closed = !near.is_open();
            let file = std::fs::File::open("/dev/null").expect("there");
            let has_its_number = file.as_raw_fd() == number;
            let is_another = !near.is_open();
            drop(near);
            let mut abandoned = OwnFile::new(file.as_fd());
            abandoned.abandon();
            drop(abandoned);
            let is_left = fstat(&file).is_ok();
            i32::from(was_closed && has_its_number && is_another && is_left)
        };
        assert_eq!(run_in_child(in_child).expect("forked"), 1);
    }
}
