//! Packets that may begin a stream, until the next one in sequence tells.
//!
//! The first packets of a stream are overtaken as easily as any other: a stream begins with the
//! lowest of those that belong to it, however they came. Those of other sources, and those from
//! long before, are dropped.

use hythe_rtp::payload::Depacketize;
use hythe_rtp::receive::reorder::Origin;
use hythe_rtp::receive::sources::Sender;

use super::{Stream, Suspect};
use crate::MediaError;
use crate::sink::Sink;

/// Packets that are kept, and how far apart those of one beginning are.
pub(super) const SUSPECTS_MAX: usize = 8;
/// One that is older belongs to the beginning only if it is directly in front.
const STALE_NS: u64 = 1_000_000_000;

/// How far in front of the packet of `sender`, the first in sequence, a suspect is; `None`: it does
/// not belong to the same beginning.
fn in_front(suspect: &Suspect, sender: &Sender, now_ns: u64) -> Option<i64> {
    let of = &suspect.sender;
    let is_same = (of.ssrc, of.address) == (sender.ssrc, sender.address);
    let distance = i64::from(sender.sequence.wrapping_sub(of.sequence) as i16);
    let is_near = distance.unsigned_abs() <= SUSPECTS_MAX as u64;
    let is_young = now_ns.saturating_sub(suspect.at_ns) <= STALE_NS;
    (is_same && is_near && (is_young || distance == 1)).then_some(distance)
}

impl<D: Depacketize, S: Sink> Stream<D, S> {
    /// A packet came that may begin the stream. The oldest gives way.
    pub(super) fn keep_suspect(&mut self, suspect: Suspect) {
        if self.suspects.len() == SUSPECTS_MAX {
            self.forget_suspect();
        }
        self.suspects.push_back(suspect);
    }

    /// Drops the oldest.
    pub(super) fn forget_suspect(&mut self) {
        if let Some(suspect) = self.suspects.pop_front() {
            self.memory.release(suspect.held.span);
        }
    }

    /// Drops all.
    pub(super) fn forget_suspects(&mut self) {
        while !self.suspects.is_empty() {
            self.forget_suspect();
        }
    }

    /// The stream begins (anew) with those that belong to the packet of `sender`, of that number,
    /// which follows.
    pub(super) fn begin_with_suspects(
        &mut self,
        number: u64,
        sender: &Sender,
        now_ns: u64,
    ) -> Result<(), MediaError> {
        let numbers = self.suspects.iter().filter_map(|suspect| {
            let distance = in_front(suspect, sender, now_ns)?;
            number.checked_add_signed(-distance)
        });
        match numbers.min() {
            Some(first) => self.reorder.start(first.min(number)),
            // An announced source begins with its first packet, which may have overtaken others.
            None => self.reorder.start_near(number, now_ns),
        }
        let mut result = Ok(());
        while let Some(suspect) = self.suspects.pop_front() {
            let distance = in_front(&suspect, sender, now_ns);
            let at = distance.and_then(|distance| number.checked_add_signed(-distance));
            let Some(at) = at else {
                self.memory.release(suspect.held.span);
                continue;
            };
            // The one directly in front made the source real: that one is counted.
            if distance != Some(1)
                && let Some(source) = self.sources.stream_mut()
            {
                source.began_with(at);
            }
            let bytes = self.memory.bytes(&suspect.held.span).len() as u64;
            let timestamp = suspect.held.timestamp;
            self.count(bytes, timestamp, suspect.arrived_unix_ns, now_ns);
            let pushed = self.push(at, suspect.held, Origin::Network, now_ns);
            result = result.and(pushed);
        }
        result
    }
}
