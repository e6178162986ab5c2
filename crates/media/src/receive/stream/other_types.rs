//! Packets of other payload types than the one that is received.
//!
//! Events of a telephone, comfort noise and repair come beside a stream and are small, or are
//! followed by its own packets. Where nothing else comes from its host any more, and what comes is
//! as large as media, the sender has changed to another format.

use std::ops::Range;

use hythe_rtp::payload::Depacketize;
use hythe_rtp::receive::head::Head;
use hythe_rtp::receive::reorder::Origin;
use hythe_rtp::receive::sources::Sender;

use super::{Batch, Came, Held, Stream};
use crate::MediaError;
use crate::sink::Sink;

/// Payloads from here on are of media: an event has 4 bytes (RFC 4733), comfort noise a few more
/// (RFC 3389).
const MEDIA_BYTES_MIN: usize = 32;
/// Thresholds of a change of format: packets of the other payload type, and how long they come
/// without any of the stream's own. Packets of another SSRC take longer: they may be another
/// stream of the same host.
const PACKETS_MIN: u32 = 25;
const CHANGED_NS: u64 = 1_000_000_000;
const CHANGED_OF_OTHER_SOURCE_NS: u64 = 5_000_000_000;

/// Packets of one other payload type since the last one of the stream's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherType {
    payload_type: u8,
    packets: u32,
    is_own_source: bool,
    since_ns: u64,
}

impl<D: Depacketize, S: Sink> Stream<D, S> {
    /// The payload type that the sender has changed to, if it has.
    #[must_use]
    pub fn changed_type(&self, now_ns: u64) -> Option<u8> {
        self.sources.stream()?;
        let other = self.other_type.as_ref()?;
        let least_ns = match other.is_own_source {
            true => CHANGED_NS,
            false => CHANGED_OF_OTHER_SOURCE_NS,
        };
        let lasts_ns = now_ns.saturating_sub(other.since_ns);
        let is_changed = other.packets >= PACKETS_MIN && lasts_ns >= least_ns;
        is_changed.then_some(other.payload_type)
    }

    /// The payload type of media that came last instead of the one that is received. At the end of
    /// a stream that began, only if it was more than a few packets.
    #[must_use]
    pub fn other_type(&self) -> Option<u8> {
        let least = match self.sources.stream() {
            Some(_) => PACKETS_MIN,
            None => 1,
        };
        let other = self.other_type.as_ref();
        let other = other.filter(|other| other.packets >= least);
        other.map(|other| other.payload_type)
    }

    fn note_other_type(&mut self, head: &Head, sender: &Sender, now_ns: u64) {
        let stream = self.sources.stream();
        let is_near = stream.is_none() || self.comes_from(sender.address.ip());
        if head.payload.len() < MEDIA_BYTES_MIN || !is_near {
            return;
        }
        let is_own_source = stream.is_some_and(|stream| stream.ssrc() == sender.ssrc);
        let same = self.other_type.as_mut().filter(|other| {
            (other.payload_type, other.is_own_source) == (head.payload_type, is_own_source)
        });
        match same {
            Some(other) => other.packets = other.packets.saturating_add(1),
            None => {
                self.other_type = Some(OtherType {
                    payload_type: head.payload_type,
                    packets: 1,
                    is_own_source,
                    since_ns: now_ns,
                });
            }
        }
    }

    /// A packet of another payload type: of the repair, or one that is not received, such as an
    /// event of a telephone or comfort noise. One of the stream's own source takes one of its
    /// numbers: it is nothing that is missing, and carries nothing.
    pub(super) fn take_other(
        &mut self,
        batch: &Batch,
        range: Range<usize>,
        (head, sender): (&Head, &Sender),
        now_ns: u64,
    ) -> Result<(), MediaError> {
        let start = range.start;
        if self.comes_from(sender.address.ip()) && self.show_repair(batch, range, Came::BesideMedia)
        {
            return Ok(());
        }
        self.statistics.other_payload_type += 1;
        self.note_other_type(head, sender, now_ns);
        let number = self.reorder.extend(sender.sequence);
        let is_due = self.reorder.is_missing(number) || self.reorder.is_just_ahead(number);
        if !is_due || !self.sources.beside(sender, now_ns) {
            return Ok(());
        }
        self.last_ns = Some(now_ns);
        let held = Held {
            span: self.memory.hold(batch, start..start),
            timestamp: head.timestamp,
            marker: false,
        };
        self.push(number, held, Origin::Network, now_ns)
    }
}
