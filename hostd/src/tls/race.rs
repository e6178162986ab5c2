//! TCP connections to all addresses of a host at once, begun one after the other: what answers
//! first is had first (as RFC 8305 does, "Happy Eyeballs").
//!
//! One thread, no more sockets than addresses, one time-out for all. Never judges who answers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

/// How long an address has for itself before the next is tried beside it. A connection over a
/// continent takes less.
const STAGGER_MAX: Duration = Duration::from_millis(200);

/// What became of an address.
pub(super) type Outcome = (SocketAddr, io::Result<TcpStream>);

/// Addresses that are tried.
#[derive(Debug)]
pub(super) struct Race {
    left: VecDeque<SocketAddr>,
    under_way: Vec<(SocketAddr, OwnedFd)>,
    begin_at: Instant,
    stagger: Duration,
    end: Instant,
}

impl Race {
    /// All have begun when half of the time until `end` has passed, so each has at least the other
    /// half.
    pub(super) fn new(addresses: impl Iterator<Item = SocketAddr>, end: Instant) -> Self {
        let left: VecDeque<SocketAddr> = addresses.collect();
        let now = Instant::now();
        let turns = u32::try_from(left.len().max(1)).unwrap_or(u32::MAX);
        let stagger = end.saturating_duration_since(now) / 2 / turns;
        Self {
            left,
            under_way: Vec::new(),
            begin_at: now,
            stagger: stagger.min(STAGGER_MAX),
            end,
        }
    }

    /// The next address that is decided, whose time may be over; `None`: all are.
    pub(super) fn next(&mut self) -> Option<Outcome> {
        loop {
            let now = Instant::now();
            if now >= self.end {
                let late = self.under_way.pop().map(|(address, _)| address);
                let late = late.or_else(|| self.left.pop_front())?;
                return Some((late, Err(ErrorKind::TimedOut.into())));
            }
            if (now >= self.begin_at || self.under_way.is_empty())
                && let Some(address) = self.left.pop_front()
            {
                self.begin_at = now + self.stagger;
                match begin(address) {
                    Ok(socket) => self.under_way.push((address, socket)),
                    Err(error) => return Some((address, Err(error))),
                }
            }
            if self.under_way.is_empty() {
                return None;
            }
            match self.wait() {
                Ok(Some(decided)) => {
                    let (address, socket) = self.under_way.remove(decided);
                    // What was wrong with this one is known: the next need not wait.
                    self.begin_at = Instant::now();
                    return Some((address, finish(socket)));
                }
                Ok(None) => {}
                // Nothing can be waited for: it would turn round without end.
                Err(error) => {
                    let (address, _) = self.under_way.pop()?;
                    return Some((address, Err(error)));
                }
            }
        }
    }

    /// Which of those under way is decided. `None`: none until the next is to begin.
    fn wait(&self) -> io::Result<Option<usize>> {
        let until = match self.left.is_empty() {
            true => self.end,
            false => self.end.min(self.begin_at),
        };
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let sockets = self.under_way.iter();
        let sockets = sockets.map(|(_, socket)| PollFd::new(socket, PollFlags::OUT));
        let mut sockets: Vec<PollFd<'_>> = sockets.collect();
        match poll(&mut sockets, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_decided = |socket: &PollFd<'_>| !socket.revents().is_empty();
        Ok(sockets.iter().position(is_decided))
    }
}

fn begin(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno.into()),
    }
}

fn finish(socket: OwnedFd) -> io::Result<TcpStream> {
    sockopt::socket_error(&socket)??;
    Ok(TcpStream::from(socket))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Nobody is there; the kernel does not say so (TEST-NET-1, RFC 5737), or says so at once.
    const SILENT: ([u8; 4], u16) = ([192, 0, 2, 1], 7450);
    const LONG: Duration = Duration::from_secs(60);

    fn race(addresses: &[SocketAddr], timeout: Duration) -> Vec<Outcome> {
        let mut race = Race::new(addresses.iter().copied(), Instant::now() + timeout);
        std::iter::from_fn(|| race.next()).collect()
    }

    #[test]
    fn who_answers_is_not_kept_waiting_by_47_others_that_do_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = listener.local_addr().expect("bound");
        let mut addresses = vec![SocketAddr::from(SILENT); 47];
        addresses.push(there);
        let mut race = Race::new(addresses.into_iter(), Instant::now() + LONG);
        let answered = std::iter::from_fn(|| race.next()).find(|(_, outcome)| outcome.is_ok());
        let (address, stream) = answered.expect("it listens");
        assert_eq!(address, there);
        assert_eq!(stream.expect("connected").peer_addr().expect("its"), there);
        assert!(Instant::now() < race.end, "the others are not waited for");
    }

    #[test]
    fn each_address_is_decided_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let closed = listener.local_addr().expect("bound");
        drop(listener);
        let outcomes = race(&[closed, SILENT.into(), closed], Duration::from_millis(300));
        assert_eq!(outcomes.len(), 3);
        assert!(outcomes.iter().all(|(_, outcome)| outcome.is_err()));
        let refused = outcomes.iter().filter(|(address, _)| *address == closed);
        for (_, outcome) in refused {
            let error = outcome.as_ref().expect_err("nobody listens");
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
        assert!(race(&[], LONG).is_empty());
    }
}
