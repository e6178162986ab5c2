//! The thread of a stream: connects, sends again what the last connection left open, and then takes
//! and sends one message after another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hythe_node::hop::{HopNode as _, Origin};
use hythe_node::{Sample, TrustPeers};

use super::messages::Messages;
use super::requests::{Replies, Requests};
use super::source::{Frame, Source, Step};
use super::{Held, SendingStream, Session, Stop, lock};
use crate::agent::jobs::is_of_task;
use crate::agent::link::{MessageReader, send_first};
use crate::agent::session::window::window_of;
use crate::carrier::ConnectionSender;
use crate::error::ClusterError;
use crate::frame::{Answer, EndKind, FrameKind, Header, Hello, Purpose};
use crate::status::ChannelState;

/// How long a connection may take to be made, but for a quarter of a lease at most: the end of a
/// session waits for it.
const CONNECTING: Duration = Duration::from_secs(1);
/// How long the other side may read nothing of a frame. Its subscribers may block for as long as
/// they ask; whether the host lives, the control connection says.
const SENDING: Duration = Duration::from_secs(30);
/// Waits end by bells; this only bounds one that was lost.
const NAP: Duration = Duration::from_secs(1);
/// Between two attempts to connect.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
];

/// What was published before the other side has accepted the stream waits for so many attempts.
const FIRST_ATTEMPTS: usize = PAUSES.len();

/// What this thread has beside what others see.
struct Carrying<'a> {
    session: &'a Session,
    stream: &'a SendingStream,
    /// Opened when the other side has accepted the stream for the first time, at the latest.
    source: Option<Box<dyn Source + 'a>>,
    /// The other side has accepted the stream.
    is_accepted: bool,
    /// The longest payload that fits a slot there.
    payload_bytes_max: u32,
    /// Messages lost on this side, to be told with the next frame.
    missed: u32,
}

/// Carries a stream until it ends, over as many connections as it takes. Where its port was opened
/// beforehand, that is `early`.
pub(super) fn run(
    session: &Arc<Session>,
    stream: &SendingStream,
    early: Result<Option<Messages>, ClusterError>,
) {
    let (early, failed) = match early {
        Ok(early) => (early, None),
        Err(error) => (None, Some(error)),
    };
    let mut carrying = Carrying {
        session,
        stream,
        source: early.map(|early| Box::new(early) as Box<dyn Source>),
        is_accepted: false,
        payload_bytes_max: 0,
        missed: match stream.opening.kind {
            EndKind::Publish => session.record.take_untold(&stream.opening.channel),
            _ => 0,
        },
    };
    let ended = failed.map_or_else(|| carrying.carry(), Err);
    stream.close();
    carrying.settle();
    drop(carrying);
    stream.end_early(session);
    // Before another stream can open a port: publishers would send there, too.
    session
        .context
        .flows
        .stream_ended(&**session, &stream.opening.channel);
    let mut state = lock(&stream.state);
    state.has_ended = true;
    if let Err(error) = ended {
        state.how = ChannelState::Refused;
        state.reason = error.to_string();
        session.record.losses.note_refusal(&error);
    }
}

impl Carrying<'_> {
    fn carry(&mut self) -> Result<(), ClusterError> {
        let mut failures = 0;
        loop {
            let sent = self.carry_once(&mut failures);
            self.stream.close();
            let error = match sent {
                Ok(()) => return Ok(()),
                Err(_) if self.session.is_over() => return Err(ClusterError::Over),
                Err(
                    error @ (ClusterError::Broken(_)
                    | ClusterError::Closed
                    | ClusterError::Silent(_)),
                ) => error,
                Err(error) => return Err(error),
            };
            if self.stream.stopping() >= Stop::Reopen {
                return Ok(());
            }
            if !self.is_accepted {
                // Nobody here is held up for a host that cannot be reached: what opens now goes on
                // at once, and what is published waits for some attempts more. A task is never
                // held up, and its messages are lost only with a host: it may just be busy.
                self.stream.end_early(self.session);
                if failures + 1 >= FIRST_ATTEMPTS && !is_of_task(&self.stream.opening.channel) {
                    self.close_source();
                }
            }
            // Only the connection broke, or a host that is busy did not answer it in time: the
            // stream goes on over another, as long as the host lives.
            self.stream
                .say(ChannelState::Connecting, &error.to_string());
            hythe_sys::wait::sleep(PAUSES[failures.min(PAUSES.len() - 1)]);
            failures += 1;
        }
    }

    /// Over one connection: until the stream ends, or the connection does.
    fn carry_once(&mut self, failures: &mut usize) -> Result<(), ClusterError> {
        if self.is_accepted {
            self.session.record.losses.reconnections.add(1);
        }
        let mut sender = self.connect()?;
        (self.is_accepted, *failures) = (true, 0);
        self.stream.say(ChannelState::Open, "");
        self.stream.end_early(self.session);
        loop {
            let again = lock(&self.stream.outgoing).begin_again();
            match again {
                Some(ready) => self.send_begun(&mut *sender, ready.held)?,
                None => break,
            }
        }
        loop {
            match self.next()? {
                Step::Send(sample, origin) => self.send_message(&mut *sender, sample, origin)?,
                Step::Closed(publisher) => {
                    let frame = Frame::without_payload(FrameKind::PublisherClosed, publisher);
                    self.send(&mut *sender, frame)?;
                }
                Step::Frame(frame) => self.send_of_request(&mut *sender, frame)?,
                Step::End => {
                    let frame = Frame::without_payload(FrameKind::End, 0);
                    self.send(&mut *sender, frame)?;
                    return self.finish();
                }
            }
        }
    }

    /// Connects, and agrees with the other side on where the stream goes on.
    fn connect(&mut self) -> Result<Box<dyn ConnectionSender>, ClusterError> {
        let (session, stream) = (self.session, self.stream);
        let (host, carrier) = (&session.record.name, &session.context.carrier);
        let addresses = lock(&session.record.addresses).next_attempt();
        let timeout = CONNECTING.min(session.context.options.lease / 4);
        let connected = carrier.connect(host, &addresses, timeout);
        let mut connection = connected.map_err(|error| match error {
            crate::CarrierError::Unreachable { source, .. } => ClusterError::Broken(source),
            other => other.into(),
        })?;
        lock(&session.record.addresses).prove(&connection.about.address);
        let hello = Hello {
            host: session.context.options.host.clone(),
            purpose: Purpose::Data {
                session: session.their_number,
                opening: stream.opening.clone(),
            },
        };
        send_first(&mut *connection.sender, &hello, CONNECTING)?;
        let mut reader = MessageReader::new(connection.receiver);
        reader.preamble(CONNECTING)?;
        // A reader of an earlier connection may have to finish first.
        let answer = reader.message(session.context.options.lease)?;
        let Answer::Stream {
            window,
            payload_bytes_max,
            taken,
        } = answer
        else {
            return Err(match answer {
                Answer::Refused { reason } => ClusterError::Refused(reason),
                other => ClusterError::Unexpected(format!("{other:?} to a stream")),
            });
        };
        self.payload_bytes_max = payload_bytes_max;
        // Whatever is granted: no host holds more of this pool than it would grant another.
        let (own, _) = window_of(session.node()?.pool(), stream.want().depth);
        lock(&stream.outgoing).resume(taken, window.at_most(own), drop)?;
        self.open_source()?;
        *lock(&stream.closer) = Some(reader.into_receiver());
        if session.is_over() {
            return Err(ClusterError::Over);
        }
        Ok(connection.sender)
    }

    /// Closes the port. What waits there is not sent.
    fn close_source(&mut self) {
        if let Some(mut source) = self.source.take() {
            self.note_not_sent(source.discard());
        }
    }

    /// Opens the port, the first time.
    fn open_source(&mut self) -> Result<(), ClusterError> {
        if self.source.is_none() {
            let (session, stream) = (self.session, self.stream);
            self.source = Some(match stream.opening.kind {
                EndKind::Request => Box::new(Requests::new(session, stream)?),
                EndKind::Reply => Box::new(Replies::new(session, stream)?),
                EndKind::Publish | EndKind::Event => Box::new(Messages::new(session, stream)?),
            });
        }
        Ok(())
    }

    /// Waits for the next thing to do.
    fn next(&mut self) -> Result<Step, ClusterError> {
        let (session, stream) = (self.session, self.stream);
        let Some(source) = &mut self.source else {
            return Err(ClusterError::Over);
        };
        let node = session.node()?;
        loop {
            let step = node.wait_until(NAP, NAP, || {
                if session.is_over() {
                    // Said below.
                    return Ok(Some(Step::End));
                }
                source.look(stream)
            })?;
            stream.waits_for_credit.store(false, Ordering::Relaxed);
            match step {
                // What was taken is sent, or counted.
                Some(step @ (Step::Send(..) | Step::Frame(_))) => return Ok(step),
                _ if session.is_over() => return Err(ClusterError::Over),
                Some(step) => return Ok(step),
                None => stream.check_connection()?,
            }
        }
    }

    fn send_message(
        &mut self,
        sender: &mut dyn ConnectionSender,
        sample: Sample,
        origin: Origin,
    ) -> Result<(), ClusterError> {
        self.count_dropped();
        let number = lock(&self.stream.publishers).of(origin);
        // Fits: a slot's size is 32 bits.
        let length = sample.len() as u32;
        let Some(publisher) = number.filter(|_| length <= self.payload_bytes_max) else {
            let losses = &self.session.record.losses;
            losses.too_long.add(1);
            self.missed = self.missed.saturating_add(1);
            let reason = format!(
                "a message of {length} bytes was dropped: the largest slot there has {}",
                self.payload_bytes_max
            );
            self.stream.say(ChannelState::Open, &reason);
            let frame = Frame::without_payload(FrameKind::Missed, number.unwrap_or(0));
            return self.send(sender, frame);
        };
        self.count(length);
        let frame = Frame {
            kind: FrameKind::Message,
            publisher,
            number: 0,
            sample: Some(sample),
        };
        self.send(sender, frame)
    }

    /// Sends a request, or what became of one.
    fn send_of_request(
        &mut self,
        sender: &mut dyn ConnectionSender,
        frame: Frame,
    ) -> Result<(), ClusterError> {
        // Fits: a slot's size is 32 bits.
        let length = frame
            .sample
            .as_ref()
            .map_or(0, |sample| sample.len() as u32);
        if length > self.payload_bytes_max {
            self.session.record.losses.too_long.add(1);
            let source = self.source.as_mut();
            return match source.and_then(|source| source.too_long(frame.number)) {
                Some(instead) => self.send(sender, instead),
                None => Ok(()),
            };
        }
        if frame.kind == FrameKind::Message {
            self.count(length);
        }
        self.send(sender, frame)
    }

    fn count(&self, length: u32) {
        let (stream, bytes) = (self.stream, u64::from(length));
        stream.messages.fetch_add(1, Ordering::Relaxed);
        stream.payload_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What publishers dropped for this host since the last look.
    fn count_dropped(&mut self) {
        let source = self.source.as_mut();
        let more = source.map_or(0, |source| source.take_dropped());
        self.note_not_sent(more);
    }

    fn note_not_sent(&mut self, messages: u64) {
        let counted = self.stream.counted.take(messages);
        self.session.record.losses.not_sent.add(messages - counted);
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        self.missed = self.missed.saturating_add(messages);
    }

    /// Sends a new frame; it is held until it is acknowledged.
    fn send(
        &mut self,
        sender: &mut dyn ConnectionSender,
        frame: Frame,
    ) -> Result<(), ClusterError> {
        let Frame {
            kind,
            publisher,
            number,
            sample,
        } = frame;
        let length = sample.as_ref().map_or(0, |sample| sample.len() as u32);
        let sequence = lock(&self.stream.outgoing).begin(length);
        let header = Header {
            kind,
            length,
            sequence,
            publisher,
            missed: std::mem::take(&mut self.missed),
            number,
        };
        self.send_begun(sender, Held { header, sample })
    }

    /// Sends a frame that has its number, straight from its slot.
    fn send_begun(
        &self,
        sender: &mut dyn ConnectionSender,
        held: Held,
    ) -> Result<(), ClusterError> {
        let header = held.header.to_bytes();
        let trust = TrustPeers::i_trust_every_writer_of_this_pool();
        let payload = held.sample.as_ref().map(|sample| sample.as_slice(trust));
        let sent = match payload {
            Some(payload) if !payload.is_empty() => sender.send(&[&header, payload], SENDING),
            _ => sender.send(&[&header], SENDING),
        };
        let whole = held.sample.as_ref().map_or(Ok(()), Sample::check_whole);
        let sequence = held.header.sequence;
        drop(lock(&self.stream.outgoing).finish(sequence, held));
        sent?;
        Ok(whole?)
    }

    /// Waits until all is acknowledged.
    fn finish(&mut self) -> Result<(), ClusterError> {
        let (session, stream) = (self.session, self.stream);
        let node = session.node()?;
        stream.waits_for_credit.store(true, Ordering::Relaxed);
        loop {
            let settled = node.wait_until(NAP, NAP, || {
                let is_settled = lock(&stream.outgoing).is_settled();
                Ok((is_settled || session.is_over()).then_some(()))
            })?;
            if session.is_over() {
                return Err(ClusterError::Over);
            }
            if settled.is_some() {
                return Ok(());
            }
            stream.check_connection()?;
        }
    }

    /// Gives back what is held; what of it may have arrived is told in the next session.
    fn settle(&mut self) {
        let outgoing = {
            let mut outgoing = lock(&self.stream.outgoing);
            let window = outgoing.window();
            std::mem::replace(&mut *outgoing, crate::stream::Outgoing::new(window))
        };
        let mut unconfirmed = 0;
        for held in outgoing.end() {
            if let Some(source) = self.source.as_mut().filter(|_| held.header.number > 0) {
                source.unconfirmed(held.header.number);
                continue;
            }
            // What its header tells was counted when it was lost.
            self.missed = self.missed.saturating_add(held.header.missed);
            unconfirmed += u32::from(held.sample.is_some());
        }
        self.missed = self.missed.saturating_add(unconfirmed);
        self.close_source();
        if self.stream.stopping() != Stop::Now {
            let (record, channel) = (&self.session.record, &self.stream.opening.channel);
            record.losses.unconfirmed.add(unconfirmed.into());
            record.note_untold(channel, self.missed);
        }
    }
}
