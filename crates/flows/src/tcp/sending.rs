//! The publisher's half: messages stay in their slots and are sent from there.
//!
//! A slot is held until the subscriber has taken the message, or its policy has dropped it: so a
//! message can be sent again by another connection, and the window counts what the subscriber has
//! not taken. Over a trusted link short messages may be sent by frames instead ([`crate::frames`]).
//! Never waits, never copies payload.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hythe_node::{RegionIndex, Sample, TrustPeers, hop};
use rustix::event::PollFlags;

use super::encoding::{ACKNOWLEDGEMENT_BYTES, Frame, HEADER_BYTES};
use super::pipe::{Pipe, Read};
use crate::frames::{FrameSending, FrameSocket};
use crate::message::Window;
use crate::position::Position;

/// Messages of one system call.
const BATCH: usize = 32;
/// Reads of acknowledgements in one turn.
const READS_MAX: usize = 4;
const READ_BYTES: usize = 32 * ACKNOWLEDGEMENT_BYTES;

/// The publisher's half of a flow.
#[derive(Debug)]
pub(crate) struct TcpSending {
    connection: Connection,
    /// Before what is held, whose slots its kernel may read: fields are dropped in their order.
    frames: Option<Box<FrameSending>>,
    window: Window,
    /// Messages that the subscriber has not accepted; the first has number `first`.
    held: VecDeque<Held>,
    held_bytes: u64,
    first: u64,
    /// Messages that are accepted, and of which the kernel has frames still.
    leaving: VecDeque<Held>,
    /// Number of the first message that has not arrived at the subscriber's process.
    received: u64,
    /// Number of the first message that the subscriber has not accepted.
    accepted: u64,
    /// Number of the first message of which nothing was sent in either way.
    reached: u64,
    /// The message that the connection sends next, and how many bytes of it the kernel has.
    next: u64,
    sent: usize,
    /// The message that a frame sends next, while those from `received` on leave by frames.
    framed: Option<u64>,
    has_end: bool,
    unreachable_ns: u64,
    /// When the kernel was asked last whether the peer is silent.
    asked_ns: u64,
}

/// A message that has its slot.
#[derive(Debug)]
struct Held {
    sample: Sample,
    /// Where its payload is in the region for network cards, if it is there.
    place: Option<u64>,
    /// Frames that are to be returned before the slot is free.
    frames: u64,
}

/// What has left by frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frames {
    InTime,
    /// It counts as lost.
    Late,
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
    pub(crate) fn new(
        pipe: Pipe,
        frames: Option<FrameSocket>,
        window: Window,
        unreachable_ns: u64,
    ) -> Self {
        Self {
            connection: Connection::open(pipe),
            frames: frames.map(FrameSending::new).map(Box::new),
            window,
            held: VecDeque::with_capacity(window.messages as usize),
            held_bytes: 0,
            first: 0,
            leaving: VecDeque::new(),
            received: 0,
            accepted: 0,
            reached: 0,
            next: 0,
            sent: 0,
            framed: None,
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
        let (region, offset) = hop::place_of(&sample);
        let is_there = self.region() == Some(region);
        self.held.push_back(Held {
            sample,
            place: is_there.then_some(offset),
            frames: 0,
        });
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
        self.leave_frames();
        self.flush(now_ns);
    }

    /// Gives all slots back, but for those that the kernel reads still: nothing is sent any more.
    pub(crate) fn release(&mut self) {
        self.leaving.extend(self.held.drain(..));
        self.held_bytes = 0;
        self.free_returned();
    }

    /// Gives back slots that the kernel does not read any more.
    pub(crate) fn free_returned(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let frames = self.frames.as_mut();
        let returned = frames.map_or(u64::MAX, |frames| frames.returned());
        self.leaving.retain(|held| held.frames > returned);
    }

    /// The sockets for frames, if there are any.
    pub(crate) fn frames(&self) -> Option<&FrameSocket> {
        self.frames.as_ref().map(|frames| &frames.socket)
    }

    pub(crate) fn frames_mut(&mut self) -> Option<&mut FrameSocket> {
        self.frames.as_mut().map(|frames| &mut frames.socket)
    }

    /// The region from which messages are best sent, if there is one.
    pub(crate) fn region(&self) -> Option<RegionIndex> {
        self.frames().and_then(FrameSocket::region)
    }

    /// When a turn is due at the latest.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.frames.as_ref().and_then(|frames| frames.late_ns())
    }

    /// Is there something that the kernel has not taken, and a connection that may take it?
    pub(crate) fn has_unsent(&self) -> bool {
        match &self.connection {
            Connection::Open { pipe, .. } => {
                self.framed.unwrap_or(self.next) < self.end() || pipe.has_unsent()
            }
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
    pub(crate) fn resume(
        &mut self,
        now_ns: u64,
        pipe: Pipe,
        position: Position,
    ) -> Result<(), String> {
        // What is not there is sent again, from its first byte.
        self.sent = 0;
        self.acknowledge(now_ns, position)?;
        self.leave_frames();
        self.next = self.received;
        self.connection = Connection::open(pipe);
        Ok(())
    }

    /// Sends what the kernel takes.
    pub(crate) fn flush(&mut self, now_ns: u64) {
        if self.frames.is_some() {
            self.flush_frames(now_ns);
        }
        if self.framed.is_some() {
            return;
        }
        if let Err(error) = self.try_flush() {
            self.note_broken(now_ns, &error);
        }
    }

    /// Sends by frames what may leave so. The connection sends the rest.
    fn flush_frames(&mut self, now_ns: u64) {
        if self.take_frames(now_ns) == Frames::Late {
            return;
        }
        let end = self.end();
        let Some(frames) = &mut self.frames else {
            return;
        };
        let mut next = match (self.framed, &self.connection) {
            // Frames that counted as lost may have arrived since.
            (Some(next), _) => next.max(self.received),
            (None, Connection::Open { pipe, .. })
                if self.next == self.received && self.sent == 0 && !pipe.has_unsent() =>
            {
                self.next
            }
            // What the connection has sent is waited for.
            (None, _) => return,
        };
        let mut may_send = !self.has_end;
        while may_send && next < end {
            let held = &mut self.held[(next - self.first) as usize];
            may_send = frames.fits(held.sample.len());
            if may_send && !frames.is_usable(now_ns) {
                frames.probe(now_ns);
                may_send = false;
            }
            if may_send {
                let payload = bytes_of(&held.sample);
                let sent = frames.send(now_ns, next, payload, held.place);
                held.frames = sent.filter(|_| held.place.is_some()).unwrap_or(held.frames);
                may_send = sent.is_some();
                next += u64::from(may_send);
            }
        }
        frames.flush();
        self.framed = Some(next);
        self.reached = self.reached.max(next);
        if !may_send {
            self.leave_frames();
        }
    }

    /// Takes acknowledgements that have arrived by frames, and looks for what is lost: the
    /// connection sends that next.
    fn take_frames(&mut self, now_ns: u64) -> Frames {
        let acknowledged = self.frames.as_mut().and_then(|frames| frames.turn(now_ns));
        // One that makes no sense is no reason to end the flow: its sender is anybody on the link.
        if let Some(position) = acknowledged {
            let _ = self.acknowledge(now_ns, position);
        }
        let late_ns = self.next_wake();
        if late_ns.is_none_or(|late_ns| now_ns < late_ns) {
            return Frames::InTime;
        }
        if let Some(frames) = &mut self.frames {
            frames.note_loss();
        }
        self.leave_frames();
        Frames::Late
    }

    /// The connection sends from now on, from the first message that has not arrived.
    fn leave_frames(&mut self) {
        if self.framed.take().is_some() {
            self.next = self.received;
        }
        if let Some(frames) = &mut self.frames {
            frames.leave();
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
                .try_for_each(|position| self.acknowledge(now_ns, position))?,
            Err(error) => self.note_broken(now_ns, &error),
        }
        self.free_returned();
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
            self.leave_frames();
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

    /// An acknowledgement may be older than the last one: there are two ways for them.
    fn acknowledge(&mut self, now_ns: u64, position: Position) -> Result<(), String> {
        let Position { received, accepted } = position;
        if accepted > received || received > self.reached {
            let (first, reached) = (self.first, self.reached);
            return Err(format!(
                "its peer acknowledges messages to {received} and {accepted}, of {first} to \
                 {reached}"
            ));
        }
        if received > self.received {
            self.received = received;
            if let (Some(frames), Some(framed)) = (&mut self.frames, self.framed) {
                frames.acknowledged(now_ns, received, framed);
            }
        }
        self.accepted = self.accepted.max(accepted);
        self.free_accepted();
        Ok(())
    }

    fn free_accepted(&mut self) {
        while self.first < self.accepted {
            // Behind its first bytes the connection sends the rest of it.
            if self.first == self.next && self.sent > 0 {
                return;
            }
            if let Some(held) = self.held.pop_front() {
                self.held_bytes -= held.sample.len() as u64;
                if held.frames > 0 {
                    self.leaving.push_back(held);
                }
            }
            self.first += 1;
        }
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
            if self.sent == 0 {
                // Some may have arrived by frames since.
                self.next = self.next.max(self.received);
            }
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
                    let header = header_of(self.next, &self.held[from].sample);
                    let payload = payload_of(&self.held[from].sample);
                    let mut pieces = [IoSlice::new(&header), payload];
                    send_from(pipe, &mut pieces, self.sent)?
                }
                _ => {
                    let mut headers = [[0; HEADER_BYTES]; BATCH];
                    let samples = self.held.range(from..from + count);
                    for ((number, held), header) in (self.next..).zip(samples).zip(&mut headers) {
                        *header = header_of(number, &held.sample);
                    }
                    let mut pieces = [IoSlice::new(&[]); 2 * BATCH];
                    let samples = self.held.range(from..from + count);
                    let pairs = pieces.as_chunks_mut::<2>().0.iter_mut();
                    for ((pair, header), held) in pairs.zip(&headers).zip(samples) {
                        *pair = [IoSlice::new(header), payload_of(&held.sample)];
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
            let length = self.held[(self.next - self.first) as usize].sample.len();
            let rest = HEADER_BYTES + length - self.sent;
            if bytes < rest {
                break;
            }
            bytes -= rest;
            self.sent = 0;
            self.next += 1;
        }
        self.sent += bytes;
        let begun = self.next + u64::from(self.sent > 0);
        self.reached = self.reached.max(begun.min(self.end()));
        self.free_accepted();
    }
}

fn header_of(number: u64, sample: &Sample) -> [u8; HEADER_BYTES] {
    // Fits: a slot's size is 32 bits.
    let length = sample.len() as u32;
    Frame::Message { number, length }.header()
}

fn payload_of(sample: &Sample) -> IoSlice<'_> {
    IoSlice::new(bytes_of(sample))
}

/// The writers of this pool are this host's own programs: what one of them changes meanwhile makes
/// a frame's checksum wrong, and changes what the connection sends.
fn bytes_of(sample: &Sample) -> &[u8] {
    sample.as_slice(TrustPeers::i_trust_every_writer_of_this_pool())
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
    use std::net::TcpStream;

    use super::*;
    use crate::fixture::{Fixture, connected, sending};

    fn push(fixture: &Fixture, half: &mut TcpSending) {
        push_long(fixture, half, 3);
    }

    fn push_long(fixture: &Fixture, half: &mut TcpSending, length: usize) {
        let sample = fixture.node.lease(length).expect("a slot").freeze(length);
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
        let (mut half, mut far) = sending(8);
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
        let (mut half, far) = sending(8);
        (0..3).for_each(|_| push(&fixture, &mut half));
        half.flush(1);
        drop(far);
        hythe_testing::eventually("it is broken", || {
            half.turn(1).expect("for a while");
            half.is_broken()
        });
        let position = |received, accepted| Position { received, accepted };
        let (pipe, _) = connected();
        half.resume(1, pipe, position(4, 0))
            .expect_err("never sent");
        let (pipe, mut far) = connected();
        half.resume(1, pipe, position(2, 1)).expect("possible");
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

    #[test]
    fn half_skips_what_arrived_by_frames_while_connection_stalled() {
        const LONG: usize = 700_000;
        let fixture = Fixture::new();
        let (mut half, mut far) = sending(100);
        push_long(&fixture, &mut half, LONG);
        (1..100).for_each(|_| push(&fixture, &mut half));
        half.flush(1);
        assert_eq!((half.next, half.sent > 0), (0, true));
        // All had left by frames before, and were late.
        half.reached = 100;
        let all = Position {
            received: 100,
            accepted: 100,
        };
        half.acknowledge(1, all).expect("possible");
        // The rest of it leaves together with some behind it.
        let mut first = vec![0; HEADER_BYTES + LONG];
        far.set_nonblocking(true).expect("set");
        let mut read = 0;
        hythe_testing::eventually("the first has left", || {
            half.flush(1);
            read += far.read(&mut first[read..]).unwrap_or(0);
            read == first.len()
        });
        half.flush(1);
        assert_eq!((half.next, half.unaccepted()), (100, 0));
        assert!(!half.has_unsent());
    }
}
