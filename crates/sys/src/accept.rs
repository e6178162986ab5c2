//! Taking connections from a listener, also where the system has no descriptor left.
//!
//! A loop that takes `EMFILE` for the end of its listener ends a program whose work could go on,
//! and one that ignores it spins: the connection that waits makes each `poll` return at once. An
//! [`Acceptor`] keeps spare descriptors, by which such a connection is taken all the same, to be
//! refused; where that is impossible it pauses. Other threads may wait for a descriptor, too, and
//! what one of them gets does not come back: a spare one is theirs for the moment between closing
//! it and accepting (so there are two), and never afterwards
//! ([`take_back`](Acceptor::take_back)). Used by all loops of this project that accept. Never ends
//! a listener, and never waits where that does not block.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{DupFlags, Errno, dup3};
use rustix::net::{SocketFlags, accept_with};

/// For how long nothing is taken where even the spare descriptor was of no use.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two reports of what goes wrong.
const BETWEEN_REPORTS: Duration = Duration::from_secs(60);
/// One in some ten thousand of those that are closed to accept goes to another thread, on a busy
/// machine.
const SPARES: usize = 2;
/// Connections taken by a spare descriptor without a pause, and failed ones passed over at once.
const AT_ONCE_MAX: usize = 64;

/// What a listener has.
#[derive(Debug)]
pub enum Accepted {
    /// A connection. It does not block.
    Connection(OwnedFd),
    /// A connection that has the last descriptor: to be refused, and handed back by
    /// [`Acceptor::take_back`] before the next call. It does not block.
    Surplus(OwnedFd),
    /// None at present.
    Nothing,
}

/// What the loop that serves one or more listeners keeps between calls: spare descriptors, a pause,
/// the time of the last report.
#[derive(Debug)]
pub struct Acceptor {
    spares: Vec<OwnedFd>,
    /// What stands in them, once more.
    filler: Option<OwnedFd>,
    paused_until: Option<Instant>,
    reported: Option<Instant>,
    /// Connections taken by a spare descriptor since the last one that was not.
    surplus: usize,
}

impl Default for Acceptor {
    fn default() -> Self {
        let mut acceptor = Self {
            spares: Vec::with_capacity(SPARES),
            filler: None,
            paused_until: None,
            reported: None,
            surplus: 0,
        };
        acceptor.refill();
        acceptor
    }
}

impl Acceptor {
    /// The next connection of a listener that does not block. `report` receives what keeps
    /// connections from being taken, at most once a minute.
    pub fn accept(&mut self, listener: impl AsFd, report: impl FnOnce(&io::Error)) -> Accepted {
        if self.pause().is_some() {
            return Accepted::Nothing;
        }
        self.paused_until = None;
        self.refill();
        for _ in 0..AT_ONCE_MAX {
            match accept(&listener) {
                Ok(connection) => {
                    self.surplus = 0;
                    return Accepted::Connection(connection);
                }
                Err(Errno::AGAIN) => return Accepted::Nothing,
                Err(error @ (Errno::MFILE | Errno::NFILE)) => {
                    return self.accept_by_spares(&listener, error, report);
                }
                Err(error) if is_of_connection(error) => {}
                Err(error) => return self.fail(error, report),
            }
        }
        Accepted::Nothing
    }

    /// Closes a connection that was [`Surplus`](Accepted::Surplus) and keeps its descriptor: at no
    /// moment can another thread have it.
    pub fn take_back(&mut self, surplus: impl Into<OwnedFd>) {
        let mut descriptor = surplus.into();
        let Some(filler) = &self.filler else { return };
        if dup3(filler, &mut descriptor, DupFlags::CLOEXEC).is_ok() {
            self.spares.push(descriptor);
        }
    }

    /// What is left of a pause. Meanwhile no listener is to be polled: one may be ready, and
    /// nothing is taken from it.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        let left = self.paused_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    fn refill(&mut self) {
        self.filler = self.filler.take().or_else(filler);
        while self.spares.len() < SPARES
            && let Some(spare) = filler()
        {
            self.spares.push(spare);
        }
    }

    fn accept_by_spares(
        &mut self,
        listener: impl AsFd,
        error: Errno,
        report: impl FnOnce(&io::Error),
    ) -> Accepted {
        // The kernel looks for a descriptor before it looks for a connection.
        if !has_connection(&listener) {
            return Accepted::Nothing;
        }
        if self.surplus >= AT_ONCE_MAX {
            return self.fail(error, report);
        }
        while let Some(spare) = self.spares.pop() {
            drop(spare);
            match accept(&listener) {
                Ok(connection) => {
                    // Others have closed descriptors meanwhile.
                    self.refill();
                    if self.spares.len() == SPARES {
                        self.surplus = 0;
                        return Accepted::Connection(connection);
                    }
                    self.surplus += 1;
                    self.report(error, report);
                    return Accepted::Surplus(connection);
                }
                // Another thread was faster.
                Err(Errno::MFILE | Errno::NFILE) => {}
                Err(error) if error == Errno::AGAIN || is_of_connection(error) => {
                    // It is gone; there may be another one behind it.
                    self.refill();
                    return Accepted::Nothing;
                }
                Err(error) => return self.fail(error, report),
            }
        }
        self.fail(error, report)
    }

    fn fail(&mut self, error: Errno, report: impl FnOnce(&io::Error)) -> Accepted {
        self.surplus = 0;
        self.paused_until = Some(Instant::now() + PAUSE);
        self.report(error, report);
        Accepted::Nothing
    }

    fn report(&mut self, error: Errno, report: impl FnOnce(&io::Error)) {
        let is_new = |reported: Instant| reported.elapsed() >= BETWEEN_REPORTS;
        if self.reported.is_none_or(is_new) {
            self.reported = Some(Instant::now());
            report(&error.into());
        }
    }
}

fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
}

fn has_connection(listener: impl AsFd) -> bool {
    let mut listeners = [PollFd::new(&listener, PollFlags::IN)];
    // What cannot be asked is tried.
    poll(&mut listeners, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

/// Needs no file system.
fn filler() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

/// An error of the connection that was to be taken, which is gone with it, or an interruption:
/// `accept(2)` names them.
fn is_of_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::INTR
            | Errno::CONNABORTED
            | Errno::PERM
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_testing::eventually;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn connection_is_accepted_and_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut acceptor = Acceptor::default();
        let mut accept = || acceptor.accept(&listener, |error| panic!("{error}"));
        assert!(matches!(accept(), Accepted::Nothing));
        let _client = UnixStream::connect(&path).unwrap();
        let Accepted::Connection(connection) = accept() else {
            panic!("none is accepted");
        };
        assert_eq!(rustix::io::read(&connection, &mut [0]), Err(Errno::AGAIN));
        assert!(matches!(accept(), Accepted::Nothing));
        assert!(acceptor.pause().is_none());
    }

    #[test]
    fn error_of_the_listener_pauses_and_is_reported_once() {
        // It does not listen.
        let (listener, _other) = UnixStream::pair().unwrap();
        let mut acceptor = Acceptor::default();
        let mut reports = 0;
        for _ in 0..3 {
            let accepted = acceptor.accept(&listener, |_| reports += 1);
            assert!(matches!(accepted, Accepted::Nothing));
            let pause = acceptor.pause().expect("a pause");
            assert!(pause <= PAUSE, "{pause:?}");
            // The call behind it is one to the system again.
            eventually("the pause is over", || acceptor.pause().is_none());
        }
        assert_eq!(reports, 1);
    }
}
