//! The publisher's half: messages stay in their slots and are sent from there.
//!
//! A slot is held until the subscriber has taken the message, or its policy has dropped it: so a
//! message can be sent again by another connection, and the window counts what the subscriber has
//! not taken. Never waits, never copies payload.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hythe_node::{Sample, TrustPeers};
use hythe_packets::Window;
use rustix::event::PollFlags;

use super::encoding::{ACKNOWLEDGEMENT_BYTES, Frame, HEADER_BYTES, Position};
use super::pipe::{Pipe, Read};

/// Messages of one system call.
const BATCH: usize = 32;
/// Reads of acknowledgements in one turn.
const READS_MAX: usize = 4;
const READ_BYTES: usize = 32 * ACKNOWLEDGEMENT_BYTES;

/// The publisher's half of a flow.
#[derive(Debug)]
pub(crate) struct TcpSending {
    connection: Connection,
    window: Window,
    /// Messages that the subscriber has not accepted; the first has number `first`.
    held: VecDeque<Sample>,
    held_bytes: u64,
    first: u64,
    /// Number of the first message that has not arrived at the subscriber's process.
    received: u64,
    /// The message that is sent next, and how many bytes of its frame the kernel has.
    next: u64,
    sent: usize,
    has_end: bool,
    unreachable_ns: u64,
    /// When the kernel was asked last whether the peer is silent.
    asked_ns: u64,
}

/// The connection of a half.
#[derive(Debug)]
enum Connection {
    Open {
        pipe: Pipe,
        /// The socket's buffer is full.
        is_stalled: bool,
        /// The first bytes of an acknowledgement.
        partial: Vec<u8>,
    },
    /// It broke; another is to replace it.
    Broken { since_ns: u64, reason: String },
}

impl Connection {
    fn open(pipe: Pipe) -> Self {
        Self::Open {
            pipe,
            is_stalled: false,
            partial: Vec::with_capacity(READ_BYTES + ACKNOWLEDGEMENT_BYTES),
        }
    }
}

impl TcpSending {
    pub(crate) fn new(pipe: Pipe, window: Window, unreachable_ns: u64) -> Self {
        Self {
            connection: Connection::open(pipe),
            window,
            held: VecDeque::with_capacity(window.messages as usize),
            held_bytes: 0,
            first: 0,
            received: 0,
            next: 0,
            sent: 0,
            has_end: false,
            unreachable_ns,
            asked_ns: 0,
        }
    }

    /// Takes a message; [`flush`](Self::flush) sends it. It comes back if the window is full.
    pub(crate) fn push(&mut self, sample: Sample) -> Result<(), Sample> {
        if self.is_full() {
            return Err(sample);
        }
        self.held_bytes += sample.len() as u64;
        self.held.push_back(sample);
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.held.len() >= self.window.messages as usize
            || self.held_bytes >= self.window.bytes.into()
    }

    /// Messages that the subscriber has not accepted.
    pub(crate) fn unaccepted(&self) -> usize {
        self.held.len()
    }

    /// Has everything arrived at the subscriber's process, or at least at its host?
    pub(crate) fn is_delivered(&self) -> bool {
        self.received == self.end()
            || match &self.connection {
                Connection::Open { pipe, .. } => self.next == self.end() && pipe.is_emptied(),
                Connection::Broken { .. } => false,
            }
    }

    /// Sends the end of the flow behind the last message. Once.
    pub(crate) fn say_end(&mut self, now_ns: u64) {
        self.has_end = true;
        self.flush(now_ns);
    }

    /// Gives all slots back: nothing is sent any more.
    pub(crate) fn release(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
    }

    /// Is there something that the kernel has not taken, and a connection that may take it?
    pub(crate) fn has_unsent(&self) -> bool {
        match &self.connection {
            Connection::Open { pipe, .. } => self.next < self.end() || pipe.has_unsent(),
            Connection::Broken { .. } => false,
        }
    }

    /// The socket, and what to poll it for while something is unsent.
    pub(crate) fn awaited(&self) -> Option<(Arc<OwnedFd>, PollFlags)> {
        match &self.connection {
            Connection::Open {
                pipe, is_stalled, ..
            } => {
                let out = if *is_stalled {
                    PollFlags::OUT
                } else {
                    PollFlags::empty()
                };
                Some((pipe.shared(), PollFlags::IN | out))
            }
            Connection::Broken { .. } => None,
        }
    }

    /// Is there no connection?
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.connection, Connection::Broken { .. })
    }

    /// Continues by another connection, at whose other end so much has arrived.
    ///
    /// # Errors
    /// The flow is over.
    pub(crate) fn resume(&mut self, pipe: Pipe, position: Position) -> Result<(), String> {
        self.acknowledge(position)?;
        // What is not there is sent again, from its first byte.
        self.next = position.received;
        self.sent = 0;
        self.connection = Connection::open(pipe);
        Ok(())
    }

    /// Sends what the kernel takes.
    pub(crate) fn flush(&mut self, now_ns: u64) {
        if let Err(error) = self.try_flush() {
            self.note_broken(now_ns, &error);
        }
    }

    /// Reads acknowledgements, frees slots, and sends what the kernel takes.
    ///
    /// # Errors
    /// The flow is over.
    pub(crate) fn turn(&mut self, now_ns: u64) -> Result<(), String> {
        match self.read() {
            Ok(positions) => positions
                .into_iter()
                .try_for_each(|position| self.acknowledge(position))?,
            Err(error) => self.note_broken(now_ns, &error),
        }
        self.flush(now_ns);
        self.look_for_silence(now_ns);
        match &self.connection {
            Connection::Broken { since_ns, reason }
                if now_ns.saturating_sub(*since_ns) >= self.unreachable_ns =>
            {
                Err(reason.clone())
            }
            _ => Ok(()),
        }
    }

    fn look_for_silence(&mut self, now_ns: u64) {
        let is_due = now_ns.saturating_sub(self.asked_ns) >= self.unreachable_ns / 8;
        if self.held.is_empty() || !is_due {
            return;
        }
        self.asked_ns = now_ns;
        if let Connection::Open { pipe, .. } = &self.connection
            && pipe.is_silent_for(self.unreachable_ns)
        {
            let seconds = self.unreachable_ns as f64 / 1e9;
            let silent = format!("the other host has been silent for {seconds} s");
            self.note_broken(now_ns, &io::Error::new(io::ErrorKind::TimedOut, silent));
        }
    }

    /// Number of the message that would be taken next.
    fn end(&self) -> u64 {
        self.first + self.held.len() as u64
    }

    fn note_broken(&mut self, now_ns: u64, error: &io::Error) {
        if matches!(self.connection, Connection::Open { .. }) {
            tracing::debug!(%error, "a flow's connection broke");
            self.connection = Connection::Broken {
                since_ns: now_ns,
                reason: format!("its connection broke: {error}"),
            };
        }
    }

    /// The last acknowledgement that has arrived: each contains those before.
    fn read(&mut self) -> io::Result<Option<Position>> {
        let Connection::Open { pipe, partial, .. } = &mut self.connection else {
            return Ok(None);
        };
        let mut last = None;
        for _ in 0..READS_MAX {
            let mut bytes = [0; READ_BYTES];
            let Read::Bytes(read) = pipe.read(&mut bytes)? else {
                break;
            };
            partial.extend_from_slice(&bytes[..read]);
            let (whole, rest) = partial.as_chunks::<ACKNOWLEDGEMENT_BYTES>();
            last = whole.last().map(Position::of_acknowledgement).or(last);
            let used = partial.len() - rest.len();
            partial.drain(..used);
            if read < READ_BYTES {
                break;
            }
        }
        Ok(last)
    }

    fn acknowledge(&mut self, position: Position) -> Result<(), String> {
        let Position { received, accepted } = position;
        let is_possible = self.first <= accepted && accepted <= received && received <= self.next;
        if !is_possible {
            let (first, next) = (self.first, self.next);
            return Err(format!(
                "its peer acknowledges messages to {received} and {accepted}, of {first} to {next}"
            ));
        }
        self.received = received;
        while self.first < accepted {
            let freed = self.held.pop_front();
            self.held_bytes -= freed.map_or(0, |sample| sample.len() as u64);
            self.first += 1;
        }
        Ok(())
    }

    fn try_flush(&mut self) -> io::Result<()> {
        if let Connection::Open {
            pipe, is_stalled, ..
        } = &mut self.connection
        {
            pipe.flush()?;
            *is_stalled = pipe.has_unsent();
        }
        while let Connection::Open {
            pipe, is_stalled, ..
        } = &mut self.connection
        {
            let from = (self.next - self.first) as usize;
            let count = (self.held.len() - from).min(BATCH);
            let (offered, taken) = match count {
                0 if self.has_end && self.sent < HEADER_BYTES => {
                    let header = Frame::End { number: self.next }.header();
                    let rest = &header[self.sent..];
                    (rest.len(), pipe.send(&mut [IoSlice::new(rest)])?)
                }
                0 => return Ok(()),
                // Most calls are for one message: tables for all are not filled for that.
                1 => {
                    let header = header_of(self.next, &self.held[from]);
                    let mut pieces = [IoSlice::new(&header), payload_of(&self.held[from])];
                    send_from(pipe, &mut pieces, self.sent)?
                }
                _ => {
                    let mut headers = [[0; HEADER_BYTES]; BATCH];
                    let samples = self.held.range(from..from + count);
                    for ((number, sample), header) in (self.next..).zip(samples).zip(&mut headers) {
                        *header = header_of(number, sample);
                    }
                    let mut pieces = [IoSlice::new(&[]); 2 * BATCH];
                    let samples = self.held.range(from..from + count);
                    let pairs = pieces.as_chunks_mut::<2>().0.iter_mut();
                    for ((pair, header), sample) in pairs.zip(&headers).zip(samples) {
                        *pair = [IoSlice::new(header), payload_of(sample)];
                    }
                    send_from(pipe, &mut pieces[..2 * count], self.sent)?
                }
            };
            *is_stalled = taken < offered || pipe.has_unsent();
            let is_over = *is_stalled;
            self.note_sent(taken);
            if is_over {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The kernel has so many bytes more.
    fn note_sent(&mut self, mut bytes: usize) {
        while self.next < self.end() {
            let sample = &self.held[(self.next - self.first) as usize];
            let rest = HEADER_BYTES + sample.len() - self.sent;
            if bytes < rest {
                break;
            }
            bytes -= rest;
            self.sent = 0;
            self.next += 1;
        }
        self.sent += bytes;
    }
}

fn header_of(number: u64, sample: &Sample) -> [u8; HEADER_BYTES] {
    // Fits: a slot's size is 32 bits.
    let length = sample.len() as u32;
    Frame::Message { number, length }.header()
}

fn payload_of(sample: &Sample) -> IoSlice<'_> {
    IoSlice::new(sample.as_slice(TrustPeers::i_trust_every_writer_of_this_pool()))
}

/// Sends the pieces but for their first bytes. Returns how many bytes those were, and how many the
/// kernel took.
fn send_from(
    pipe: &mut Pipe,
    mut pieces: &mut [IoSlice<'_>],
    skipped: usize,
) -> io::Result<(usize, usize)> {
    IoSlice::advance_slices(&mut pieces, skipped);
    let offered = pieces.iter().map(|piece| piece.len()).sum();
    Ok((offered, pipe.send(pieces)?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::fixture::Fixture;

    const UNREACHABLE_NS: u64 = 60_000_000_000;

    fn connected() -> (Pipe, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bound");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        near.set_nonblocking(true).expect("set");
        let (far, _) = listener.accept().expect("connected");
        let pipe = Pipe::connected(Arc::new(near.into()), UNREACHABLE_NS, None).expect("made");
        (pipe, far)
    }

    fn half() -> (TcpSending, TcpStream) {
        let (pipe, far) = connected();
        let window = Window {
            messages: 8,
            bytes: 1 << 20,
        };
        (TcpSending::new(pipe, window, UNREACHABLE_NS), far)
    }

    fn push(fixture: &Fixture, half: &mut TcpSending) {
        let sample = fixture.node.lease(3).expect("a slot").freeze(3);
        half.push(sample).expect("free");
    }

    /// What the half makes of an acknowledgement.
    fn acknowledged(half: &mut TcpSending, far: &mut TcpStream, position: Position) -> bool {
        far.write_all(&position.acknowledgement()).expect("sent");
        let mut turned = Ok(());
        let before = half.unaccepted();
        hythe_testing::eventually("it is read", || {
            turned = half.turn(1);
            turned.is_err() || half.unaccepted() < before
        });
        turned.is_ok()
    }

    #[test]
    fn half_frees_what_is_accepted_and_refuses_what_was_not_sent() {
        let fixture = Fixture::new();
        let (mut half, mut far) = half();
        (0..3).for_each(|_| push(&fixture, &mut half));
        half.flush(1);
        assert!(!half.has_unsent() && half.unaccepted() == 3);
        let position = |received, accepted| Position { received, accepted };
        assert!(acknowledged(&mut half, &mut far, position(2, 1)));
        assert_eq!((half.unaccepted(), half.first), (2, 1));
        // The fourth has not been sent.
        push(&fixture, &mut half);
        assert!(!acknowledged(&mut half, &mut far, position(4, 4)));
        half.turn(1).expect("nothing more was read");
        assert_eq!(half.unaccepted(), 3);
    }

    #[test]
    fn resumed_half_sends_what_has_not_arrived() {
        let fixture = Fixture::new();
        let (mut half, far) = half();
        (0..3).for_each(|_| push(&fixture, &mut half));
        half.flush(1);
        drop(far);
        hythe_testing::eventually("it is broken", || {
            half.turn(1).expect("for a while");
            half.is_broken()
        });
        let position = |received, accepted| Position { received, accepted };
        let (pipe, _) = connected();
        half.resume(pipe, position(4, 0)).expect_err("never sent");
        let (pipe, mut far) = connected();
        half.resume(pipe, position(2, 1)).expect("possible");
        half.flush(1);
        let mut frame = [0; HEADER_BYTES + 3];
        far.read_exact(&mut frame).expect("sent again");
        let header = frame.first_chunk().expect("a header");
        let third = Frame::Message {
            number: 2,
            length: 3,
        };
        assert_eq!(Frame::of_header(header), Some(third));
        assert_eq!((half.unaccepted(), half.has_unsent()), (2, false));
    }
}
