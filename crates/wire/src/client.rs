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
    CARD_OFFSET, CONTROL_BYTES, FIRST_REGION_CHUNKS, FlowPlace, PIECES_MAX, RECEIVE_CHUNKS,
    RING_AFTER, RINGS, SEND_CHUNKS,
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
    place: FlowPlace,
    /// Frames that were taken, and of which number on some are not given back. Chunks are used in
    /// turn: that of a frame is its number, modulo how many there are.
    taken: u64,
    returned: u64,
    /// Bytes of slots that can be sent from.
    slots_bytes: u64,
    copies_because: String,
    /// Chunks given back and sent since the last ring.
    unrung: u32,
    unkicked: bool,
    is_over: bool,
    was_on: bool,
    has_others: bool,
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
    /// Those of them whose payload left from the slot where it lay.
    pub sent_from_slots: u64,
    /// Frames that have come here.
    pub received: u64,
    /// Bytes of datagrams that this process copied into chunks to send them: whole ones, or what
    /// stands before a payload in a slot.
    pub copied_bytes: u64,
    /// Frames that were none of the flow's: somebody has spoiled the region.
    pub strange: u64,
}

impl WireStatistics {
    /// Of two flows together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            sent_from_slots: self.sent_from_slots + other.sent_from_slots,
            received: self.received + other.received,
            copied_bytes: self.copied_bytes + other.copied_bytes,
            strange: self.strange + other.strange,
        }
    }
}

/// A file on a tmpfs of which payload would be sent, and how many bytes from its first on: whole
/// chunks.
pub type Slots<'a> = (BorrowedFd<'a>, u64);

impl Wire {
    /// Asks the service at `path` for sockets in the place of a connected UDP socket, and waits for
    /// its answer. Look at [`sends_from_slots`](Self::sends_from_slots) for what became of `slots`.
    ///
    /// # Errors
    /// Nobody serves there, or says no, or nothing within `bound`.
    pub fn connect(
        path: &Path,
        socket: &UdpSocket,
        slots: Option<Slots<'_>>,
        bound: Duration,
    ) -> io::Result<Self> {
        let ends = Ends {
            from: of_v4(socket.peer_addr()?)?,
            to: of_v4(socket.local_addr()?)?,
        };
        let deadline = Instant::now() + bound;
        let connection = reach(path)?;
        ask(&connection, socket.as_fd(), slots)?;
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
        let slots_bytes = slots
            .filter(|_| grant.sends_from_slots)
            .map_or(0, |(_, bytes)| bytes);
        Self::new(connection, grant, ends, slots_bytes)
    }

    fn new(connection: OwnedFd, grant: Grant, ends: Ends, slots_bytes: u64) -> io::Result<Self> {
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
            place: grant.place,
            taken: 0,
            returned: 0,
            slots_bytes,
            copies_because: grant.copies_because,
            unrung: 0,
            unkicked: false,
            is_over: false,
            was_on: grant.was_on,
            has_others: grant.has_others,
            statistics: WireStatistics::default(),
        })
    }

    /// Had others a flow when this began? The program is on the interface for their sake, too.
    #[must_use]
    pub const fn has_others(&self) -> bool {
        self.has_others
    }

    /// Was the program on the interface already when this began, for others or because the last of
    /// them has only just left?
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

    /// Can payload be sent from the slots that were offered?
    #[must_use]
    pub fn sends_from_slots(&self) -> bool {
        self.slots_bytes > 0
    }

    /// Why not, for people; empty: they can, or none were offered.
    #[must_use]
    pub fn copies_because(&self) -> &str {
        &self.copies_because
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

    /// How many frames were taken so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Of how many, the first of all, the kernel or the card has given back everything: it reads
    /// neither their chunks nor their slots any more.
    pub fn returned(&mut self) -> u64 {
        // What an interface that was down has not taken would else wait for the next message.
        self.flush();
        // Acquire, with the release of the service: what it has seen is over.
        let is_with_kernel = |frame| self.control.load(word_of(frame), Ordering::Acquire) != 0;
        while self.returned < self.taken && !is_with_kernel(self.returned) {
            self.returned += 1;
        }
        self.returned
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
        self.send_with(now_ns, pieces, bytes, None)
    }

    /// Takes a datagram whose end lies in the slots, `bytes` at `at`, and leaves from there: until
    /// it is [returned](Self::returned) that must not change. What stands before it is copied.
    pub fn send_from_slots(&mut self, now_ns: u64, head: &[u8], at: u64, bytes: usize) -> Sent {
        let is_inside = at
            .checked_add(bytes as u64)
            .is_some_and(|end| end <= self.slots_bytes);
        if !is_inside {
            return Sent::NotNow;
        }
        let all = head.len() + bytes;
        self.send_with(now_ns, &[IoSlice::new(head)], all, Some((at, bytes)))
    }

    /// A datagram of `bytes`: these pieces, and what lies in the slots.
    fn send_with(
        &mut self,
        now_ns: u64,
        pieces: &[IoSlice<'_>],
        bytes: usize,
        in_slots: Option<(u64, usize)>,
    ) -> Sent {
        let Some((stations, _)) = self.stations.filter(|_| self.is_fresh(now_ns)) else {
            return Sent::NotNow;
        };
        if bytes > PAYLOAD_BYTES_MAX || !self.has_chunk() {
            return Sent::NotNow;
        }
        let TaskQueue { socket, memory } = &mut self.queues[0];
        let start = self.place.frame_at(chunk_of(self.taken));
        let ends = self.ends.swapped();
        memory.write(start, &frame::headers(stations, ends, bytes));
        let mut at = start + HEADERS_BYTES;
        for piece in pieces {
            memory.write(at, piece);
            at += piece.len();
        }
        let first = Frame {
            address: start as u64,
            bytes: (at - start) as u32,
        };
        let is_pushed = match in_slots {
            None => socket.send.push(first),
            Some(range) => {
                let (pieces, count) = pieces_of(first, range);
                socket.send.push_pieces(&pieces[..count])
            }
        };
        if !is_pushed {
            return Sent::NotNow;
        }
        // Only this side sets it, and only the other clears it.
        let word = word_of(self.taken);
        self.control.store(word, 1, Ordering::Relaxed);
        self.taken += 1;
        self.unkicked = true;
        self.unrung += 1;
        self.statistics.sent += 1;
        self.statistics.sent_from_slots += u64::from(in_slots.is_some());
        self.statistics.copied_bytes += (at - start - HEADERS_BYTES) as u64;
        Sent::Taken
    }

    /// Is the chunk of the next frame free?
    fn has_chunk(&mut self) -> bool {
        let chunks = u64::from(SEND_CHUNKS);
        let is_free = |wire: &Self| wire.taken - wire.returned < chunks;
        if is_free(self) {
            return true;
        }
        self.returned();
        if !is_free(self) {
            self.ring();
        }
        is_free(self)
    }

    /// Has the kernel send what was taken: one call where that is needed at all.
    pub fn flush(&mut self) {
        if !std::mem::take(&mut self.unkicked) {
            return;
        }
        let socket = &mut self.queues[0].socket;
        socket.send.publish();
        self.unkicked = true;
        for _ in 0..=RINGS.send / SENT_IN_ONE_CALL {
            match socket.kick() {
                Ok(()) => {
                    self.unkicked = false;
                    break;
                }
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

/// Which of a flow's chunks a frame has.
fn chunk_of(frame: u64) -> u32 {
    // Fits: less than there are chunks.
    (frame % u64::from(SEND_CHUNKS)) as u32
}

/// Where it stands whether the kernel has a frame.
fn word_of(frame: u64) -> usize {
    chunk_of(frame) as usize * 4
}

/// A frame that begins so, and goes on in the slots: none of its pieces leaves its chunk.
fn pieces_of(first: Frame, (at, bytes): (u64, usize)) -> ([Frame; PIECES_MAX], usize) {
    let mut pieces = [first; PIECES_MAX];
    let (mut count, mut address, mut left) = (1, CARD_OFFSET + at, bytes);
    // Two at most: a payload is shorter than a chunk.
    while left > 0 && count < PIECES_MAX {
        let in_chunk = CHUNK_BYTES - (address % CHUNK_BYTES as u64) as usize;
        let bytes = left.min(in_chunk);
        pieces[count] = Frame {
            address,
            bytes: bytes as u32,
        };
        count += 1;
        address += bytes as u64;
        left -= bytes;
    }
    (pieces, count)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_where_chunks_end() {
        let first = Frame {
            address: 90,
            bytes: 90,
        };
        let cut = |at, bytes| {
            let (pieces, count) = pieces_of(first, (at, bytes));
            assert_eq!(pieces[0], first);
            let rest = pieces[1..count].iter();
            rest.map(|piece| (piece.address - CARD_OFFSET, piece.bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(256, 0), []);
        assert_eq!(cut(256, 3750), [(256, 3750)]);
        assert_eq!(cut(4000, 96), [(4000, 96)]);
        assert_eq!(cut(4000, 97), [(4000, 96), (4096, 1)]);
        let longest = PAYLOAD_BYTES_MAX as u32;
        let expected = [(8191, 1), (8192, longest - 1)];
        assert_eq!(cut(8191, PAYLOAD_BYTES_MAX), expected);
    }
}
