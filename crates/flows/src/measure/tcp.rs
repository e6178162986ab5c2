//! Blocks there and back by TCP: what a program on an interface costs it. On veth in the driver it
//! loses segmentation, and a block goes packet by packet.
//!
//! Whoever answers listens only while the other side measures, on a port that it told who knows its
//! word, and sends nothing but blocks back that begin with that word and come from that host.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use hythe_sys::accept::{Accepted, Acceptor};
use hythe_sys::socket_option::bind_to_interface;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// As much as the kernel cuts by one call.
pub(super) const BLOCK_BYTES: usize = 64 << 10;
/// Until the kernel lets a block go at once, and then as many as are measured.
const WARMING: u32 = 3;
const BLOCKS: u32 = 6;
/// Whoever answers sends so many back at most.
const ANSWERED_MAX: u32 = 4 * (WARMING + BLOCKS);
/// A block is back, and a connection there, within this.
const BOUND: Duration = Duration::from_millis(100);
const WORD_BYTES: usize = 8;
/// Whoever answers listens for so long, whoever connects.
const LISTENING_MAX: Duration = Duration::from_secs(2);

/// A socket at an address and interface of this host, not connected yet.
fn open(at: SocketAddr, interface: Option<&str>) -> io::Result<OwnedFd> {
    let family = match at {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    interface.map_or(Ok(()), |name| bind_to_interface(&socket, name))?;
    rustix::net::bind(&socket, &at)?;
    Ok(socket)
}

/// The end that answers.
#[derive(Debug)]
pub(super) struct Echo {
    listener: TcpListener,
    acceptor: Acceptor,
    peer: IpAddr,
    word: u64,
    stream: Option<TcpStream>,
    /// Its first block began with the word.
    is_known: bool,
    block: Vec<u8>,
    /// So much of the block has been read, or written.
    at: usize,
    is_back: bool,
    answered: u32,
    since: Instant,
}

impl Echo {
    /// Listens at any port of this address, for that host.
    pub(super) fn open(
        at: SocketAddr,
        interface: Option<&str>,
        (peer, word): (IpAddr, u64),
    ) -> io::Result<Self> {
        let listener = open(at, interface)?;
        rustix::net::listen(&listener, 1)?;
        Ok(Self {
            listener: listener.into(),
            acceptor: Acceptor::default(),
            peer,
            word,
            stream: None,
            is_known: false,
            block: vec![0; BLOCK_BYTES],
            at: 0,
            is_back: false,
            answered: 0,
            since: Instant::now(),
        })
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        self.listener.local_addr().map(|at| at.port())
    }

    /// Has it listened for long enough?
    pub(super) fn is_over(&self) -> bool {
        self.since.elapsed() >= LISTENING_MAX
    }

    /// What there is to wait for.
    pub(super) fn files(&self) -> impl Iterator<Item = PollFd<'_>> {
        let flags = match self.is_back {
            true => PollFlags::OUT,
            false => PollFlags::IN,
        };
        let stream = self.stream.as_ref().map(|it| (it.as_fd(), flags));
        let is_listening = self.acceptor.pause().is_none();
        let listener = is_listening.then(|| (self.listener.as_fd(), PollFlags::IN));
        let all = [listener, stream];
        let all = all.into_iter().flatten();
        all.map(|(file, flags)| PollFd::from_borrowed_fd(file, flags))
    }

    /// Goes on as far as that is possible now. False: nothing was.
    pub(super) fn turn(&mut self) -> bool {
        self.accept();
        match self.go_on() {
            Ok(count) => count > 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => {
                self.stream = None;
                false
            }
        }
    }

    /// One that knows the word keeps its place, all others make way for the next.
    fn accept(&mut self) {
        // Without descriptors the link is measured later, as where the other side is gone.
        let accepted = self.acceptor.accept(&self.listener, |error| {
            tracing::debug!(%error, "a link is not measured by TCP");
        });
        let stream = match accepted {
            Accepted::Connection(stream) => TcpStream::from(stream),
            Accepted::Surplus(stream) => return self.acceptor.take_back(stream),
            Accepted::Nothing => return,
        };
        let from = stream.peer_addr();
        if from.is_ok_and(|from| from.ip() == self.peer)
            && !(self.is_known && self.stream.is_some())
        {
            let _ = stream.set_nodelay(true);
            (self.is_known, self.at, self.is_back) = (false, 0, false);
            self.stream = Some(stream);
        }
    }

    fn go_on(&mut self) -> io::Result<usize> {
        let Some(stream) = &mut self.stream else {
            return Ok(0);
        };
        let rest = &mut self.block[self.at..];
        let count = match self.is_back {
            true => stream.write(rest)?,
            false => stream.read(rest)?,
        };
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.at += count;
        if !self.is_back && self.at >= WORD_BYTES {
            self.is_known = self.block[..WORD_BYTES] == self.word.to_le_bytes();
            if !self.is_known {
                return Err(ErrorKind::PermissionDenied.into());
            }
        }
        if self.at == BLOCK_BYTES {
            self.answered += u32::from(self.is_back);
            (self.at, self.is_back) = (0, !self.is_back);
        }
        match self.answered >= ANSWERED_MAX {
            true => Err(ErrorKind::QuotaExceeded.into()),
            false => Ok(count),
        }
    }
}

/// The end that measures.
#[derive(Debug)]
pub(super) struct Asking {
    stream: TcpStream,
    block: Vec<u8>,
    /// For each there and back.
    bound: Duration,
}

impl Asking {
    /// To whom a port and a word were told.
    pub(super) fn connect(
        (at, interface): (SocketAddr, Option<&str>),
        to: SocketAddr,
        word: u64,
    ) -> io::Result<Self> {
        let socket = open(at, interface)?;
        match rustix::net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let mut files = [PollFd::new(&socket, PollFlags::OUT)];
        hythe_sys::wait::poll_or_sleep(&mut files, BOUND)?;
        let stream = TcpStream::from(socket);
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        // Fails where it is not connected yet.
        stream.peer_addr()?;
        stream.set_nodelay(true)?;
        let mut block = vec![0; BLOCK_BYTES];
        block[..WORD_BYTES].copy_from_slice(&word.to_le_bytes());
        Ok(Self {
            stream,
            block,
            bound: BOUND,
        })
    }

    /// How long the fastest block took, there and back: what else runs on the machine makes them
    /// slower, and none faster. `may` is asked before each.
    pub(super) fn fastest(&mut self, mut may: impl FnMut() -> bool) -> Option<Duration> {
        let mut fastest = None;
        for count in 0..WARMING + BLOCKS {
            if !may() {
                return None;
            }
            let took = self.exchange().ok()?;
            if count >= WARMING {
                fastest = Some(fastest.map_or(took, |least: Duration| least.min(took)));
            }
        }
        fastest
    }

    fn exchange(&mut self) -> io::Result<Duration> {
        let start = Instant::now();
        for is_back in [false, true] {
            let mut at = 0;
            while at < BLOCK_BYTES {
                let rest = &mut self.block[at..];
                let done = match is_back {
                    false => self.stream.write(rest),
                    true => self.stream.read(rest),
                };
                match done {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(count) => at += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        if start.elapsed() >= self.bound {
                            return Err(ErrorKind::TimedOut.into());
                        }
                        std::thread::yield_now();
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn here() -> SocketAddr {
        ([127, 0, 0, 1], 0).into()
    }

    fn echo(peer: [u8; 4]) -> (Echo, SocketAddr) {
        let echo = Echo::open(here(), None, (peer.into(), 7)).expect("loopback");
        let at = SocketAddr::new(here().ip(), echo.port().expect("bound"));
        (echo, at)
    }

    /// Turns until that is so.
    fn turn_until(echo: &mut Echo, mut is_so: impl FnMut(&Echo) -> bool) {
        let start = Instant::now();
        while !is_so(echo) {
            assert!(start.elapsed() < LONG);
            echo.turn();
        }
    }

    /// What comes until the end of the connection.
    fn all(mut stream: TcpStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = stream.set_read_timeout(Some(LONG));
        let _ = stream.read_to_end(&mut bytes);
        bytes
    }

    #[test]
    fn blocks_come_back_and_the_fastest_counts() {
        let (mut echo, at) = echo([127, 0, 0, 1]);
        let asking = std::thread::spawn(move || {
            let mut asking = Asking::connect((here(), None), at, 7).expect("listens");
            // A machine that is overloaded takes its time.
            asking.bound = LONG;
            asking.fastest(|| true)
        });
        turn_until(&mut echo, |_| asking.is_finished());
        let found = asking.join().expect("no panic");
        assert!(found.is_some_and(|took| took > Duration::ZERO));
    }

    #[test]
    fn measurement_ignores_peers_with_other_token_or_address() {
        let (mut echo, at) = echo([127, 0, 0, 1]);
        let mut stranger = TcpStream::connect(at).expect("listens");
        turn_until(&mut echo, |echo| echo.stream.is_some());
        stranger.write_all(&[1; 8]).expect("sent");
        turn_until(&mut echo, |echo| echo.stream.is_none());
        assert!(all(stranger).is_empty());
        // One that says nothing makes way for one that knows the word, and that for none.
        let silent = TcpStream::connect(at).expect("listens");
        turn_until(&mut echo, |echo| echo.stream.is_some());
        let mut knows = TcpStream::connect(at).expect("listens");
        knows.write_all(&7_u64.to_le_bytes()).expect("sent");
        turn_until(&mut echo, |echo| echo.is_known);
        assert!(all(silent).is_empty());
        let late = TcpStream::connect(at).expect("listens");
        late.set_nonblocking(true).expect("set");
        turn_until(&mut echo, |_| {
            let said = (&late).read(&mut [0]);
            !said.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        assert!(echo.is_known && echo.stream.is_some());
        let (mut echo, at) = super::tests::echo([127, 0, 0, 2]);
        let mut elsewhere = TcpStream::connect(at).expect("listens");
        let _ = elsewhere.write_all(&7_u64.to_le_bytes());
        let reading = std::thread::spawn(move || all(elsewhere));
        turn_until(&mut echo, |echo| {
            assert!(echo.stream.is_none());
            reading.is_finished()
        });
        assert!(reading.join().expect("no panic").is_empty());
    }

    #[test]
    fn nobody_has_blocks_sent_back_without_end() {
        let (mut echo, at) = echo([127, 0, 0, 1]);
        let asking = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(at).expect("listens");
            let mut block = vec![0; BLOCK_BYTES];
            block[..WORD_BYTES].copy_from_slice(&7_u64.to_le_bytes());
            let _ = stream.set_read_timeout(Some(LONG));
            let mut count = 0;
            while stream.write_all(&block).is_ok() && stream.read_exact(&mut block).is_ok() {
                count += 1;
            }
            count
        });
        turn_until(&mut echo, |_| asking.is_finished());
        assert_eq!(asking.join().expect("no panic"), ANSWERED_MAX);
    }
}
