//! The subscriber's half: long payload is received into the slot, short payload is copied there
//! from a buffer that holds several messages.
//!
//! The subscriber's depth and policy are applied here, where its messages wait. Never waits.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hythe_node::hop::{self, Participant};
use hythe_node::{Lease, PortPolicy};
use rustls::ServerConfig;

use super::encoding::{FlowSecret, Frame, HEADER_BYTES};
use super::listener::{Expected, FlowListener};
use super::pipe::{Pipe, Read};
use crate::frames::{FrameReceiving, FrameSocket};
use crate::message::Window;
use crate::position::Position;
use crate::queue::{Entry, Queue};

/// Reads of one turn: a peer that sends without end keeps no thread here.
const READS_MAX: usize = 64;
/// The buffer for headers and short payload.
const BUFFER_BYTES: usize = 64 << 10;
/// Longer payload is received into its slot.
const COPIED_BYTES_MAX: usize = 4096;
/// An acknowledgement is sent at the latest this long after there is something to acknowledge: a
/// publisher frees slots by it.
const ACKNOWLEDGE_NS: u64 = 5_000_000;
/// It is sent at once for so many bytes.
const ACKNOWLEDGE_BYTES: u64 = 256 << 10;
/// The publisher's first attempt takes 3 s at most: it knows why it failed, and says so first.
const FIRST_CONNECTION_NS: u64 = 4_000_000_000;
/// Bytes of one read into a slot.
const READ_BYTES_MAX: usize = 1 << 20;
/// Where no slot was free, another look is due after this time.
const NO_SLOT_NS: u64 = 1_000_000;

/// How far a turn goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until there is a message to take.
    Message,
    /// Until nothing is left in the sockets.
    Empty,
}

/// What both ends of a flow agreed on, as this end needs it.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) peer: IpAddr,
    pub(crate) secret: FlowSecret,
    pub(crate) window: Window,
    pub(crate) message_bytes_max: u32,
    pub(crate) unreachable_ns: u64,
    /// `None`: in clear text.
    pub(crate) seal: Option<Arc<ServerConfig>>,
}

/// The subscriber's half of a flow.
#[derive(Debug)]
pub(crate) struct TcpReceiving {
    participant: Arc<Participant>,
    listener: FlowListener,
    terms: Terms,
    pipe: Option<Pipe>,
    frames: Option<Box<FrameReceiving>>,
    has_connected: bool,
    /// Since when there is no connection, and why.
    broken: (u64, String),
    queue: Queue,
    buffer: Box<[u8]>,
    /// Bytes of the buffer that were received and not used.
    start: usize,
    end: usize,
    message: Option<Message>,
    /// Messages that have arrived, and those that count against the window no more.
    position: Position,
    /// Acknowledged last, and when the next acknowledgement is due.
    acknowledged: Position,
    due_ns: Option<u64>,
    accepted_bytes: u64,
    /// Bytes of an acknowledgement that the kernel has not taken.
    unsent: Vec<u8>,
    /// When a slot is tried again.
    retry_ns: Option<u64>,
    has_long_messages: bool,
    is_draining: bool,
    has_more: bool,
    has_ended: bool,
}

/// The message that is being received.
#[derive(Debug)]
struct Message {
    length: usize,
    received: usize,
    lease: Option<Lease>,
    /// It has arrived by a frame already: its bytes are read, and dropped.
    has_arrived: bool,
}

/// Why a turn reads no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// Nothing more has arrived.
    Empty,
    /// There may be more.
    Enough,
    /// No slot is free.
    NoSlot,
}

impl TcpReceiving {
    pub(crate) fn new(
        participant: &Arc<Participant>,
        (listener, frames): (FlowListener, Option<FrameSocket>),
        terms: Terms,
        (depth, policy): (u32, PortPolicy),
        now_ns: u64,
    ) -> Self {
        Self {
            participant: Arc::clone(participant),
            listener,
            terms,
            pipe: None,
            frames: frames.map(FrameReceiving::new).map(Box::new),
            has_connected: false,
            broken: (now_ns, "its publisher does not connect".to_owned()),
            queue: Queue::new(depth, policy),
            buffer: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            message: None,
            position: Position::default(),
            acknowledged: Position::default(),
            due_ns: None,
            accepted_bytes: 0,
            unsent: Vec::new(),
            retry_ns: None,
            has_long_messages: false,
            is_draining: false,
            has_more: false,
            has_ended: false,
        }
    }

    /// Accepts a connection of the publisher. True: there is a new one.
    pub(crate) fn accept(&mut self, now_ns: u64) -> bool {
        let expected = Expected {
            peer: self.terms.peer,
            secret: self.terms.secret,
            unreachable_ns: self.terms.unreachable_ns,
            seal: self.terms.seal.clone(),
        };
        let Some(pipe) = self.listener.accept(now_ns, &expected, self.position) else {
            return false;
        };
        self.pipe = Some(pipe);
        self.has_connected = true;
        // The rest of a message comes again, from its first byte.
        self.message = None;
        (self.start, self.end) = (0, 0);
        self.unsent.clear();
        self.acknowledged = self.position;
        true
    }

    /// Sockets that become readable when [`accept`](Self::accept) has something to do.
    pub(crate) fn listening(&self) -> impl Iterator<Item = Arc<OwnedFd>> {
        self.listener.sockets()
    }

    /// The connection that there is.
    pub(crate) fn pipe(&self) -> Option<&Pipe> {
        self.pipe.as_ref()
    }

    /// The sockets for frames, if there are any.
    pub(crate) fn frames(&self) -> Option<&FrameSocket> {
        self.frames.as_ref().map(|frames| &frames.socket)
    }

    pub(crate) fn frames_mut(&mut self) -> Option<&mut FrameSocket> {
        self.frames.as_mut().map(|frames| &mut frames.socket)
    }

    /// The caller is about to sleep: what it does not look at otherwise is looked at next.
    pub(crate) fn prepare_sleep(&mut self, now_ns: u64) {
        if let Some(frames) = &mut self.frames {
            frames.prepare_sleep(now_ns, self.position);
        }
    }

    /// The next message, or how many are missing before it.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Entry> {
        let entry = self.queue.pop()?;
        if let Entry::Sample(_, sample) = &entry {
            self.accepted_bytes += sample.len() as u64;
        }
        self.accept_taken(now_ns);
        self.acknowledge(now_ns);
        Some(entry)
    }

    /// What has arrived counts against the window no more, taken or not: for a flow that is to
    /// end, whose subscriber takes the rest of it before what arrives by another way.
    pub(crate) fn drain(&mut self, now_ns: u64) {
        if !std::mem::replace(&mut self.is_draining, true) {
            self.queue.add_places(self.terms.window.messages as usize);
            self.accept_taken(now_ns);
            self.acknowledge(now_ns);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The publisher has ended the flow, and everything has arrived.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Is there nothing to take, and may there be after another turn?
    pub(crate) fn has_more(&self) -> bool {
        self.has_more && self.is_empty()
    }

    /// Can nothing more arrive by the connection that there was?
    pub(crate) fn is_disconnected(&self) -> bool {
        self.pipe.is_none()
    }

    /// Is there no slot for what has arrived?
    pub(crate) fn lacks_slot(&self) -> bool {
        self.retry_ns.is_some()
    }

    /// When a turn is due at the latest.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        [self.due_ns, self.retry_ns].into_iter().flatten().min()
    }

    /// Takes what has arrived.
    ///
    /// # Errors
    /// The flow is over.
    pub(crate) fn turn(&mut self, now_ns: u64, until: Until) -> Result<(), String> {
        self.has_more = false;
        if self.has_ended {
            return Ok(());
        }
        self.retry_ns = None;
        let has_frame = self.take_frames(now_ns, until);
        let has_more_frames = self.frames.as_ref().is_some_and(|frames| frames.has_more());
        let frames = self.frames.as_mut();
        if has_frame || frames.is_some_and(|frames| !frames.is_to_look_at_connection(now_ns)) {
            self.has_more = true;
            self.acknowledge_all(now_ns);
            return Ok(());
        }
        match self.receive(until) {
            Ok(stopped) => {
                self.has_more = stopped == Stopped::Enough || has_more_frames;
                self.retry_ns = (stopped == Stopped::NoSlot).then_some(now_ns + NO_SLOT_NS);
            }
            Err(Failure::Broken(error)) if self.pipe.take().is_some() => {
                tracing::debug!(%error, "a flow's connection broke");
                self.broken = (now_ns, format!("its connection broke: {error}"));
            }
            Err(Failure::Broken(_)) => {}
            Err(Failure::Lie(what)) => {
                self.pipe = None;
                return Err(what);
            }
        }
        self.acknowledge_all(now_ns);
        let (since_ns, why) = &self.broken;
        let is_broken = self.pipe.is_none() && !self.has_ended;
        let limit_ns = match self.has_connected {
            true => self.terms.unreachable_ns,
            false => self.terms.unreachable_ns.max(FIRST_CONNECTION_NS),
        };
        match is_broken && now_ns.saturating_sub(*since_ns) >= limit_ns {
            true => Err(why.clone()),
            false => Ok(()),
        }
    }

    /// Takes what has arrived by frames. True: it is enough.
    fn take_frames(&mut self, now_ns: u64, until: Until) -> bool {
        let Some(mut frames) = self.frames.take() else {
            return false;
        };
        let first = until == Until::Message;
        let has_frame = frames.receive(now_ns, first, |number, payload| {
            self.take_frame(number, payload)
        });
        self.frames = Some(frames);
        has_frame
    }

    /// Takes a message that has arrived by a frame, if it is the next.
    fn take_frame(&mut self, number: u64, payload: &[u8]) -> bool {
        let is_next = number == self.position.received
            && self.message.is_none()
            && payload.len() <= self.terms.message_bytes_max as usize
            && number - self.position.accepted < self.terms.window.messages.into();
        if !is_next {
            return false;
        }
        // Without a slot it is as if lost: the connection brings it.
        let Ok(mut lease) = hop::lease(&self.participant, payload.len()) else {
            return false;
        };
        lease.write(0, payload);
        self.queue.push(number, lease.freeze(payload.len()));
        self.position.received += 1;
        true
    }

    fn receive(&mut self, until: Until) -> Result<Stopped, Failure> {
        // What an earlier turn has left, where no slot was free.
        if self.use_buffer()? == Used::NoSlot {
            return Ok(Stopped::NoSlot);
        }
        for _ in 0..READS_MAX {
            let (asked, read) = self.read()?;
            let Read::Bytes(bytes) = read else {
                return Ok(Stopped::Empty);
            };
            if self.use_buffer()? == Used::NoSlot {
                return Ok(Stopped::NoSlot);
            }
            // Fewer bytes than were asked for: the socket was empty then.
            if self.has_ended || bytes < asked {
                return Ok(Stopped::Empty);
            }
            if until == Until::Message && !self.queue.is_empty() {
                return Ok(Stopped::Enough);
            }
        }
        Ok(Stopped::Enough)
    }

    /// Reads into the slot of a long message, or into the buffer, which is empty. How many bytes
    /// were asked for, and how many came.
    fn read(&mut self) -> Result<(usize, Read), Failure> {
        let pipe = self.pipe.as_mut().ok_or_else(no_connection)?;
        if let Some(message) = &mut self.message
            && let Some(lease) = &mut message.lease
        {
            let rest = message.length - message.received;
            if rest > COPIED_BYTES_MAX {
                let asked = rest.min(READ_BYTES_MAX);
                let read = pipe
                    .read_into(lease, message.received, asked)
                    .map_err(Failure::Broken)?;
                if let Read::Bytes(bytes) = read {
                    message.received += bytes;
                }
                return Ok((asked, read));
            }
        }
        // Behind a long message is another as a rule: its payload is not to come here.
        let asked = match (&self.message, self.has_long_messages) {
            (None, true) => HEADER_BYTES - (self.end - self.start),
            (Some(message), true) => message.length - message.received,
            (_, false) => BUFFER_BYTES,
        };
        // What has arrived already may be longer than the buffer.
        let asked = asked.min(BUFFER_BYTES - self.end);
        let into = &mut self.buffer[self.end..self.end + asked];
        let read = pipe.read(into).map_err(Failure::Broken)?;
        if let Read::Bytes(bytes) = read {
            self.end += bytes;
        }
        Ok((asked, read))
    }

    /// Uses what is in the buffer: at most a part of a header is left.
    fn use_buffer(&mut self) -> Result<Used, Failure> {
        loop {
            if self.message.is_none() {
                let Some(header) = self.buffer[self.start..self.end].first_chunk() else {
                    break;
                };
                let frame = Frame::of_header(header);
                self.start += HEADER_BYTES;
                let frame = frame.ok_or_else(|| lie("it sends a header with reserved bytes"))?;
                self.begin(frame)?;
                if self.has_ended {
                    break;
                }
            }
            let Some(message) = &mut self.message else {
                break;
            };
            if message.lease.is_none() && !message.has_arrived {
                message.lease = hop::lease(&self.participant, message.length).ok();
                if message.lease.is_none() {
                    return Ok(Used::NoSlot);
                }
            }
            let rest = message.length - message.received;
            let bytes = rest.min(self.end - self.start);
            if let Some(lease) = &mut message.lease {
                let arrived = &self.buffer[self.start..self.start + bytes];
                lease.write(message.received, arrived);
            }
            message.received += bytes;
            self.start += bytes;
            if message.received < message.length {
                break;
            }
            self.finish_message();
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        Ok(Used::All)
    }

    fn begin(&mut self, frame: Frame) -> Result<(), Failure> {
        let expected = self.position.received;
        let (Frame::Message { number, .. } | Frame::End { number }) = frame;
        let may_repeat = self.frames.is_some() && matches!(frame, Frame::Message { .. });
        let has_arrived = may_repeat && number < expected;
        if number != expected && !has_arrived {
            return Err(lie(format!(
                "it sends message {number} where {expected} is next"
            )));
        }
        let Frame::Message { length, .. } = frame else {
            self.has_ended = true;
            return Ok(());
        };
        let most = self.terms.message_bytes_max;
        if length > most {
            return Err(lie(format!(
                "it sends {length} bytes where {most} are agreed on"
            )));
        }
        let window = self.terms.window.messages;
        if !has_arrived && expected - self.position.accepted >= window.into() {
            return Err(lie(format!(
                "it sends more than {window} messages that are not accepted"
            )));
        }
        self.has_long_messages = length as usize > COPIED_BYTES_MAX;
        self.message = Some(Message {
            length: length as usize,
            received: 0,
            lease: None,
            has_arrived,
        });
        Ok(())
    }

    fn finish_message(&mut self) {
        if let Some(Message {
            length,
            lease: Some(lease),
            ..
        }) = self.message.take()
        {
            self.queue
                .push(self.position.received, lease.freeze(length));
            self.position.received += 1;
        }
    }

    /// Messages that the subscriber has, or that its policy has dropped, are the sender's no more.
    fn accept_taken(&mut self, now_ns: u64) {
        // So there is credit for no more than depth and added places together.
        let has_place = self.is_draining && self.queue.has_depth_free();
        let oldest = self.queue.oldest().filter(|_| !has_place);
        let accepted = oldest.unwrap_or(self.position.received);
        // What was accepted stays so, though it may wait among what has come since.
        self.position.accepted = self.position.accepted.max(accepted);
        if self.position != self.acknowledged {
            self.due_ns.get_or_insert(now_ns + ACKNOWLEDGE_NS);
        }
    }

    fn acknowledge_all(&mut self, now_ns: u64) {
        self.accept_taken(now_ns);
        if let Some(frames) = &mut self.frames {
            frames.acknowledge(now_ns, self.position);
        }
        self.acknowledge(now_ns);
    }

    /// Sends the acknowledgement that is due by the connection, if one is.
    fn acknowledge(&mut self, now_ns: u64) {
        // What was acknowledged by a frame, which may be lost, can wait until it is due.
        let framed = self.frames.as_ref().map(|frames| frames.acknowledged());
        let told = framed.map_or(0, |framed| framed.accepted);
        let told = told.max(self.acknowledged.accepted);
        let count = self.position.accepted - told;
        let Some(pipe) = &mut self.pipe else {
            self.due_ns = None;
            return;
        };
        if self.unsent.is_empty() && !pipe.has_unsent() {
            if self.position == self.acknowledged {
                self.due_ns = None;
                return;
            }
            let is_due = self.due_ns.is_some_and(|due_ns| now_ns >= due_ns)
                || self.accepted_bytes >= ACKNOWLEDGE_BYTES
                || count > 0 && 2 * count >= self.terms.window.messages.into()
                || self.is_draining;
            if !is_due {
                return;
            }
            self.unsent
                .extend_from_slice(&self.position.acknowledgement());
            self.acknowledged = self.position;
            self.accepted_bytes = 0;
            self.due_ns = None;
        }
        // An error is found by the next read.
        let sent = pipe
            .send(&mut [std::io::IoSlice::new(&self.unsent)])
            .unwrap_or(0);
        self.unsent.drain(..sent);
        if !self.unsent.is_empty() || pipe.has_unsent() {
            self.due_ns = Some(now_ns + ACKNOWLEDGE_NS);
        }
    }
}

/// How far the buffer was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    All,
    NoSlot,
}

/// Why nothing is received.
#[derive(Debug)]
enum Failure {
    Broken(std::io::Error),
    Lie(String),
}

fn lie(what: impl Into<String>) -> Failure {
    Failure::Lie(what.into())
}

fn no_connection() -> Failure {
    Failure::Broken(std::io::ErrorKind::NotConnected.into())
}
