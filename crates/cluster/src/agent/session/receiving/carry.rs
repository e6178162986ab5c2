//! Reads a data connection: header, payload into a slot, publish; acknowledges what is taken over.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hythe_node::hop::HopNode as _;
use hythe_node::{Lease, NodeError};

use super::{ReceivingStream, Session, lock};
use crate::Connection;
use crate::agent::context::Member;
use crate::agent::link::send_first;
use crate::agent::session::PUBLISHERS_MAX;
use crate::carrier::{ConnectionReceiver, Received};
use crate::error::ClusterError;
use crate::frame::{Answer, EndKind, FrameKind, Header};
use crate::stream::Incoming;

/// How long the answer may take.
const ANSWERING: Duration = Duration::from_secs(1);
/// Where nothing came for so long, what is taken is acknowledged. Longer than a tick of any kernel:
/// a wait that ends by the next tick has a timer programmed for it, which in a virtual machine took
/// 9 us for each message.
const IDLE: Duration = Duration::from_millis(10);
/// How often it is looked whether a subscriber holds a message up still: a bell rings when it takes
/// something, but not when it releases a slot. First so often, then less.
const LOOK_MIN: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(50);
/// How long a wait for bytes lasts at most before it looks whether the session is over.
pub(super) const NAP: Duration = Duration::from_secs(1);

/// Carries a data connection of the other side until it ends.
pub(in crate::agent::session) fn run(
    session: &Session,
    stream: &ReceivingStream,
    connection: Connection,
    greeting: Member,
) {
    let Connection {
        mut sender,
        receiver,
        ..
    } = connection;
    // Whoever read an earlier connection of the stream stops, and lets go of it.
    stream.close();
    stream.wait_for_earlier();
    let mut incoming = lock(&stream.incoming);
    let answer = Answer::Stream {
        window: incoming.window(),
        payload_bytes_max: incoming.payload_bytes_max(),
        taken: incoming.resume(),
    };
    if send_first(&mut *sender, &answer, ANSWERING).is_err() {
        return;
    }
    *lock(&stream.closer) = Some(sender);
    drop(greeting);
    let mut reading = Reading {
        session,
        stream,
        incoming: &mut incoming,
        receiver,
        is_urgent: false,
    };
    match reading.read_all() {
        // It has ended, or another connection will carry it on.
        Ok(()) => stream.end(),
        Err(_) if stream.is_barred() => stream.end(),
        Err(error @ ClusterError::Share { .. }) => {
            session.record.losses.note_refusal(&error);
            tracing::warn!(%error, "a channel from another host is not taken");
            stream.end();
        }
        Err(ClusterError::Closed | ClusterError::Broken(_)) if !session.is_over() => {}
        Err(error) => {
            stream.end();
            session.end(&format!("channel {}: {error}", stream.opening.channel));
        }
    }
    stream.close();
    session.note_change();
}

/// How a wait for subscribers that block has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    /// None holds the message up now.
    ForNobody,
    /// One still does, for longer than it asked.
    InVain,
}

pub(super) struct Reading<'a> {
    pub(super) session: &'a Session,
    pub(super) stream: &'a ReceivingStream,
    incoming: &'a mut Incoming,
    receiver: Box<dyn ConnectionReceiver>,
    /// What is taken, or is not, is to be acknowledged at once.
    is_urgent: bool,
}

impl Reading<'_> {
    fn read_all(&mut self) -> Result<(), ClusterError> {
        loop {
            let header = self.header()?;
            if self.stream.is_barred() {
                return Err(ClusterError::Closed);
            }
            self.incoming.begin(header.sequence, header.length)?;
            if header.publisher as usize >= PUBLISHERS_MAX {
                return Err(ClusterError::TooMany {
                    what: "publishers on a channel",
                    most: PUBLISHERS_MAX,
                });
            }
            self.act(&header)?;
            self.incoming.taken(header.length);
            let is_end = header.kind == FrameKind::End;
            let is_urgent = std::mem::take(&mut self.is_urgent) || self.stream.is_hasty();
            self.acknowledge(is_end || is_urgent);
            if is_end {
                self.stream.is_complete.store(true, Ordering::Release);
                return Ok(());
            }
        }
    }

    fn act(&mut self, header: &Header) -> Result<(), ClusterError> {
        let kind = self.stream.opening.kind;
        if kind == EndKind::Publish {
            // At least one, for all that is known.
            let unknown = self
                .stream
                .follows_interrupted
                .swap(false, Ordering::Relaxed);
            self.note_missed(header.publisher, header.missed.max(unknown.into()))?;
        }
        match (kind, header.kind) {
            (_, FrameKind::End) | (EndKind::Publish, FrameKind::Missed) => {}
            (EndKind::Publish, FrameKind::Message) => self.message(header)?,
            (EndKind::Publish, FrameKind::PublisherClosed) => {
                lock(&self.stream.publishers).close(header.publisher);
            }
            (EndKind::Request, FrameKind::Message) => self.request(header)?,
            (EndKind::Reply, FrameKind::Message) => self.reply(header)?,
            (EndKind::Reply, FrameKind::GivenUp | FrameKind::Lost) => self.end_request(header),
            (kind, frame) => {
                let what = format!("a frame of kind {frame:?} on a stream of kind {kind:?}");
                return Err(ClusterError::Unexpected(what));
            }
        }
        Ok(())
    }

    /// The next header. Until it comes, what is taken is acknowledged.
    fn header(&mut self) -> Result<Header, ClusterError> {
        let (mut bytes, mut filled) = ([0; Header::BYTES], 0);
        while filled < Header::BYTES {
            let timeout = if self.incoming.owes() { IDLE } else { NAP };
            filled += match self.receiver.receive(timeout)? {
                Received::Bytes(received) => {
                    let now = received.len().min(Header::BYTES - filled);
                    bytes[filled..filled + now].copy_from_slice(&received[..now]);
                    self.receiver.consume(now);
                    now
                }
                Received::Nothing if self.session.is_over() => return Err(ClusterError::Over),
                Received::Nothing if self.stream.is_barred() => return Err(ClusterError::Closed),
                Received::Nothing => {
                    self.acknowledge(true);
                    0
                }
                Received::Closed => return Err(ClusterError::Closed),
            };
        }
        Ok(Header::from_bytes(&bytes)?)
    }

    pub(super) fn acknowledge(&mut self, is_idle: bool) {
        if let Some(through) = self.incoming.acknowledgement(is_idle) {
            self.session
                .outbox
                .acknowledge(self.stream.number(), through);
        }
    }

    /// Reads a message into a slot and publishes it. One for which there is no slot is read and
    /// counted.
    fn message(&mut self, header: &Header) -> Result<(), ClusterError> {
        let leased = lock(&self.stream.publishers).lease(header.publisher, header.length);
        let mut lease = match leased {
            Ok(lease) => lease,
            Err(error) => {
                self.not_taken(error)?;
                self.note_missed(header.publisher, 1)?;
                None
            }
        };
        self.payload(header.length, &mut lease)?;
        let Some(mut lease) = lease else {
            return Ok(());
        };
        let is_late = self.wait_for_subscribers(header, &mut lease)? == Waited::InVain;
        let mut publishers = lock(&self.stream.publishers);
        let published = publishers.publish(header.publisher, lease, header.length, is_late);
        drop(publishers);
        match published {
            Ok(0) => {}
            Ok(missed) => self.session.record.losses.not_delivered.add(missed.into()),
            Err(error) => {
                survive(error)?;
                self.session.record.losses.not_delivered.add(1);
            }
        }
        self.count(header.length);
        Ok(())
    }

    /// Waits while subscribers hold a message up, at most for as long as they ask. Only this stream
    /// waits, and nothing of the message is out before: of a session or a connection that ends
    /// meanwhile it has not been taken over, so that it is reported, or comes again.
    fn wait_for_subscribers(
        &self,
        header: &Header,
        lease: &mut Lease,
    ) -> Result<Waited, ClusterError> {
        let stream = self.stream;
        let mut held_up = || {
            let mut publishers = lock(&stream.publishers);
            // What is wrong is found again by publishing.
            let held_up = publishers.held_up(header.publisher, lease, header.length);
            held_up.unwrap_or(None)
        };
        if held_up().is_none() {
            return Ok(Waited::ForNobody);
        }
        let begin = stream.held_up_since(header.sequence);
        let node = self.session.node()?;
        let mut nap = LOOK_MIN;
        loop {
            let waited = node.wait_until(nap, nap, || {
                if self.session.is_over() || lock(&stream.closer).is_none() {
                    return Ok(Some(None));
                }
                Ok(match held_up() {
                    None => Some(Some(Waited::ForNobody)),
                    Some(most) if begin.elapsed() >= most => Some(Some(Waited::InVain)),
                    Some(_) => None,
                })
            })?;
            match waited {
                Some(Some(waited)) => return Ok(waited),
                Some(None) if self.session.is_over() => return Err(ClusterError::Over),
                Some(None) => return Err(ClusterError::Closed),
                None => nap = (nap * 2).min(LOOK_MAX),
            }
        }
    }

    /// The message of a frame is not taken: counted here, and the other side is told, also that the
    /// frame is done with.
    pub(super) fn not_taken(&mut self, error: impl Into<ClusterError>) -> Result<(), ClusterError> {
        let error = error.into();
        if !is_of_one(&error) {
            return Err(error);
        }
        tracing::warn!(%error, "a message from another host is not taken");
        let why = self.session.record.losses.note_not_taken(&error);
        let stream = self.stream.number();
        self.session.outbox.note_not_taken(stream, why);
        self.is_urgent = true;
        Ok(())
    }

    pub(super) fn count(&self, length: u32) {
        let (stream, bytes) = (self.stream, u64::from(length));
        stream.messages.fetch_add(1, Ordering::Relaxed);
        stream.payload_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reads payload straight into the slot: the one copy on this side.
    pub(super) fn payload(
        &mut self,
        length: u32,
        lease: &mut Option<Lease>,
    ) -> Result<(), ClusterError> {
        let (length, mut read) = (length as usize, 0);
        while read < length {
            match self.receiver.receive(NAP)? {
                Received::Bytes(received) => {
                    let now = received.len().min(length - read);
                    if let Some(lease) = lease {
                        lease.write(read, &received[..now]);
                    }
                    self.receiver.consume(now);
                    read += now;
                }
                Received::Nothing if self.session.is_over() => return Err(ClusterError::Over),
                Received::Nothing => {}
                Received::Closed => return Err(ClusterError::Closed),
            }
        }
        Ok(())
    }

    /// So many messages of a publisher will never come: its subscribers count them.
    fn note_missed(&self, publisher: u32, messages: u32) -> Result<(), ClusterError> {
        if messages == 0 {
            return Ok(());
        }
        let noted = lock(&self.stream.publishers).note_missed(publisher, messages);
        noted.or_else(survive)
    }
}

/// What is wrong with one message is no end of the stream; a pool that is gone is.
pub(super) fn survive(error: impl Into<ClusterError>) -> Result<(), ClusterError> {
    let error = error.into();
    if !is_of_one(&error) {
        return Err(error);
    }
    tracing::warn!(%error, "a message from another host is not delivered");
    Ok(())
}

fn is_of_one(error: &ClusterError) -> bool {
    match error {
        ClusterError::Node(NodeError::PoolLost { .. } | NodeError::ForkedCopy { .. }) => false,
        ClusterError::Node(_) | ClusterError::Share { .. } => true,
        _ => false,
    }
}
