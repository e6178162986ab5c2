//! The task's end of a flow: receives and sends datagrams by rings of its own.
//!
//! It stands beside a connected UDP socket. Where the other end's station is not known yet, or
//! nothing has come from it for a while, nothing is sent here: the UDP socket does, and the answer
//! to that says where to send to. So a change on the link costs one round trip by the kernel, and
//! no address is ever asked for or believed for long. Never blocks but to [connect](Wire::connect).

use std::io::{self, IoSlice};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use hythe_memory::{Access, Mapped, Memory as _, Ordering};
use hythe_xdp::frame::{self, Ends, HEADERS_BYTES, PAYLOAD_BYTES_MAX, Stations};
use hythe_xdp::{CHUNK_BYTES, Dropped, Frame, TaskSocket};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::layout::{
    CONTROL_BYTES, FIRST_REGION_CHUNKS, RECEIVE_CHUNKS, RING_AFTER, RINGS, SEND_CHUNKS,
    first_send_chunk,
};
use crate::message::{Grant, answered, ask};

/// A station is believed for so long after the last frame from it.
const FRESH_NS: u64 = 100_000_000;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// The kernel sends so many frames in one call at least (`TX_BATCH_SIZE`, `max_tx_budget`).
const SENT_IN_ONE_CALL: u32 = 32;

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel or the card has it, or takes it with the next.
    Taken,
    /// Not here, not now: the UDP socket may take it.
    NotNow,
}

/// A flow past the kernel's protocols.
#[derive(Debug)]
pub struct Wire {
    connection: OwnedFd,
    bell: OwnedFd,
    control: Mapped,
    queues: Vec<TaskQueue>,
    /// Of what comes.
    ends: Ends,
    /// Of what is sent; with when it was seen last.
    stations: Option<(Stations, u64)>,
    first_chunk: u32,
    /// The next to send from, and how many were given out since the last ring.
    next: u32,
    /// Chunks given back and sent since the last ring.
    unrung: u32,
    unkicked: bool,
    is_over: bool,
    was_on: bool,
    statistics: WireStatistics,
}

#[derive(Debug)]
struct TaskQueue {
    socket: TaskSocket,
    memory: Mapped,
}

/// What a flow has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireStatistics {
    /// Frames that were sent here.
    pub sent: u64,
    /// Frames that have come here.
    pub received: u64,
    /// Bytes of payload that this process copied into chunks to send them.
    pub copied_bytes: u64,
    /// Frames that were none of the flow's: somebody has spoiled the region.
    pub strange: u64,
}

impl Wire {
    /// Asks the service at `path` for sockets in the place of a connected UDP socket, and waits for
    /// its answer.
    ///
    /// # Errors
    /// Nobody serves there, or says no, or nothing within `bound`.
    pub fn connect(path: &Path, socket: &UdpSocket, bound: Duration) -> io::Result<Self> {
        let ends = Ends {
            from: of_v4(socket.peer_addr()?)?,
            to: of_v4(socket.local_addr()?)?,
        };
        let deadline = Instant::now() + bound;
        let connection = reach(path)?;
        ask(&connection, socket.as_fd())?;
        let grant = loop {
            if let Some(grant) = answered(&connection)? {
                break grant;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut files = [PollFd::new(&connection, PollFlags::IN)];
            hythe_sys::wait::poll_or_sleep(&mut files, left)?;
        };
        Self::new(connection, grant, ends)
    }

    fn new(connection: OwnedFd, grant: Grant, ends: Ends) -> io::Result<Self> {
        let mut queues = Vec::with_capacity(grant.queues.len());
        for (index, (region, socket)) in grant.queues.into_iter().enumerate() {
            let chunks = match index {
                0 => FIRST_REGION_CHUNKS,
                _ => RECEIVE_CHUNKS,
            };
            let bytes = chunks as usize * CHUNK_BYTES;
            queues.push(TaskQueue {
                socket: TaskSocket::map(socket, RINGS)?,
                memory: Mapped::file(&region, 0, bytes, Access::Write)?,
            });
        }
        if queues.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            control: Mapped::file(&grant.control, 0, CONTROL_BYTES, Access::Write)?,
            connection,
            bell: grant.bell,
            queues,
            ends,
            stations: None,
            first_chunk: first_send_chunk(grant.flow),
            next: 0,
            unrung: 0,
            unkicked: false,
            is_over: false,
            was_on: grant.was_on,
            statistics: WireStatistics::default(),
        })
    }

    /// Was the program on the interface already when this began, for somebody else?
    #[must_use]
    pub const fn was_on(&self) -> bool {
        self.was_on
    }

    /// Descriptors that become readable when something comes.
    #[must_use]
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let sockets = self.queues.iter().map(|queue| queue.socket.as_fd());
        sockets.collect()
    }

    /// Does the card itself read and write the chunks, at all queues?
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.queues.iter().all(|queue| queue.socket.is_zero_copy())
    }

    /// What it has done.
    #[must_use]
    pub fn statistics(&self) -> WireStatistics {
        self.statistics
    }

    /// What the kernel did not deliver, by all queues together.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        let each = self.queues.iter().map(|queue| queue.socket.dropped());
        each.fold(Dropped::default(), |sum, one| Dropped {
            fill_ring_empty: sum.fill_ring_empty + one.fill_ring_empty,
            receive_ring_full: sum.receive_ring_full + one.receive_ring_full,
            other: sum.other + one.other,
            invalid: sum.invalid + one.invalid,
        })
    }

    /// Has the service ended, or the interface? Nothing comes here any more. A system call: for now
    /// and then.
    pub fn look_for_end(&mut self) -> bool {
        if !self.is_over && !matches!(answered(&self.connection), Ok(None)) {
            self.is_over = true;
        }
        self.is_over
    }

    /// Copies the payload of the next datagram that has come, and says how long it is; nothing
    /// longer than `into` is for this flow.
    pub fn receive(&mut self, now_ns: u64, into: &mut [u8]) -> Option<usize> {
        for index in 0..self.queues.len() {
            while let Some(frame) = self.queues[index].socket.receive.pop() {
                let taken = self.take(index, frame, now_ns, into);
                // Only when it is copied: the chunk is filled again behind this.
                self.queues[index].socket.receive.release();
                self.unrung += 1;
                if self.unrung >= RING_AFTER {
                    self.ring();
                }
                if taken.is_some() {
                    return taken;
                }
                self.statistics.strange += 1;
            }
        }
        None
    }

    fn take(&mut self, index: usize, frame: Frame, now_ns: u64, into: &mut [u8]) -> Option<usize> {
        let memory = &self.queues[index].memory;
        let (at, bytes) = (usize::try_from(frame.address).ok()?, frame.bytes as usize);
        let payload_bytes = bytes.checked_sub(HEADERS_BYTES)?;
        let end = at.checked_add(bytes)?;
        if end > memory.bytes() {
            return None;
        }
        let mut headers = [0; HEADERS_BYTES];
        memory.read(at, &mut headers);
        let datagram = frame::parse_headers(&headers, bytes)?;
        let payload = datagram.payload;
        if datagram.ends != self.ends || payload.len() > into.len() {
            return None;
        }
        debug_assert!(payload.len() <= payload_bytes);
        memory.read(at + payload.start, &mut into[..payload.len()]);
        self.stations = Some((datagram.stations.swapped(), now_ns));
        self.statistics.received += 1;
        Some(payload.len())
    }

    /// Can something be sent here now?
    #[must_use]
    pub fn is_fresh(&self, now_ns: u64) -> bool {
        let seen = self.stations.map(|(_, seen_ns)| seen_ns);
        !self.is_over && seen.is_some_and(|seen_ns| now_ns.saturating_sub(seen_ns) < FRESH_NS)
    }

    /// Takes a datagram, which leaves with the next [`flush`](Self::flush). Its payload is copied
    /// into a chunk.
    pub fn send(&mut self, now_ns: u64, pieces: &[IoSlice<'_>]) -> Sent {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        let Some((stations, _)) = self.stations.filter(|_| self.is_fresh(now_ns)) else {
            return Sent::NotNow;
        };
        if bytes > PAYLOAD_BYTES_MAX {
            return Sent::NotNow;
        }
        let word = self.next as usize * 4;
        // Acquire, with the release of the service: the kernel reads it no more.
        if self.control.load(word, Ordering::Acquire) != 0 {
            self.ring();
            return Sent::NotNow;
        }
        let TaskQueue { socket, memory } = &mut self.queues[0];
        let start = (self.first_chunk + self.next) as usize * CHUNK_BYTES;
        let ends = self.ends.swapped();
        memory.write(start, &frame::headers(stations, ends, bytes));
        let mut at = start + HEADERS_BYTES;
        for piece in pieces {
            memory.write(at, piece);
            at += piece.len();
        }
        let frame = Frame {
            address: start as u64,
            bytes: (at - start) as u32,
        };
        if !socket.send.push(frame) {
            return Sent::NotNow;
        }
        // Only this side sets it, and only the other clears it.
        self.control.store(word, 1, Ordering::Relaxed);
        self.next = (self.next + 1) % SEND_CHUNKS;
        self.unkicked = true;
        self.unrung += 1;
        self.statistics.sent += 1;
        self.statistics.copied_bytes += bytes as u64;
        Sent::Taken
    }

    /// Has the kernel send what was taken: one call where that is needed at all.
    pub fn flush(&mut self) {
        if !std::mem::take(&mut self.unkicked) {
            return;
        }
        let socket = &mut self.queues[0].socket;
        socket.send.publish();
        for _ in 0..=SEND_CHUNKS / SENT_IN_ONE_CALL {
            match socket.kick() {
                Ok(()) => break,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                    _ => {
                        // The interface is down or gone. What was taken is as if lost on the way.
                        self.stations = None;
                        break;
                    }
                },
            }
        }
        if self.unrung >= RING_AFTER {
            self.ring();
        }
    }

    /// Has the service fill and complete.
    fn ring(&mut self) {
        self.unrung = 0;
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// Connects to a service of root's or of this user.
fn reach(path: &Path) -> io::Result<OwnedFd> {
    // The file first, held fast: so that what was checked is what is connected to.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty())?;
    let found = fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
    let held = format!("/proc/self/fd/{}", file.as_raw_fd());
    connect(&socket, &SocketAddrUnix::new(held)?)?;
    let own = hythe_sys::identity::effective_user();
    match hythe_sys::peer::peer_uid(&socket)? {
        user if user == own || user == 0 => Ok(socket),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

fn of_v4(address: SocketAddr) -> io::Result<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(address) => Err(io::Error::other(format!("{address} is not of IPv4"))),
    }
}
