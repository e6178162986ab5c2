//! Closes what others have passed, in a thread of its own.
//!
//! Whoever closes the last descriptor of a file may have to wait: for a peer of a TCP socket that
//! lingers, or for a process that serves a file system. A connection may have such descriptors
//! under way, whoever sent them. What holds between calls: who gives something never waits.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use rustix::net::{Shutdown, shutdown};

use crate::layout::CLIENTS_MAX;
use crate::message::FILES_MAX;

/// With more than so many that wait nothing is taken in that would have to be closed: no
/// connection, and no descriptors that come over one.
const ENOUGH: usize = 32;
/// Above that: the descriptors of one message, all connections, and one that is refused.
const WAITING_MAX: usize = ENOUGH + FILES_MAX + CLIENTS_MAX + 1;

/// Ends with its last value, when all is closed.
#[derive(Debug)]
pub(crate) struct Closer {
    queue: SyncSender<OwnedFd>,
    waiting: Arc<AtomicUsize>,
}

impl Closer {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (queue, files) = sync_channel::<OwnedFd>(WAITING_MAX);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&waiting);
        let thread = std::thread::Builder::new().name("hythe-closer".to_owned());
        thread.spawn(move || {
            for file in files {
                drop(file);
                counted.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(Self { queue, waiting })
    }

    /// Closes it when those before are closed.
    pub(crate) fn close(&self, file: OwnedFd) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.queue.try_send(file) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            // It is closed here, and may wait. It never stays open: whoever passes descriptors
            // must not be able to use up those of this program.
            debug_assert!(false, "{WAITING_MAX} are the most");
            drop(error);
        }
    }

    /// As [`close`](Self::close); the other end of this connection sees at once that it is over.
    pub(crate) fn hang_up(&self, connection: OwnedFd) {
        // Gone already is fine.
        let _ = shutdown(&connection, Shutdown::Both);
        self.close(connection);
    }

    /// Does so much wait that nothing is to be taken in?
    pub(crate) fn is_busy(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > ENOUGH
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use rustix::net::sockopt::set_socket_linger;

    use super::*;
    use hythe_testing::eventually;

    /// A socket that who closes it waits for, and its peer, with which that ends.
    pub(crate) fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let mut socket = TcpStream::connect(address).expect("connected");
        let (peer, _) = listener.accept().expect("connected");
        set_socket_linger(&socket, Some(Duration::from_secs(600))).expect("set");
        socket.set_nonblocking(true).expect("set");
        while socket.write(&[0; 4096]).is_ok() {}
        // To close it waits only where it may.
        socket.set_nonblocking(false).expect("set");
        (socket.into(), peer)
    }

    #[test]
    fn closer_blocks_no_caller() {
        let closer = Closer::start().expect("a thread");
        let (socket, peer) = lingering();
        let (to, from) = std::sync::mpsc::channel();
        let giving = std::thread::spawn(move || {
            closer.close(socket);
            for _ in 0..WAITING_MAX - 1 {
                closer.close(rustix::io::dup(std::io::stderr()).expect("copied"));
            }
            let _ = to.send(closer.is_busy());
            closer
        });
        // It only ends a test that has failed.
        let is_busy = from.recv_timeout(Duration::from_secs(60));
        drop(peer);
        let closer = giving.join().expect("no panic");
        assert_eq!(is_busy, Ok(true));
        let waiting = || closer.waiting.load(Ordering::Relaxed);
        eventually("all are closed", || waiting() == 0);
        assert!(!closer.is_busy());
    }
}
