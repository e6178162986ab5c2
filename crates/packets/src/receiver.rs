//! The receiving half of a flow.

use crate::acknowledgement::{self, ACKNOWLEDGEMENT_BYTES_MAX, Acknowledgement};
use crate::fault::{DropReason, Drops, Fault};
use crate::header::{Address, Checksum, HEADER_BYTES, Header, Kind};
use crate::numbers::Numbers;
use crate::round_trip::ACKNOWLEDGEMENT_DELAY_NS;
use crate::settings::{self, MESSAGES_MAX, SPANS_MAX, Settings, Window};
use crate::spans::{Span, Spans};
use std::ops::Range;

/// An acknowledgement is due at once after packets of as many bytes as so many of the largest (RFC
/// 9000, section 13.2.2, and as TCP reckons: RFC 9293, section 3.8.6.3), or after so many packets.
const LARGEST_UNANSWERED_MAX: u64 = 2;
const PACKETS_UNANSWERED_MAX: u32 = 16;
/// Numbers of packets: a flow of 100 million a second ends after a thousand years.
const NUMBER_MAX: u64 = 1 << 62;

/// What a datagram is.
#[derive(Debug)]
pub enum Arrival<'a> {
    /// Payload to copy: where to.
    Place(Place<'a>),
    /// A new packet with nothing to copy: without payload, or all of it came before.
    Taken,
    /// Dropped, and counted.
    Dropped(DropReason),
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A message, with its length and the sender's tag.
    Message {
        /// Bytes.
        length: u32,
        /// As the sender gave it.
        tag: u8,
    },
    /// The end of the flow.
    End,
}

/// A message that is whole, and whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number.
    pub number: u64,
    /// What it is.
    pub content: Content,
}

/// Where the payload of a packet belongs. Dropped without [`Place::done`], the packet counts as
/// lost, and its payload is sent again.
#[derive(Debug)]
#[must_use = "the packet is acknowledged by `done` alone"]
pub struct Place<'a> {
    receiver: &'a mut Receiver,
    header: Header,
    now_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Unknown,
    Partly,
    Whole,
}

/// A message, as it is remembered until it is accepted. 12 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    length: u32,
    received: u32,
    tag: u8,
    is_end: bool,
    progress: Progress,
}

/// The receiving half of a flow.
#[derive(Debug)]
pub struct Receiver {
    address: Address,
    settings: Settings,
    window: Window,
    numbers: Numbers,
    /// Messages from `accepted` on, in a ring by their numbers.
    entries: Box<[Entry]>,
    spans: Spans,
    /// Messages below: accepted by the user; given to the user; whole.
    accepted: u64,
    given: u64,
    whole: u64,
    /// One more than the last message of which anything is known.
    known: u64,
    /// The message that is the end.
    end: Option<u64>,
    /// Lengths of the messages below `accepted`, and of the others that are known.
    accepted_bytes: u64,
    open_bytes: u64,
    credit_messages: u64,
    credit_bytes: u64,
    /// Packets, and accepted messages and bytes, since the last acknowledgement.
    unanswered: u32,
    unanswered_bytes: u64,
    acknowledged_accepted: u64,
    acknowledged_bytes: u64,
    /// When the next acknowledgement is due.
    due_ns: Option<u64>,
    largest_came_ns: u64,
    heard_ns: u64,
    /// Bytes that came less bytes that were answered.
    answerable_bytes: u64,
    drops: Drops,
    fault: Option<Fault>,
}

impl Place<'_> {
    /// The message.
    #[must_use]
    pub fn message(&self) -> u64 {
        self.header.message
    }

    /// Bytes of the whole message.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.header.length
    }

    /// The sender's tag of the message.
    #[must_use]
    pub fn tag(&self) -> u8 {
        self.header.tag
    }

    /// Where the payload lies in the message. Parts of it may be there already; they may be
    /// written again.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        let offset = self.header.offset as usize;
        offset..offset + usize::from(self.header.bytes)
    }

    /// The payload is where it belongs.
    pub fn done(self) {
        self.receiver.place(self.now_ns, &self.header);
    }
}

impl Receiver {
    /// # Errors
    ///
    /// [`Fault::Settings`].
    pub fn new(settings: Settings) -> Result<Self, Fault> {
        settings.check()?;
        Ok(Self {
            address: Address::new(settings.session, settings.flow),
            settings,
            window: settings.window,
            numbers: Numbers::new(),
            entries: vec![Entry::default(); MESSAGES_MAX as usize].into_boxed_slice(),
            spans: Spans::new(),
            accepted: 0,
            given: 0,
            whole: 0,
            known: 0,
            end: None,
            accepted_bytes: 0,
            open_bytes: 0,
            credit_messages: u64::from(settings.window.messages),
            credit_bytes: u64::from(settings.window.bytes),
            unanswered: 0,
            unanswered_bytes: 0,
            acknowledged_accepted: 0,
            acknowledged_bytes: 0,
            due_ns: None,
            largest_came_ns: 0,
            heard_ns: 0,
            answerable_bytes: 0,
            drops: Drops::default(),
            fault: None,
        })
    }

    /// A datagram: its header, and the checksum of all that is behind.
    ///
    /// # Errors
    ///
    /// The flow has ended, now or before.
    pub fn receive(
        &mut self,
        now_ns: u64,
        header: &[u8; HEADER_BYTES],
        payload: Checksum,
    ) -> Result<Arrival<'_>, Fault> {
        self.fault.map_or(Ok(()), Err)?;
        let header = match self.address.read(header, payload) {
            Ok(header) => header,
            Err(reason) => return Ok(self.dropped(reason)),
        };
        if header.kind == Kind::Acknowledgement {
            return Ok(self.dropped(DropReason::Kind));
        }
        if header.number < self.numbers.floor() {
            return Ok(self.dropped(DropReason::Late));
        }
        if self.numbers.contains(header.number) {
            return Ok(self.dropped(DropReason::Duplicate));
        }
        let needed = self.check(&header);
        if needed.is_ok() {
            self.heard_ns = now_ns;
        }
        match needed {
            Err(fault) => Err(*self.fault.insert(fault)),
            Ok(Needed::Nothing) => {
                self.note(now_ns, &header);
                Ok(Arrival::Taken)
            }
            Ok(Needed::Entry) => {
                self.place(now_ns, &header);
                Ok(Arrival::Taken)
            }
            Ok(Needed::Memory) => Ok(self.dropped(DropReason::Gaps)),
            Ok(Needed::Payload) => Ok(Arrival::Place(Place {
                receiver: self,
                header,
                now_ns,
            })),
        }
    }

    /// A datagram that is shorter than a header: counts it.
    pub fn too_short(&mut self) {
        self.drops.add(DropReason::Length);
    }

    /// The next message, in order, once it is whole.
    pub fn next_message(&mut self) -> Option<Message> {
        if self.given == self.whole {
            return None;
        }
        let number = self.given;
        let entry = self.entries[slot(number)];
        self.given += 1;
        let (length, tag) = (entry.length, entry.tag);
        let content = match entry.is_end {
            true => Content::End,
            false => Content::Message { length, tag },
        };
        Some(Message { number, content })
    }

    /// All messages below `through` were taken over: there is credit for as many more, and the
    /// sender may free their slots.
    ///
    /// # Panics
    ///
    /// If one of them was not given by [`Receiver::next_message`].
    pub fn accept(&mut self, now_ns: u64, through: u64) {
        assert!(through <= self.given, "accepted before it was given");
        while self.accepted < through {
            let entry = &mut self.entries[slot(self.accepted)];
            self.accepted_bytes += u64::from(entry.length);
            self.open_bytes -= u64::from(entry.length);
            *entry = Entry::default();
            self.accepted += 1;
        }
        self.extend_credit();
        let messages = self.accepted - self.acknowledged_accepted;
        let bytes = self.accepted_bytes - self.acknowledged_bytes;
        if messages == 0 {
            return;
        }
        // Of short messages there are many: an acknowledgement costs as much as one of them. Bytes
        // are slots that the sender waits for.
        let is_much = messages * 2 >= u64::from(self.window.messages)
            || bytes * 4 >= u64::from(self.window.bytes)
            || self.end.is_some_and(|end| end < self.accepted);
        let delay_ns = if is_much { 0 } else { ACKNOWLEDGEMENT_DELAY_NS };
        self.make_due(now_ns + delay_ns);
    }

    /// The credit is another from now on. What was granted before stays granted.
    ///
    /// # Errors
    ///
    /// [`Fault::Settings`] names what is out of its bounds; nothing changes.
    pub fn set_window(&mut self, now_ns: u64, window: Window) -> Result<(), Fault> {
        let settings = Settings {
            window,
            ..self.settings
        };
        settings.check()?;
        self.window = window;
        if self.extend_credit() {
            self.make_due(now_ns);
        }
        Ok(())
    }

    /// Writes the acknowledgement that is due, if one is; how many bytes of `out` it has.
    pub fn acknowledge(
        &mut self,
        now_ns: u64,
        out: &mut [u8; ACKNOWLEDGEMENT_BYTES_MAX],
    ) -> Option<usize> {
        if self.fault.is_some() || self.due_ns.is_none_or(|due_ns| now_ns < due_ns) {
            return None;
        }
        // What cannot be answered now is with the next packet: the sender probes.
        self.due_ns = None;
        if self.answerable_bytes < HEADER_BYTES as u64 || self.numbers.ranges().is_empty() {
            return None;
        }
        let acknowledgement = Acknowledgement {
            delay_ns: now_ns.saturating_sub(self.largest_came_ns),
            accepted: self.accepted,
            credit: Window {
                // Not more than the windows, which have 32 bits.
                messages: (self.credit_messages - self.accepted) as u32,
                bytes: (self.credit_bytes - self.accepted_bytes) as u32,
            },
        };
        let ranges = self.numbers.ranges();
        let bytes_max = self.answerable_bytes;
        let bytes = acknowledgement::write(&self.address, &acknowledgement, ranges, bytes_max, out);
        self.answerable_bytes -= bytes as u64;
        self.unanswered = 0;
        self.unanswered_bytes = 0;
        self.acknowledged_accepted = self.accepted;
        self.acknowledged_bytes = self.accepted_bytes;
        Some(bytes)
    }

    /// Is the sender of a message that has begun still there?
    ///
    /// # Errors
    ///
    /// The flow has ended, now or before.
    pub fn expire(&mut self, now_ns: u64) -> Result<(), Fault> {
        self.fault.map_or(Ok(()), Err)?;
        let silent_ns = now_ns.saturating_sub(self.heard_ns);
        if self.is_waiting() && silent_ns >= self.settings.unreachable_ns {
            return Err(*self.fault.insert(Fault::Unreachable { silent_ns }));
        }
        Ok(())
    }

    /// When to call `acknowledge` and `expire` again, if nothing comes before.
    #[must_use]
    pub fn next_wake(&self) -> Option<u64> {
        if self.fault.is_some() {
            return None;
        }
        let unreachable_ns = self.heard_ns.saturating_add(self.settings.unreachable_ns);
        let expires_ns = self.is_waiting().then_some(unreachable_ns);
        [self.due_ns, expires_ns].into_iter().flatten().min()
    }

    /// Datagrams that were dropped.
    #[must_use]
    pub fn drops(&self) -> Drops {
        self.drops
    }

    fn is_waiting(&self) -> bool {
        self.whole < self.known
    }

    fn dropped(&mut self, reason: DropReason) -> Arrival<'static> {
        self.drops.add(reason);
        Arrival::Dropped(reason)
    }

    /// What is needed for a packet that has not come before.
    fn check(&self, header: &Header) -> Result<Needed, Fault> {
        let (number, message, length) = (header.number, header.message, header.length);
        let malformed = Err(Fault::Malformed { number });
        if number >= NUMBER_MAX || u64::from(header.waiting) > number {
            return malformed;
        }
        let end = u64::from(header.offset) + u64::from(header.bytes);
        let is_empty = length == 0 && header.offset == 0 && header.bytes == 0;
        match header.kind {
            Kind::Probe if is_empty => return Ok(Needed::Nothing),
            Kind::End if is_empty => (),
            Kind::Message if is_empty || header.bytes > 0 && end <= u64::from(length) => (),
            _ => return malformed,
        }
        if length > self.settings.message_bytes_max {
            return Err(Fault::TooLong { message, length });
        }
        if message < self.accepted {
            return Ok(Needed::Nothing);
        }
        if message >= self.credit_messages {
            return Err(Fault::BeyondCredit { message });
        }
        let is_end = header.kind == Kind::End;
        let is_behind = self.end.is_some_and(|end| end < message);
        if is_behind || is_end && message + 1 < self.known {
            return Err(Fault::BehindEnd { message });
        }
        let entry = self.entries[slot(message)];
        if entry.progress == Progress::Unknown {
            let granted = self.credit_bytes - self.accepted_bytes;
            if self.open_bytes + u64::from(length) > granted {
                return Err(Fault::BeyondCredit { message });
            }
        } else if (entry.length, entry.tag, entry.is_end) != (length, header.tag, is_end) {
            return Err(Fault::Changed { message });
        }
        Ok(self.needed(header, entry))
    }

    fn needed(&self, header: &Header, entry: Entry) -> Needed {
        let bytes = u32::from(header.bytes);
        if entry.progress == Progress::Whole {
            return Needed::Nothing;
        }
        if bytes == header.length {
            return if bytes == 0 {
                Needed::Entry
            } else {
                Needed::Payload
            };
        }
        // One more is kept for the beginning of the oldest message, whose other pieces touch it:
        // so its turn comes, whatever the younger ones take.
        let is_oldest = header.message == self.whole && header.offset == 0;
        let pieces_max = SPANS_MAX + usize::from(is_oldest);
        match self.spans.overlap(span(header), pieces_max) {
            Some(there) if there == bytes => Needed::Nothing,
            Some(_) => Needed::Payload,
            None => Needed::Memory,
        }
    }

    /// The payload of a packet is where it belongs.
    fn place(&mut self, now_ns: u64, header: &Header) {
        let entry = &mut self.entries[slot(header.message)];
        if entry.progress == Progress::Unknown {
            *entry = Entry {
                length: header.length,
                received: 0,
                tag: header.tag,
                is_end: header.kind == Kind::End,
                progress: Progress::Partly,
            };
            self.open_bytes += u64::from(header.length);
            self.known = self.known.max(header.message + 1);
            if entry.is_end {
                self.end = Some(header.message);
            }
        }
        let bytes = u32::from(header.bytes);
        if bytes == header.length {
            entry.received = bytes;
        } else {
            let there = self.spans.overlap(span(header), SPANS_MAX + 1);
            let there = there.expect("a place, since `check` found one");
            self.spans.insert(span(header));
            entry.received += bytes - there;
        }
        if entry.received == entry.length {
            entry.progress = Progress::Whole;
            self.spans.remove(header.message);
        }
        while self.entries[slot(self.whole)].progress == Progress::Whole && self.whole < self.known
        {
            self.whole += 1;
        }
        self.note(now_ns, header);
    }

    /// A packet is new and all of it was taken: it is to be acknowledged.
    fn note(&mut self, now_ns: u64, header: &Header) {
        let expected = self.numbers.largest().map_or(0, |largest| largest + 1);
        self.numbers.insert(header.number);
        let floor = header.number - u64::from(header.waiting);
        self.numbers.raise_floor(floor);
        if header.number >= expected {
            self.largest_came_ns = now_ns;
        }
        let datagram_bytes = HEADER_BYTES as u64 + u64::from(header.bytes);
        self.answerable_bytes += datagram_bytes;
        self.unanswered_bytes += datagram_bytes;
        self.unanswered += 1;
        let largest = u64::from(settings::datagram_bytes(self.settings.mtu_bytes));
        let is_urgent = header.number != expected
            || header.kind == Kind::Probe
            || self.unanswered_bytes >= LARGEST_UNANSWERED_MAX * largest
            || self.unanswered >= PACKETS_UNANSWERED_MAX;
        let delay_ns = if is_urgent {
            0
        } else {
            ACKNOWLEDGEMENT_DELAY_NS
        };
        self.make_due(now_ns + delay_ns);
    }

    fn make_due(&mut self, at_ns: u64) {
        self.due_ns = Some(self.due_ns.map_or(at_ns, |due_ns| due_ns.min(at_ns)));
    }

    /// True where there is more credit than before.
    fn extend_credit(&mut self) -> bool {
        let messages = self.accepted + u64::from(self.window.messages);
        let bytes = self.accepted_bytes + u64::from(self.window.bytes);
        let is_more = messages > self.credit_messages || bytes > self.credit_bytes;
        self.credit_messages = self.credit_messages.max(messages);
        self.credit_bytes = self.credit_bytes.max(bytes);
        is_more
    }
}

/// What has to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    /// It has nothing new.
    Nothing,
    /// A note that the message exists.
    Entry,
    /// A copy of its payload.
    Payload,
    /// A place for one more piece, and there is none.
    Memory,
}

fn slot(message: u64) -> usize {
    (message % u64::from(MESSAGES_MAX)) as usize
}

fn span(header: &Header) -> Span {
    Span {
        message: header.message,
        start: header.offset,
        end: header.offset + u32::from(header.bytes),
    }
}
