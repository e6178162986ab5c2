//! RTCP of a sender: the same report to every destination, each at its turn.

use crate::MediaError;
use crate::instant::unix_ns;
use crate::rtcp::{Counts, REPORT_INTERVAL_NS, Reports};
use crate::rtp::Identity;
use crate::wire::destinations::{DestinationId, Destinations};

/// A packet that left, and when.
#[derive(Clone, Copy, Debug)]
struct Reference {
    timestamp: u32,
    sent_ns: u64,
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
        })
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

    /// Sends a report to the destination whose turn it is, if it is time; whether one was sent. Turns are spread over the interval,
    /// so that a thousand reports never stand between two packets.
    pub(super) fn report_one(
        &mut self,
        now_ns: u64,
        clock_hz: u32,
        destinations: &mut Destinations,
    ) -> Result<bool, MediaError> {
        let Some(counts) = self
            .counts(now_ns, clock_hz)
            .filter(|_| now_ns >= self.next_ns)
        else {
            return Ok(false);
        };
        let Some(id) = following(self.last, destinations) else {
            return Ok(false);
        };
        let report = self.reports.report(counts)?;
        if let Some(destination) = destinations.by_id(id) {
            destination.send_report(report);
        }
        self.last = Some(id);
        self.next_ns = now_ns + REPORT_INTERVAL_NS / destinations.len().max(1) as u64;
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
        let Some(counts) = self.counts(now_ns, clock_hz) else {
            return Ok(());
        };
        let packet = self.reports.goodbye(counts)?;
        destinations.for_each(|destination| {
            destination.send_report(packet);
        });
        Ok(())
    }

    /// The timestamp of a report is that of the media at this instant: counted on from the last packet, or back from one that will leave.
    fn counts(&self, now_ns: u64, clock_hz: u32) -> Option<Counts> {
        let reference = self.reference?;
        let elapsed = i128::from(now_ns) - i128::from(reference.sent_ns);
        let ticks = elapsed * i128::from(clock_hz) / 1_000_000_000;
        Some(Counts {
            unix_ns: unix_ns(),
            timestamp: reference.timestamp.wrapping_add(ticks as u32),
            packets: self.packets,
            bytes: self.payload_bytes,
        })
    }
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
