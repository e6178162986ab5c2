//! The sending half of a flow.

use crate::acknowledgement::{self, Read};
use crate::congestion::{Congestion, Loss, Progress};
use crate::fault::{DropReason, Drops, Fault};
use crate::header::{Address, Checksum, HEADER_BYTES, Header, Kind, seal};
use crate::pacing::Pacing;
use crate::round_trip::RoundTrip;
use crate::sent::SentPackets;
use crate::settings::{self, MESSAGES_MAX, Settings};
use crate::spans::{Span, Spans};
use std::ops::Range;

/// Doublings of a probe's time-out, at most: the next one is in time at any round trip.
const BACKOFF_MAX: u32 = 16;
/// Probes that fit in the time after which the peer is unreachable, at least, so that one that
/// comes back before is noticed.
const PROBES_MIN: u64 = 4;

/// A packet that is to leave. Its header is written by [`Transmit::seal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "its number is used up"]
pub struct Transmit {
    /// The message of the payload; of no meaning where there is no payload.
    pub message: u64,
    /// Where the payload begins in the message.
    pub offset: u32,
    /// Bytes of payload.
    pub payload_bytes: u16,
    header: [u8; HEADER_BYTES],
}

impl Transmit {
    /// Where the payload lies in its message.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        let offset = self.offset as usize;
        offset..offset + usize::from(self.payload_bytes)
    }

    /// The header, which travels in front of the payload.
    ///
    /// # Panics
    ///
    /// If the checksum is of another number of bytes.
    #[must_use]
    pub fn seal(mut self, payload: Checksum) -> [u8; HEADER_BYTES] {
        assert_eq!(payload.bytes(), usize::from(self.payload_bytes));
        seal(&mut self.header, payload);
        self.header
    }
}

/// What became of a datagram that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// An acknowledgement; all messages below are accepted, and their slots free.
    Through(u64),
    /// Dropped, and counted.
    Dropped(DropReason),
}

/// How a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Smoothed round trip.
    pub round_trip_ns: u64,
    /// Bytes that may be in flight.
    pub window_bytes: u64,
    /// Bytes that are.
    pub in_flight_bytes: u64,
    /// Packets that were sent.
    pub packets: u64,
    /// Of them, with payload that was sent before.
    pub repeated: u64,
    /// Times that probes were sent, since nothing was acknowledged.
    pub timeouts: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Queued {
    length: u32,
    tag: u8,
    is_end: bool,
}

/// The sending half of a flow.
#[derive(Debug)]
pub struct Sender {
    address: Address,
    settings: Settings,
    payload_bytes_max: u16,
    /// Messages from `accepted` to `pushed`, in a ring by their numbers.
    messages: Box<[Queued]>,
    accepted: u64,
    pushed: u64,
    /// The first byte that was never sent.
    next_message: u64,
    next_offset: u32,
    /// Sum of the lengths of the messages below `accepted`, and below `next_message`.
    accepted_bytes: u64,
    next_bytes: u64,
    /// First message, and sum of lengths, that the receiver has no place for.
    credit_messages: u64,
    credit_bytes: u64,
    is_ended: bool,
    sent: SentPackets,
    repeat: Spans,
    congestion: Congestion,
    round_trip: RoundTrip,
    pacing: Pacing,
    /// The pace permits nothing before.
    paced_until_ns: Option<u64>,
    /// The window is not what limits the flow.
    is_limited: bool,
    /// Packets that may leave beyond window and pace.
    probes: u8,
    timeouts_in_row: u32,
    /// Probes without progress of the receiver while nothing was in flight.
    idle_probes: u32,
    /// When something last came, or there began to be something to wait for.
    heard_ns: u64,
    repeated: u64,
    timeouts: u64,
    drops: Drops,
    fault: Option<Fault>,
}

impl Sender {
    /// # Errors
    ///
    /// [`Fault::Settings`].
    pub fn new(settings: Settings) -> Result<Self, Fault> {
        settings.check()?;
        let datagram_bytes = u64::from(settings::datagram_bytes(settings.mtu_bytes));
        Ok(Self {
            address: Address::new(settings.session, settings.flow),
            settings,
            payload_bytes_max: settings::payload_bytes(settings.mtu_bytes),
            messages: vec![Queued::default(); MESSAGES_MAX as usize].into_boxed_slice(),
            accepted: 0,
            pushed: 0,
            next_message: 0,
            next_offset: 0,
            accepted_bytes: 0,
            next_bytes: 0,
            credit_messages: u64::from(settings.window.messages),
            credit_bytes: u64::from(settings.window.bytes),
            is_ended: false,
            sent: SentPackets::new(),
            repeat: Spans::new(),
            congestion: Congestion::new(datagram_bytes),
            round_trip: RoundTrip::new(settings.initial_rtt_ns),
            pacing: Pacing::new(settings.burst_bytes, datagram_bytes),
            paced_until_ns: None,
            is_limited: true,
            probes: 0,
            timeouts_in_row: 0,
            idle_probes: 0,
            heard_ns: 0,
            repeated: 0,
            timeouts: 0,
            drops: Drops::default(),
            fault: None,
        })
    }

    /// Takes a message into the flow, and says its number: 0, 1, 2 and so on. `tag` is the user's,
    /// and arrives with it. None: [`MESSAGES_MAX`] are not accepted yet.
    ///
    /// # Panics
    ///
    /// If it is longer than agreed, or the flow was ended.
    pub fn push(&mut self, now_ns: u64, length: u32, tag: u8) -> Option<u64> {
        assert!(length <= self.settings.message_bytes_max);
        self.queue(now_ns, length, tag, false)
    }

    /// Ends the flow behind the last message. Like a message it has a number, which is accepted
    /// last, and needs credit. None: as for `push`.
    ///
    /// # Panics
    ///
    /// If the flow was ended.
    pub fn end(&mut self, now_ns: u64) -> Option<u64> {
        self.queue(now_ns, 0, 0, true)
    }

    /// The next packet to leave now, if any.
    pub fn transmit(&mut self, now_ns: u64) -> Option<Transmit> {
        if self.fault.is_some() {
            return None;
        }
        if self.sent.is_full() {
            self.is_limited = true;
            self.paced_until_ns = None;
            return None;
        }
        if let Some(piece) = self.repeat.first() {
            return self.transmit_piece(now_ns, piece, true);
        }
        if let Some(piece) = self.unsent() {
            return self.transmit_piece(now_ns, piece, false);
        }
        // All was sent for which there is credit.
        self.is_limited = self.congestion.in_flight() < self.congestion.window();
        self.paced_until_ns = None;
        if self.probes == 0 {
            return None;
        }
        self.probes -= 1;
        let header = self.header(Kind::Probe, Queued::default(), 0, 0);
        Some(self.note(now_ns, header, None))
    }

    /// A datagram that came back.
    ///
    /// # Errors
    ///
    /// The flow has ended, now or before.
    pub fn acknowledged(&mut self, now_ns: u64, datagram: &[u8]) -> Result<Acknowledged, Fault> {
        self.fault.map_or(Ok(()), Err)?;
        let read = match acknowledgement::read(&self.address, datagram) {
            Ok(read) => read,
            Err(reason) => {
                self.drops.add(reason);
                return Ok(Acknowledged::Dropped(reason));
            }
        };
        match self.take_acknowledgement(now_ns, &read) {
            Ok(()) => Ok(Acknowledged::Through(self.accepted)),
            Err(fault) => Err(*self.fault.insert(fault)),
        }
    }

    /// Runs the timers that are due.
    ///
    /// # Errors
    ///
    /// The flow has ended, now or before.
    pub fn expire(&mut self, now_ns: u64) -> Result<(), Fault> {
        self.fault.map_or(Ok(()), Err)?;
        // Nobody can answer what was never sent.
        if !self.is_waiting() || self.sent.next() == 0 {
            return Ok(());
        }
        let silent_ns = now_ns.saturating_sub(self.heard_ns);
        if silent_ns >= self.settings.unreachable_ns {
            return Err(*self.fault.insert(Fault::Unreachable { silent_ns }));
        }
        if self.sent.loss_ns().is_some_and(|loss_ns| loss_ns <= now_ns) {
            let loss = self.detect_lost(now_ns);
            self.on_congestion(now_ns, Progress::default(), loss);
        } else if self.sent.loss_ns().is_none() && self.probe_ns() <= now_ns {
            self.probe(now_ns);
        }
        Ok(())
    }

    /// Is there something to send that waits for window, pace or credit?
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.fault.is_none() && (self.next_message < self.pushed || self.repeat.first().is_some())
    }

    /// When to call `expire` and `transmit` again, if nothing comes before. None: nothing is
    /// waited for.
    #[must_use]
    pub fn next_wake(&self) -> Option<u64> {
        if self.fault.is_some() || !self.is_waiting() {
            return None;
        }
        if self.sent.next() == 0 {
            return self.paced_until_ns;
        }
        let timer_ns = self.sent.loss_ns().unwrap_or_else(|| self.probe_ns());
        let unreachable_ns = self.heard_ns.saturating_add(self.settings.unreachable_ns);
        let paced_ns = self.paced_until_ns.unwrap_or(u64::MAX);
        Some(timer_ns.min(unreachable_ns).min(paced_ns))
    }

    /// All messages below are accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The MTU of the path is another now.
    ///
    /// # Errors
    ///
    /// [`Fault::Settings`]; the flow goes on with the MTU before.
    pub fn set_mtu(&mut self, mtu_bytes: u16) -> Result<(), Fault> {
        if !settings::is_mtu(mtu_bytes) {
            return Err(Fault::Settings { field: "mtu_bytes" });
        }
        let datagram_bytes = u64::from(settings::datagram_bytes(mtu_bytes));
        self.payload_bytes_max = settings::payload_bytes(mtu_bytes);
        self.congestion.set_max_datagram_bytes(datagram_bytes);
        self.pacing.set_datagram_bytes(datagram_bytes);
        Ok(())
    }

    /// Datagrams that were dropped.
    #[must_use]
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// How the flow does.
    #[must_use]
    pub fn state(&self) -> State {
        State {
            round_trip_ns: self.round_trip.smoothed_ns(),
            window_bytes: self.congestion.window(),
            in_flight_bytes: self.congestion.in_flight(),
            packets: self.sent.next(),
            repeated: self.repeated,
            timeouts: self.timeouts,
        }
    }

    fn queue(&mut self, now_ns: u64, length: u32, tag: u8, is_end: bool) -> Option<u64> {
        assert!(!self.is_ended, "nothing follows the end of a flow");
        if self.pushed - self.accepted == u64::from(MESSAGES_MAX) {
            return None;
        }
        if !self.is_waiting() {
            self.heard_ns = now_ns;
            self.idle_probes = 0;
        }
        self.is_ended = is_end;
        let number = self.pushed;
        self.messages[slot(number)] = Queued {
            length,
            tag,
            is_end,
        };
        self.pushed += 1;
        Some(number)
    }

    fn is_waiting(&self) -> bool {
        self.accepted < self.pushed || self.sent.is_any_in_flight()
    }

    /// The next piece that was never sent, within the credit; as long as its message, or packets,
    /// permit.
    fn unsent(&self) -> Option<Span> {
        if self.next_message == self.pushed || self.next_message >= self.credit_messages {
            return None;
        }
        let length = self.messages[slot(self.next_message)].length;
        (self.next_bytes + u64::from(length) <= self.credit_bytes).then_some(Span {
            message: self.next_message,
            start: self.next_offset,
            end: length,
        })
    }

    fn transmit_piece(&mut self, now_ns: u64, piece: Span, is_repeated: bool) -> Option<Transmit> {
        let bytes_max = u32::from(self.payload_bytes_max);
        let end = piece.end.min(piece.start + bytes_max);
        let piece = Span { end, ..piece };
        let payload_bytes = (end - piece.start) as u16;
        self.permit(now_ns, u64::from(payload_bytes) + HEADER_BYTES as u64)?;
        let queued = self.messages[slot(piece.message)];
        if is_repeated {
            self.repeat.take_first(bytes_max);
            self.repeated += 1;
        } else if end == queued.length {
            self.next_message += 1;
            self.next_offset = 0;
            self.next_bytes += u64::from(queued.length);
        } else {
            self.next_offset = end;
        }
        let kind = if queued.is_end {
            Kind::End
        } else {
            Kind::Message
        };
        let mut header = self.header(kind, queued, piece.start, payload_bytes);
        header.message = piece.message;
        Some(self.note(now_ns, header, Some(piece)))
    }

    /// May `bytes` leave now?
    fn permit(&mut self, now_ns: u64, bytes: u64) -> Option<()> {
        self.paced_until_ns = None;
        if self.probes > 0 {
            self.probes -= 1;
            return Some(());
        }
        self.is_limited = false;
        let window = self.congestion.window();
        let in_flight = self.congestion.in_flight();
        if in_flight + bytes > window {
            return None;
        }
        // Of packets, some may have come already.
        let packets = self.sent.next() - self.sent.oldest() + 1;
        let reckoned = in_flight + bytes + packets * settings::BUFFER_OVERHEAD_BYTES;
        if in_flight > 0 && reckoned > u64::from(self.settings.buffer_bytes) {
            self.is_limited = true;
            return None;
        }
        let round_trip_ns = self.round_trip.smoothed_ns();
        match self.pacing.allow(now_ns, bytes, window, round_trip_ns) {
            Ok(()) => Some(()),
            Err(until_ns) => {
                // The pace holds up what the window permits, so the window would be used (RFC 9002,
                // section 7.8); but not how much of it beyond twice of what is in flight.
                self.is_limited = window >= 2 * (in_flight + bytes);
                self.paced_until_ns = Some(until_ns);
                None
            }
        }
    }

    fn header(&self, kind: Kind, queued: Queued, offset: u32, bytes: u16) -> Header {
        let number = self.sent.next();
        Header {
            number,
            kind,
            tag: queued.tag,
            bytes,
            offset,
            message: 0,
            length: queued.length,
            // Less than PACKETS_MAX.
            waiting: (number - self.sent.oldest()) as u32,
        }
    }

    fn note(&mut self, now_ns: u64, header: Header, piece: Option<Span>) -> Transmit {
        let datagram_bytes = header.bytes + HEADER_BYTES as u16;
        if self.sent.next() == 0 {
            self.heard_ns = now_ns;
        }
        self.sent.push(now_ns, piece, datagram_bytes);
        self.congestion.on_packet_sent(u64::from(datagram_bytes));
        self.pacing.on_packet_sent(u64::from(datagram_bytes));
        Transmit {
            message: header.message,
            offset: header.offset,
            payload_bytes: header.bytes,
            header: self.address.write(&header),
        }
    }

    fn take_acknowledgement(&mut self, now_ns: u64, read: &Read<'_>) -> Result<(), Fault> {
        if read.largest >= self.sent.next() {
            return Err(Fault::NeverSent {
                number: read.largest,
            });
        }
        let before = self.sent.largest_acknowledged();
        let is_progress = self.take_acceptance(read, before)?;
        self.repeat.remove_below(self.accepted);
        self.sent.note_largest(read.largest);
        let (mut progress, mut largest_sent_ns) = (Progress::default(), None);
        let (sent, congestion) = (&mut self.sent, &self.congestion);
        read.each_range(|range| {
            let in_recovery = |sent_ns| congestion.in_recovery(sent_ns);
            let last_sent_ns = sent.acknowledge(range, in_recovery, &mut progress);
            if range.last == read.largest {
                largest_sent_ns = last_sent_ns;
            }
        })?;
        // One that came before, or that says nothing new, may be a replay: no sign of the peer.
        if progress.bytes > 0 || is_progress {
            self.heard_ns = now_ns;
        }
        if progress.bytes == 0 {
            return Ok(());
        }
        self.timeouts_in_row = 0;
        if let Some(sent_ns) = largest_sent_ns {
            let sample_ns = now_ns.saturating_sub(sent_ns);
            let delay_ns = read.acknowledgement.delay_ns;
            self.round_trip.sample(now_ns, sample_ns, delay_ns);
        }
        let loss = self.detect_lost(now_ns);
        self.on_congestion(now_ns, progress, loss);
        Ok(())
    }

    /// Accepted messages and credit. True where there are more than before.
    fn take_acceptance(&mut self, read: &Read<'_>, before: Option<u64>) -> Result<bool, Fault> {
        let given = &read.acknowledgement;
        if given.accepted > self.next_message {
            let accepted = given.accepted;
            return Err(Fault::NeverWhole { accepted });
        }
        // None of the messages below was overwritten, unless they were accepted before.
        let newly = self.accepted..given.accepted;
        let newly_bytes: u64 = newly
            .map(|number| u64::from(self.messages[slot(number)].length))
            .sum();
        let messages = given.accepted + u64::from(given.credit.messages);
        let bytes = self.accepted_bytes + newly_bytes + u64::from(given.credit.bytes);
        let is_less = given.accepted < self.accepted
            || messages < self.credit_messages
            || bytes < self.credit_bytes;
        if is_less && before.is_some_and(|largest| largest < read.largest) {
            return Err(Fault::Withdrawn {
                number: read.largest,
            });
        }
        // Overtaken on its way: its ranges count still.
        if is_less {
            return Ok(false);
        }
        let is_more = given.accepted > self.accepted
            || messages > self.credit_messages
            || bytes > self.credit_bytes;
        self.accepted = given.accepted;
        self.accepted_bytes += newly_bytes;
        self.credit_messages = messages;
        self.credit_bytes = bytes;
        if is_more {
            self.idle_probes = 0;
        }
        Ok(is_more)
    }

    fn detect_lost(&mut self, now_ns: u64) -> Loss {
        let (round_trip, repeat) = (&self.round_trip, &mut self.repeat);
        let loss = self
            .sent
            .detect_lost(now_ns, round_trip, self.accepted, repeat);
        if loss.is_persistent {
            self.round_trip.forget_least();
        }
        loss
    }

    fn on_congestion(&mut self, now_ns: u64, progress: Progress, loss: Loss) {
        let is_limited = self.is_limited;
        if self
            .congestion
            .on_acknowledgement(now_ns, progress, loss, is_limited)
        {
            self.probes = self.probes.max(1);
        }
    }

    /// When the next probe is due: RFC 9002, section 6.2, doubled each time.
    fn probe_ns(&self) -> u64 {
        let (since_ns, doublings) = if self.sent.is_any_in_flight() {
            (self.sent.newest_sent_ns(), self.timeouts_in_row)
        } else {
            (
                self.sent.newest_sent_ns().max(self.heard_ns),
                self.idle_probes,
            )
        };
        let timeout_ns = self.round_trip.probe_timeout_ns() << doublings.min(BACKOFF_MAX);
        since_ns + timeout_ns.min((self.settings.unreachable_ns / PROBES_MIN).max(1))
    }

    /// Two packets leave now, with what the oldest in flight carry, or with nothing.
    fn probe(&mut self, now_ns: u64) {
        if self.sent.is_any_in_flight() {
            self.timeouts_in_row += 1;
            self.timeouts += 1;
            if self.sent.is_full() {
                let loss = self.sent.give_up_oldest(self.accepted, &mut self.repeat);
                self.on_congestion(now_ns, Progress::default(), loss);
            }
            self.sent.repeat_oldest(2, self.accepted, &mut self.repeat);
            self.probes = 2;
        } else {
            self.idle_probes += 1;
            self.probes = self.probes.max(1);
        }
    }
}

fn slot(message: u64) -> usize {
    (message % u64::from(MESSAGES_MAX)) as usize
}
