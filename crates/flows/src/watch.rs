//! Wires that the session's thread sleeps on, while their flows may end them.
//!
//! A copy of such a descriptor would keep the socket until the thread wakes, and with it a queue of
//! the interface, and what the kernel has to send by it from slots that are free for others
//! already. So the kernel is told of the file itself, which is watched until its owner closes it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;

/// Readable when one of its files is.
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// This file, too, until its last descriptor is closed.
    pub(crate) fn add(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        Ok(epoll::add(&self.0, file, data, epoll::EventFlags::IN)?)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags};

    use super::*;

    #[test]
    fn file_is_watched_as_long_as_its_owner_has_it_and_not_kept() {
        let watch = Watch::new().expect("made");
        let is_ready = || {
            let mut files = [PollFd::new(&watch, PollFlags::IN)];
            hythe_sys::wait::ready(&mut files, Duration::ZERO)[0]
        };
        let (one, mut other) = UnixStream::pair().expect("a pair");
        watch.add(one.as_fd()).expect("watched");
        assert!(!is_ready());
        other.write_all(&[1]).expect("written");
        assert!(is_ready());
        (&one).read_exact(&mut [0]).expect("read");
        assert!(!is_ready());
        drop(one);
        other.write_all(&[1]).expect_err("nobody has it any more");
        assert!(!is_ready());
    }
}
