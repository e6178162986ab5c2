//! RTCP of a sender: the same report to every destination, each at its turn.

use hythe_rtp::Identity;
use hythe_rtp::rtcp::{Counts, REPORT_INTERVAL_NS, Reports};

use crate::MediaError;
use crate::instant::unix_ns;
use crate::wire::destinations::{DestinationId, Destinations};

/// Newcomers that get their first report in front of one group, at most: together they hold it up
/// for less than a millisecond.
const GREETED_AT_ONCE: usize = 64;

/// A packet that left, or is the next one, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) timestamp: u32,
    pub(super) sent_ns: u64,
}

/// Reports of one stream.
#[derive(Debug)]
pub(super) struct Reporting {
    reports: Reports,
    reference: Option<Reference>,
    /// Both wrap by design (RFC 3550, section 6.4.1).
    packets: u32,
    payload_bytes: u32,
    next_ns: u64,
    /// Who had the last report.
    last: Option<DestinationId>,
    /// Whoever was added later has had none yet.
    greeted: Option<DestinationId>,
}

impl Reporting {
    pub(super) fn new(identity: &Identity) -> Result<Self, MediaError> {
        Ok(Self {
            reports: Reports::new(identity)?,
            reference: None,
            packets: 0,
            payload_bytes: 0,
            next_ns: 0,
            last: None,
            greeted: None,
        })
    }

    /// Has somebody had no report yet?
    pub(super) fn has_newcomers(&self, destinations: &Destinations) -> bool {
        newcomer(self.greeted, destinations).is_some()
    }

    /// Sends a report to those who have had none. Before any packet has left, the `next` one tells
    /// the time. A player shows media by the sender's clock as soon as it knows that: VLC, when it
    /// learns it behind the first packets, throws away all that it gets until the next key frame.
    /// That this report counts no packets yet is new to no player: ffmpeg sends such a one, too.
    pub(super) fn greet(
        &mut self,
        next: Reference,
        now_ns: u64,
        clock_hz: u32,
        destinations: &mut Destinations,
    ) -> Result<(), MediaError> {
        let counts = self.counts(self.reference.unwrap_or(next), now_ns, clock_hz);
        for _ in 0..GREETED_AT_ONCE {
            let Some(id) = newcomer(self.greeted, destinations) else {
                break;
            };
            self.report_to(id, counts, destinations)?;
            self.greeted = Some(id);
            self.rest(now_ns, destinations);
        }
        Ok(())
    }

    /// Packets left, of which `first` is the first, at `now_ns`; or will then.
    pub(super) fn sent(&mut self, first: &[u8], now_ns: u64, packets: usize, payload_bytes: u64) {
        self.packets = self.packets.wrapping_add(packets as u32);
        self.payload_bytes = self.payload_bytes.wrapping_add(payload_bytes as u32);
        if let Some(timestamp) = first.get(4..).and_then(|rest| rest.first_chunk()) {
            self.reference = Some(Reference {
                timestamp: u32::from_be_bytes(*timestamp),
                sent_ns: now_ns,
            });
        }
    }

    /// Sends a report to the destination whose turn it is, if it is time; whether one was sent.
    /// Turns are spread over the interval, so that a thousand reports never stand between two
    /// packets.
    pub(super) fn report_one(
        &mut self,
        now_ns: u64,
        clock_hz: u32,
        destinations: &mut Destinations,
    ) -> Result<bool, MediaError> {
        let Some(reference) = self.reference.filter(|_| now_ns >= self.next_ns) else {
            return Ok(false);
        };
        let Some(id) = following(self.last, destinations) else {
            return Ok(false);
        };
        let counts = self.counts(reference, now_ns, clock_hz);
        self.report_to(id, counts, destinations)?;
        self.rest(now_ns, destinations);
        Ok(true)
    }

    /// Tells every destination that the stream has ended.
    pub(super) fn goodbye(
        &mut self,
        now_ns: u64,
        clock_hz: u32,
        destinations: &mut Destinations,
    ) -> Result<(), MediaError> {
        // Who never sent has nothing to say goodbye to.
        let Some(reference) = self.reference else {
            return Ok(());
        };
        let counts = self.counts(reference, now_ns, clock_hz);
        let packet = self.reports.goodbye(counts)?;
        destinations.for_each(|destination| {
            destination.send_report(packet);
        });
        Ok(())
    }

    fn report_to(
        &mut self,
        id: DestinationId,
        counts: Counts,
        destinations: &mut Destinations,
    ) -> Result<(), MediaError> {
        let report = self.reports.report(counts)?;
        if let Some(destination) = destinations.by_id(id) {
            destination.send_report(report);
        }
        self.last = Some(id);
        Ok(())
    }

    /// Until the next one's turn.
    fn rest(&mut self, now_ns: u64, destinations: &Destinations) {
        self.next_ns = now_ns + REPORT_INTERVAL_NS / destinations.len().max(1) as u64;
    }

    /// The timestamp of a report is that of the media at this instant: counted on from the last
    /// packet, or back from one that will leave.
    fn counts(&self, reference: Reference, now_ns: u64, clock_hz: u32) -> Counts {
        let elapsed = i128::from(now_ns) - i128::from(reference.sent_ns);
        let ticks = elapsed * i128::from(clock_hz) / 1_000_000_000;
        Counts {
            unix_ns: unix_ns(),
            timestamp: reference.timestamp.wrapping_add(ticks as u32),
            packets: self.packets,
            bytes: self.payload_bytes,
        }
    }
}

/// The first that was added behind `greeted`.
fn newcomer(greeted: Option<DestinationId>, destinations: &Destinations) -> Option<DestinationId> {
    let mut ids = destinations.iter().map(|(id, _)| id);
    ids.find(|id| greeted.is_none_or(|greeted| *id > greeted))
}

/// The destination behind `last`, or the first.
fn following(last: Option<DestinationId>, destinations: &Destinations) -> Option<DestinationId> {
    let mut ids = destinations.iter().map(|(id, _)| id);
    let first = ids.next();
    match last {
        Some(last) => destinations
            .iter()
            .map(|(id, _)| id)
            .find(|id| *id > last)
            .or(first),
        None => first,
    }
}
