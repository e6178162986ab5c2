//! One stream from datagrams to units: joins what the other modules decide.
//!
//! [`session`](crate::receive::session) feeds it what the sockets hand over and the time, and sends
//! what it wants sent; a reader of interleaved RTP, a test or a fuzzer can do the same. Between
//! calls, packets that wait for one that is missing lie in its memory.
//!
//! Pure: it calls no kernel and reads no clock. Memory is set at the start: once it is full,
//! missing packets are waited for no longer. Times are nanoseconds of one clock that never goes
//! back, except where a name says that they count from 1970.

mod other_types;
mod repair;
mod suspects;
mod waiting;

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use hythe_rtp::Identity;
use hythe_rtp::format::StreamFormat;
use hythe_rtp::payload::{Depacketize, Received};
use hythe_rtp::receive::feedback::Feedback;
use hythe_rtp::receive::gaps::Gaps;
use hythe_rtp::receive::head::Head;
use hythe_rtp::receive::parsed_rtcp::{self, ParsedRtcp, RtcpEvent};
use hythe_rtp::receive::reorder::{Origin, Ready, Reason, Reorder};
use hythe_rtp::receive::requests::Limits;
use hythe_rtp::receive::source::{Source, ticks};
use hythe_rtp::receive::sources::{Decision, Expected, Sender, Sources};
use hythe_rtp::receive::timeline::Timeline;
use hythe_sys::udp_receive::{BATCH_BYTES, Message};

use super::memory::{Batch, Memory, Span};
use super::statistics::Statistics;
use crate::MediaError;
use crate::sink::Sink;
use crate::slots::Slots;

use self::other_types::OtherType;
use self::waiting::Waiting;

pub use self::repair::{Came, Repair};

/// What a receiver can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a missing packet is waited for; 0: not at all.
    pub delay_ns: u64,
    /// Packets held or missing at most.
    pub packets_max: usize,
    /// Bytes of received datagrams held at most, at least [`BATCH_BYTES`].
    pub buffer_bytes: usize,
    /// The SSRC, if it was announced: a hint, see [`Expected::ssrc`].
    pub ssrc: Option<u32>,
    /// The sender's host, if it is known.
    pub host: Option<IpAddr>,
    /// How long the stream must be silent before another source takes its place.
    pub takeover_ns: u64,
    /// Ask for missing packets, within these limits; `None`: never.
    pub requests: Option<Limits>,
    /// What is sent again comes as it was sent first, and not as a stream of its own (RFC 4588): a
    /// packet that was asked for and then came counts as repaired, not as overtaken.
    pub resent_as_first: bool,
    /// Where our RTCP goes; `None`: to where the sender's comes from, and before that to the port
    /// behind its RTP.
    pub reports_to: Option<SocketAddr>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delay_ns: 50_000_000,
            // What 50 ms of 400 Mbit/s are, and again as much for bursts: packets of 1,400 bytes,
            // and their space.
            packets_max: 4096,
            buffer_bytes: 6 << 20,
            ssrc: None,
            host: None,
            takeover_ns: 1_000_000_000,
            requests: None,
            resent_as_first: false,
            reports_to: None,
        }
    }
}

/// A packet that waits, without its header.
#[derive(Debug)]
struct Held {
    span: Span,
    timestamp: u32,
    marker: bool,
}

/// A packet that may begin a stream.
#[derive(Debug)]
struct Suspect {
    sender: Sender,
    held: Held,
    arrived_unix_ns: Option<u64>,
    at_ns: u64,
}

/// Repaired packets on their way from the repair to the buffer.
#[derive(Debug, Default)]
struct Repaired {
    bytes: Vec<u8>,
    /// Where each of them ends, and how it came.
    ends: Vec<(usize, Origin)>,
}

/// Receives one stream.
pub struct Stream<D, S> {
    settings: Settings,
    payload_type: u8,
    clock_hz: u32,
    memory: Memory,
    sources: Sources,
    reorder: Reorder<Held>,
    suspects: VecDeque<Suspect>,
    /// Packets of another source that may take the stream's place.
    waiting: Waiting,
    timeline: Timeline,
    feedback: Feedback,
    repair: Option<Box<dyn Repair>>,
    repaired: Repaired,
    depacketizer: D,
    sink: S,
    /// When the last packet of the stream came.
    last_ns: Option<u64>,
    goodbye_ns: Option<u64>,
    /// Where the sender's RTCP comes from.
    reporter: Option<SocketAddr>,
    /// Something in front of the next payload is missing, though no number is.
    has_break: bool,
    /// What comes instead of the stream.
    other_type: Option<OtherType>,
    /// Packets that were sent again and came after they were given up.
    resent_late: u64,
    statistics: Statistics,
}

impl<D: Depacketize, S: Sink> Stream<D, S> {
    /// Waits for a stream of `format` from `now_ns` on, and speaks RTCP as `identity`.
    #[must_use]
    pub fn new(
        settings: Settings,
        format: &StreamFormat,
        identity: &Identity,
        depacketizer: D,
        sink: S,
        now_ns: u64,
    ) -> Self {
        let expected = Expected {
            clock_hz: format.clock_hz,
            ssrc: settings.ssrc,
            host: settings.host,
            takeover_ns: settings.takeover_ns,
        };
        let packets_max = settings.packets_max.max(1);
        Self {
            settings,
            payload_type: format.payload_type,
            clock_hz: format.clock_hz,
            memory: Memory::new(settings.buffer_bytes),
            sources: Sources::new(expected),
            reorder: Reorder::new(packets_max, settings.delay_ns),
            suspects: VecDeque::with_capacity(suspects::SUSPECTS_MAX),
            waiting: Waiting::new(),
            timeline: Timeline::default(),
            feedback: Feedback::new(identity, settings.requests, packets_max, now_ns),
            repair: None,
            repaired: Repaired::default(),
            depacketizer,
            sink,
            last_ns: None,
            goodbye_ns: None,
            reporter: None,
            has_break: false,
            other_type: None,
            resent_late: 0,
            statistics: Statistics::default(),
        }
    }

    /// Shows all packets to `repair`, and takes what it repairs.
    #[must_use]
    pub fn with_repair(mut self, repair: Box<dyn Repair>) -> Self {
        self.repair = Some(repair);
        self.repaired.bytes.reserve(BATCH_BYTES);
        self
    }

    /// Receives into `slots` as long as there are some, so that a sink can publish what came where
    /// it lies.
    #[must_use]
    pub fn with_slots(mut self, slots: &Slots) -> Self {
        self.memory.prefer(slots.clone());
        self
    }

    /// Is the pool whole, if anything is received into it? To be asked when the kernel could not
    /// write into [`Self::free_capacity`].
    ///
    /// # Errors
    ///
    /// [`MediaError::Pool`].
    pub fn check_memory(&self) -> Result<(), MediaError> {
        Ok(self.memory.check_whole()?)
    }

    /// Space for datagrams, [`BATCH_BYTES`], to be handed to [`Self::take_messages`]. If there is
    /// none, packets come out before their turn. Empty after the sink failed: nothing but
    /// [`Self::finish`] makes sense then.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn free_capacity(&mut self) -> Result<&mut [u8], MediaError> {
        self.memory.choose();
        while self.memory.free_capacity().is_none() {
            self.forget_waiting();
            if self.memory.free_capacity().is_some() {
                break;
            }
            match self.reorder.pop_now() {
                Some(ready) => self.deliver(ready)?,
                None if !self.suspects.is_empty() => self.forget_suspect(),
                // Only after an error, which left spans behind.
                None => break,
            }
        }
        let storage = self.memory.free_capacity();
        Ok(storage.unwrap_or_default())
    }

    /// Takes what was received on the RTP port into [`Self::free_capacity`]: message `n` at `n *
    /// part`. Emits what is complete.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn take_messages(
        &mut self,
        messages: &[Message],
        part: usize,
        now_ns: u64,
    ) -> Result<(), MediaError> {
        let Some(last) = messages.last() else {
            return Ok(());
        };
        let bytes = (messages.len() - 1) * part + last.bytes;
        if bytes == 0 {
            self.statistics.malformed += 1;
            return Ok(());
        }
        let batch = self.memory.take(bytes);
        for (index, message) in messages.iter().enumerate() {
            let mut start = index * part;
            let end = start + message.bytes;
            self.statistics.malformed += u64::from(message.is_truncated || message.bytes == 0);
            // Of one that was cut off, the packets that are whole cannot be told from the one that
            // is not.
            while start < end && !message.is_truncated {
                let range = start..end.min(start + message.segment_bytes.max(1));
                start = range.end;
                self.take_packet(&batch, range, message, now_ns)?;
            }
        }
        self.memory.done(batch);
        self.take_repaired(now_ns)
    }

    /// Takes one datagram that lies elsewhere, and copies it; for ways that are no UDP socket. One
    /// longer than [`BATCH_BYTES`] is malformed.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn take_datagram(
        &mut self,
        datagram: &[u8],
        source: SocketAddr,
        now_ns: u64,
    ) -> Result<(), MediaError> {
        let storage = self.free_capacity()?;
        let bytes = datagram.len().min(storage.len());
        storage[..bytes].copy_from_slice(&datagram[..bytes]);
        let message = Message {
            bytes,
            segment_bytes: bytes,
            source,
            is_truncated: bytes < datagram.len(),
            ..Message::NONE
        };
        self.take_messages(&[message], BATCH_BYTES, now_ns)
    }

    fn take_packet(
        &mut self,
        batch: &Batch,
        range: Range<usize>,
        message: &Message,
        now_ns: u64,
    ) -> Result<(), MediaError> {
        let bytes = self.memory.part(batch, range.clone());
        if parsed_rtcp::is_rtcp(bytes) {
            // RTCP on the same port (RFC 5761).
            let parsed = ParsedRtcp::read(bytes);
            self.believe(&parsed, message.source, now_ns);
            return Ok(());
        }
        let Some(head) = Head::read(bytes) else {
            self.statistics.malformed += 1;
            return Ok(());
        };
        let sender = Sender {
            ssrc: head.ssrc,
            address: message.source,
            sequence: head.sequence,
        };
        if head.payload_type != self.payload_type {
            return self.take_other(batch, range, (&head, &sender), now_ns);
        }
        if sender.ssrc == self.feedback.ssrc() {
            self.feedback.collision();
            return Ok(());
        }
        let payload = range.start + head.payload.start..range.start + head.payload.end;
        let (timestamp, payload_bytes) = (head.timestamp, payload.len() as u64);
        let held = Held {
            span: self.memory.hold(batch, payload),
            timestamp,
            marker: head.marker,
        };
        let awaited = self.reorder.extend(sender.sequence);
        // An answer that comes a second time is a duplicate. Its number may be far behind, and two
        // such numbers in sequence would otherwise look like a sender that restarted.
        let is_answer = self.reorder.is_missing(awaited) || self.feedback.was_asked(awaited);
        let is_awaited = is_answer && self.sources.awaited(&sender, now_ns);
        let decision = if is_awaited {
            Decision::Take(awaited)
        } else {
            self.sources.packet(&sender, now_ns)
        };
        let number = match decision {
            Decision::Ignore => {
                self.memory.release(held.span);
                return Ok(());
            }
            Decision::Keep | Decision::Wait => {
                let suspect = Suspect {
                    sender,
                    held,
                    arrived_unix_ns: message.arrived_unix_ns,
                    at_ns: now_ns,
                };
                match decision {
                    Decision::Wait => self.keep_waiting(suspect),
                    _ => self.keep_suspect(suspect),
                }
                return Ok(());
            }
            Decision::Begin(number) => {
                self.begin(number, &sender, now_ns)?;
                number
            }
            Decision::Take(number) => {
                self.forget_waiting();
                number
            }
        };
        self.count(payload_bytes, timestamp, message.arrived_unix_ns, now_ns);
        self.show_repair(batch, range, Came::AsMedia);
        self.push(number, held, Origin::Network, now_ns)
    }

    /// Takes a datagram of a port for parity. Emits what it repairs.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn take_parity(
        &mut self,
        datagram: &[u8],
        source: SocketAddr,
        now_ns: u64,
    ) -> Result<(), MediaError> {
        if !self.comes_from(source.ip()) {
            self.statistics.other_payload_type += 1;
            return Ok(());
        }
        let is_parity = show(
            (&mut self.repair, &mut self.repaired),
            &self.reorder,
            &mut self.resent_late,
            datagram,
            Came::OnParityPort,
        );
        self.statistics.malformed += u64::from(!is_parity);
        self.take_repaired(now_ns)
    }

    /// Is that the host of the stream?
    fn comes_from(&self, host: IpAddr) -> bool {
        let stream = self.sources.address();
        stream.is_some_and(|stream| stream.ip() == host)
    }

    fn show_repair(&mut self, batch: &Batch, range: Range<usize>, came: Came) -> bool {
        let packet = self.memory.part(batch, range);
        show(
            (&mut self.repair, &mut self.repaired),
            &self.reorder,
            &mut self.resent_late,
            packet,
            came,
        )
    }

    fn take_repaired(&mut self, now_ns: u64) -> Result<(), MediaError> {
        if self.repaired.ends.is_empty() {
            return Ok(());
        }
        let mut repaired = std::mem::take(&mut self.repaired);
        let mut start = 0;
        for (end, origin) in repaired.ends.drain(..) {
            self.take_repaired_packet(&repaired.bytes[start..end], origin, now_ns)?;
            start = end;
        }
        repaired.bytes.clear();
        self.repaired = repaired;
        Ok(())
    }

    /// Takes a packet that was lost and is there all the same, whole. One that does not belong to
    /// the stream is malformed.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn take_repaired_packet(
        &mut self,
        packet: &[u8],
        origin: Origin,
        now_ns: u64,
    ) -> Result<(), MediaError> {
        let ssrc = self.sources.stream().map(Source::ssrc);
        let head = Head::read(packet)
            .filter(|head| Some(head.ssrc) == ssrc && head.payload_type == self.payload_type);
        let Some(head) = head.filter(|_| packet.len() <= BATCH_BYTES) else {
            self.statistics.malformed += 1;
            return Ok(());
        };
        let payload = &packet[head.payload];
        let storage = self.free_capacity()?;
        // One byte at least: a batch is never empty.
        storage[0] = 0;
        storage[..payload.len()].copy_from_slice(payload);
        let batch = self.memory.take(payload.len().max(1));
        let span = self.memory.hold(&batch, 0..payload.len());
        self.memory.done(batch);
        let held = Held {
            span,
            timestamp: head.timestamp,
            marker: head.marker,
        };
        let number = self.reorder.extend(head.sequence);
        self.push(number, held, origin, now_ns)
    }

    fn count(&mut self, bytes: u64, timestamp: u32, arrived_unix_ns: Option<u64>, now_ns: u64) {
        self.last_ns = Some(now_ns);
        self.other_type = None;
        self.statistics.packets += 1;
        self.statistics.bytes += bytes;
        self.feedback.received(bytes);
        if let Some(source) = self.sources.stream_mut() {
            source.arrival(timestamp, arrived_unix_ns.unwrap_or(now_ns));
        }
    }

    /// The stream begins (anew) at `number`, or with suspects around it.
    fn begin(&mut self, number: u64, sender: &Sender, now_ns: u64) -> Result<(), MediaError> {
        while let Some(ready) = self.reorder.pop_now() {
            self.deliver(ready)?;
        }
        let began_ns = self.waiting.began_ns(sender);
        let last_ns = self.last_ns.unwrap_or(now_ns);
        let silent_ns = began_ns.unwrap_or(now_ns).saturating_sub(last_ns);
        self.timeline.restart(ticks(silent_ns, self.clock_hz));
        self.feedback.restart();
        if let Some(repair) = &mut self.repair {
            repair.begin(sender.ssrc);
        }
        self.has_break = self.last_ns.is_some();
        self.goodbye_ns = None;
        self.reporter = None;
        if began_ns.is_some() {
            self.forget_suspects();
            return self.begin_with_waiting(number, sender, now_ns);
        }
        self.forget_waiting();
        self.begin_with_suspects(number, sender, now_ns)
    }

    fn push(
        &mut self,
        number: u64,
        held: Held,
        origin: Origin,
        now_ns: u64,
    ) -> Result<(), MediaError> {
        // What parity repaired is no answer.
        let is_answer = self.reorder.has_missing() && origin != Origin::Parity;
        let mut origin = origin;
        if is_answer {
            self.feedback.came(number, now_ns);
            let was_resent = self.settings.resent_as_first && self.feedback.was_asked(number);
            if was_resent && self.reorder.is_missing(number) {
                origin = Origin::Resent;
            }
        }
        let mut held = held;
        while let Err(refused) = self.reorder.push(number, held, origin, now_ns) {
            held = refused.item;
            let is_ahead = refused.reason == Reason::Ahead && origin == Origin::Network;
            // Nothing else is worth giving anything up for.
            let ready = if is_ahead {
                self.reorder.pop_now()
            } else {
                None
            };
            match ready {
                Some(ready) => self.deliver(ready)?,
                None => {
                    self.memory.release(held.span);
                    break;
                }
            }
        }
        self.expire(now_ns)
    }

    fn deliver(&mut self, ready: Ready<Held>) -> Result<(), MediaError> {
        let Held {
            span,
            timestamp,
            marker,
        } = ready.item;
        let bytes = self.memory.bytes(&span);
        let received = Received {
            bytes,
            marker,
            time: self.timeline.at(timestamp),
            after_gap: ready.missing > 0 || self.has_break,
        };
        let mut result = Ok(());
        // A packet without payload keeps ways open (RFC 6263) and carries nothing.
        self.has_break = received.after_gap && bytes.is_empty();
        if !bytes.is_empty() {
            let taken = self.depacketizer.take(&received, &mut |unit, missing| {
                if result.is_ok() {
                    result = self.sink.take(unit, missing);
                }
            });
            self.statistics.malformed_payloads += u64::from(taken.is_err());
        }
        self.memory.release(span);
        result
    }

    /// Takes a datagram of the RTCP port.
    pub fn take_rtcp(&mut self, datagram: &[u8], source: SocketAddr, now_ns: u64) {
        let parsed = ParsedRtcp::read(datagram);
        self.believe(&parsed, source, now_ns);
    }

    /// Only the stream's own host is believed: everybody else could end it, or have our reports
    /// sent elsewhere.
    fn believe(&mut self, parsed: &ParsedRtcp, source: SocketAddr, now_ns: u64) {
        self.statistics.malformed += u64::from(!parsed.is_valid);
        for event in parsed.events.iter().flatten() {
            match *event {
                RtcpEvent::Report { ssrc, ntp } if self.sources.is_stream(ssrc, source.ip()) => {
                    self.feedback.sender_report(ntp, now_ns);
                    self.reporter = Some(source);
                    self.statistics.sender_reports += 1;
                }
                RtcpEvent::Goodbye { ssrc } if self.sources.goodbye(ssrc, source.ip()) => {
                    self.goodbye_ns.get_or_insert(now_ns);
                }
                _ => {}
            }
        }
    }

    /// Emits what has been waited for long enough.
    ///
    /// # Errors
    ///
    /// What the sink says.
    pub fn expire(&mut self, now_ns: u64) -> Result<(), MediaError> {
        while let Some(ready) = self.reorder.pop(now_ns) {
            self.deliver(ready)?;
        }
        Ok(())
    }

    /// When [`Self::expire`] or [`Self::report`] may have something to do; `None`: not before
    /// something comes.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.sources.stream()?;
        let report_ns = self.feedback.next_ns(self.reorder.missing());
        Some(
            self.reorder
                .deadline_ns()
                .unwrap_or(u64::MAX)
                .min(report_ns),
        )
    }

    /// The RTCP packet to be sent now, and where to, if one is.
    ///
    /// # Errors
    ///
    /// [`MediaError::Packet`].
    pub fn report(&mut self, now_ns: u64) -> Result<Option<(&[u8], SocketAddr)>, MediaError> {
        let Some((to, source)) = self.reports_to().zip(self.sources.stream_mut()) else {
            return Ok(None);
        };
        let report = self.feedback.poll(source, self.reorder.missing(), now_ns)?;
        Ok(report.map(|report| (report, to)))
    }

    fn reports_to(&self) -> Option<SocketAddr> {
        let behind_rtp = || {
            let mut address = self.sources.address()?;
            address.set_port(address.port().checked_add(1)?);
            Some(address)
        };
        let settings = self.settings.reports_to;
        settings.or(self.reporter).or_else(behind_rtp)
    }

    /// What it was told.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Since when the sender has left; `None`: it has not.
    #[must_use]
    pub fn goodbye_ns(&self) -> Option<u64> {
        self.goodbye_ns
    }

    /// When the last packet of the stream came.
    #[must_use]
    pub fn last_packet_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// Ends the stream: what is held is emitted, the sink completed. The goodbye to be sent, if one
    /// is, and where to.
    ///
    /// # Errors
    ///
    /// What the sink says, and [`MediaError::Packet`].
    pub fn finish(&mut self, now_ns: u64) -> Result<Option<(&[u8], SocketAddr)>, MediaError> {
        while let Some(ready) = self.reorder.pop_now() {
            self.deliver(ready)?;
        }
        self.forget_suspects();
        self.forget_waiting();
        let mut result = Ok(());
        self.depacketizer.finish(&mut |unit, missing| {
            if result.is_ok() {
                result = self.sink.take(unit, missing);
            }
        });
        result?;
        self.sink.finish()?;
        let to = self.reports_to();
        let goodbye = self.feedback.goodbye(self.sources.stream_mut(), now_ns)?;
        Ok(goodbye.zip(to))
    }

    /// What was counted so far. What only the socket knows is zero.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let (order, sources) = (self.reorder.counts(), self.sources.counts());
        let feedback = self.feedback.counts();
        Statistics {
            lost: order.lost,
            recovered: order.recovered,
            recovered_by_parity: order.by_parity,
            reordered: order.reordered,
            late: order.late + self.resent_late,
            duplicates: order.duplicates,
            largest_gap: order.largest_gap,
            foreign: sources.foreign + self.waiting.foreign(),
            restarts: sources.restarts,
            source_changes: sources.changes,
            collisions: feedback.collisions,
            jitter_ticks: self.sources.stream().map_or(0, Source::jitter),
            reports: feedback.reports,
            requested: feedback.requested,
            ..self.statistics
        }
    }

    /// The last gaps: packets that were not there in time.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        self.reorder.gaps()
    }

    /// The round trip as the answers to requests measured it, in nanoseconds.
    #[must_use]
    pub fn round_trip_ns(&self) -> Option<u64> {
        self.feedback.round_trip_ns()
    }

    /// The sink.
    #[must_use]
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The sink, to be asked for what it holds.
    pub fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }
}

/// Shows a packet to the repair, if there is one; whether it was for it. `late` counts what was
/// sent again and is not waited for any more.
fn show(
    (repair, repaired): (&mut Option<Box<dyn Repair>>, &mut Repaired),
    reorder: &Reorder<Held>,
    late: &mut u64,
    packet: &[u8],
    came: Came,
) -> bool {
    let Some(repair) = repair else {
        return false;
    };
    let given_up = Cell::new(0);
    let is_missing = |sequence| {
        let number = reorder.extend(sequence);
        given_up.set(given_up.get() + u64::from(reorder.was_given_up(number)));
        reorder.is_missing(number) || reorder.is_just_ahead(number)
    };
    let taken = repair.take(packet, came, &is_missing, &mut |packet, origin| {
        // More than is reserved does not come of one batch by honest means.
        if repaired.bytes.len() + packet.len() <= BATCH_BYTES {
            repaired.bytes.extend_from_slice(packet);
            repaired.ends.push((repaired.bytes.len(), origin));
        }
    });
    *late += given_up.get();
    taken
}
