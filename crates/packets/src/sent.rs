//! The packets that a sender has sent and knows nothing of yet: RFC 9002, sections 5 and 6, and
//! appendix A.

use crate::congestion::{Loss, Progress};
use crate::numbers::Range;
use crate::round_trip::RoundTrip;
use crate::settings::PACKETS_MAX;
use crate::spans::{Span, Spans};

/// RFC 9002, section 6.1.1.
const PACKET_THRESHOLD: u64 = 3;

/// A packet, as it is remembered. 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    sent_ns: u64,
    message: u64,
    offset: u32,
    payload_bytes: u16,
    datagram_bytes: u16,
    is_in_flight: bool,
    /// It carries a piece of a message, which no later packet carries, too.
    is_bearer: bool,
}

/// Packets from the oldest in flight to the newest, in a ring by their numbers.
#[derive(Debug)]
pub(crate) struct SentPackets {
    ring: Box<[Sent]>,
    /// The oldest in flight; `next` where none is.
    oldest: u64,
    next: u64,
    largest_acknowledged: Option<u64>,
    newest_sent_ns: u64,
    /// When the next packet is lost by time.
    loss_ns: Option<u64>,
}

impl SentPackets {
    pub(crate) fn new() -> Self {
        Self {
            ring: vec![Sent::default(); PACKETS_MAX as usize].into_boxed_slice(),
            oldest: 0,
            next: 0,
            largest_acknowledged: None,
            newest_sent_ns: 0,
            loss_ns: None,
        }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(crate) fn largest_acknowledged(&self) -> Option<u64> {
        self.largest_acknowledged
    }

    pub(crate) fn is_any_in_flight(&self) -> bool {
        self.oldest < self.next
    }

    pub(crate) fn is_full(&self) -> bool {
        self.next - self.oldest == PACKETS_MAX
    }

    pub(crate) fn newest_sent_ns(&self) -> u64 {
        self.newest_sent_ns
    }

    pub(crate) fn loss_ns(&self) -> Option<u64> {
        self.loss_ns
    }

    /// Notes the packet `next`, with a piece of a message or none.
    pub(crate) fn push(&mut self, now_ns: u64, piece: Option<Span>, datagram_bytes: u16) {
        debug_assert!(!self.is_full());
        // Threads that take turns may each have looked at the clock before they waited for theirs.
        let now_ns = now_ns.max(self.newest_sent_ns);
        let mut sent = Sent {
            sent_ns: now_ns,
            datagram_bytes,
            is_in_flight: true,
            ..Sent::default()
        };
        if let Some(piece) = piece {
            sent.message = piece.message;
            sent.offset = piece.start;
            sent.payload_bytes = (piece.end - piece.start) as u16;
            sent.is_bearer = true;
        }
        *self.at(self.next) = sent;
        self.next += 1;
        self.newest_sent_ns = now_ns;
    }

    /// The largest number that an acknowledgement names.
    pub(crate) fn note_largest(&mut self, largest: u64) {
        self.largest_acknowledged = self.largest_acknowledged.max(Some(largest));
    }

    /// Takes the acknowledged packets of `range` out. When the last of them was sent, if it was in
    /// flight until now.
    pub(crate) fn acknowledge(
        &mut self,
        range: Range,
        in_recovery: impl Fn(u64) -> bool,
        progress: &mut Progress,
    ) -> Option<u64> {
        let mut last_sent_ns = None;
        for number in range.first.max(self.oldest)..=range.last.min(self.next.wrapping_sub(1)) {
            let sent = self.at(number);
            if !sent.is_in_flight {
                continue;
            }
            sent.is_in_flight = false;
            let sent = *sent;
            progress.bytes += u64::from(sent.datagram_bytes);
            if !in_recovery(sent.sent_ns) {
                progress.bytes_since_recovery += u64::from(sent.datagram_bytes);
            }
            if number == range.last {
                last_sent_ns = Some(sent.sent_ns);
            }
        }
        self.advance();
        last_sent_ns
    }

    /// Takes the lost packets out, and adds what they carried of messages from `accepted` on to
    /// `repeat`.
    pub(crate) fn detect_lost(
        &mut self,
        now_ns: u64,
        round_trip: &RoundTrip,
        accepted: u64,
        repeat: &mut Spans,
    ) -> Loss {
        self.loss_ns = None;
        let mut loss = Loss::default();
        let Some(largest) = self.largest_acknowledged else {
            return loss;
        };
        let delay_ns = round_trip.loss_delay_ns();
        let mut period = LostPeriod::new(round_trip);
        for number in self.oldest..=largest {
            let sent = *self.at(number);
            if !sent.is_in_flight {
                period.interrupt();
                continue;
            }
            if largest < number + PACKET_THRESHOLD && now_ns < sent.sent_ns + delay_ns {
                let lost_ns = sent.sent_ns + delay_ns;
                self.loss_ns = Some(self.loss_ns.map_or(lost_ns, |first| first.min(lost_ns)));
                period.interrupt();
                continue;
            }
            self.at(number).is_in_flight = false;
            loss.bytes += u64::from(sent.datagram_bytes);
            loss.newest_sent_ns = loss.newest_sent_ns.max(Some(sent.sent_ns));
            period.add(sent.sent_ns);
            if sent.is_bearer && sent.message >= accepted {
                repeat.insert_or_widen(sent.piece());
            }
        }
        loss.is_persistent = period.is_persistent;
        self.advance();
        loss
    }

    /// Before a probe: what the oldest packets carry is sent again, while they stay in flight
    /// (RFC 9002, section 6.2.4).
    pub(crate) fn repeat_oldest(&mut self, packets: u64, accepted: u64, repeat: &mut Spans) {
        let mut left = packets;
        for number in self.oldest..self.next {
            let sent = self.at(number);
            if left == 0 {
                return;
            }
            if sent.is_in_flight && sent.is_bearer {
                sent.is_bearer = false;
                let sent = *sent;
                if sent.message >= accepted {
                    repeat.insert_or_widen(sent.piece());
                    left -= 1;
                }
            }
        }
    }

    /// Gives up the oldest packet, so that there is a number for a probe.
    pub(crate) fn give_up_oldest(&mut self, accepted: u64, repeat: &mut Spans) -> Loss {
        let oldest = self.oldest;
        let sent = *self.at(oldest);
        self.at(oldest).is_in_flight = false;
        if sent.is_bearer && sent.message >= accepted {
            repeat.insert_or_widen(sent.piece());
        }
        self.advance();
        Loss {
            bytes: u64::from(sent.datagram_bytes),
            newest_sent_ns: Some(sent.sent_ns),
            is_persistent: false,
        }
    }

    fn advance(&mut self) {
        while self.oldest < self.next && !self.at(self.oldest).is_in_flight {
            self.oldest += 1;
        }
    }

    fn at(&mut self, number: u64) -> &mut Sent {
        &mut self.ring[(number % PACKETS_MAX) as usize]
    }
}

impl Sent {
    fn piece(&self) -> Span {
        Span {
            message: self.message,
            start: self.offset,
            end: self.offset + u32::from(self.payload_bytes),
        }
    }
}

/// Looks for persistent congestion: RFC 9002, section 7.6.2.
struct LostPeriod {
    /// Packets before the first sample of the round trip do not count.
    after_ns: Option<u64>,
    longest_ns: u64,
    first_ns: Option<u64>,
    is_persistent: bool,
}

impl LostPeriod {
    fn new(round_trip: &RoundTrip) -> Self {
        Self {
            after_ns: round_trip.first_sample_at_ns(),
            longest_ns: round_trip.persistent_ns(),
            first_ns: None,
            is_persistent: false,
        }
    }

    fn add(&mut self, sent_ns: u64) {
        if self.after_ns.is_some_and(|after_ns| after_ns < sent_ns) {
            let first_ns = *self.first_ns.get_or_insert(sent_ns);
            self.is_persistent |= sent_ns - first_ns > self.longest_ns;
        }
    }

    /// A packet between was not lost.
    fn interrupt(&mut self) {
        self.first_ns = None;
    }
}
