//! Packets of a source that may take the place of the stream, so that its beginning is not lost.
//!
//! Those of one source wait, at most [`PACKETS_MAX`], and only while the stream gives no packet:
//! the next one of the stream shows that they are foreign. They are the first to go if memory runs
//! out.

use std::mem;

use hythe_rtp::payload::Depacketize;
use hythe_rtp::receive::reorder::Origin;
use hythe_rtp::receive::source::MAX_DROPOUT;
use hythe_rtp::receive::sources::Sender;

use super::{Stream, Suspect};
use crate::MediaError;
use crate::sink::Sink;

/// What one second of 12 Mbit/s is, in packets of 1,400 bytes.
const PACKETS_MAX: usize = 1024;
/// A source that sent nothing for so long leaves its place to another one.
const STALE_NS: u64 = 200_000_000;

/// The packets, in the order in which they came.
#[derive(Debug)]
pub(super) struct Waiting {
    packets: Vec<Suspect>,
    /// Packets of sources that did not take the stream's place.
    foreign: u64,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            packets: Vec::with_capacity(PACKETS_MAX),
            foreign: 0,
        }
    }

    /// Packets that are not the stream's, as far as is known.
    pub(super) fn foreign(&self) -> u64 {
        self.foreign + self.packets.len() as u64
    }

    /// When the first packet of this source came, if it waits.
    pub(super) fn began_ns(&self, sender: &Sender) -> Option<u64> {
        let first = self.packets.first();
        first
            .filter(|first| is_same(&first.sender, sender))
            .map(|first| first.at_ns)
    }

    /// Do these packets give up their place? They do if what came is of their own source and far
    /// from them, or there are too many, or it is of another source and they are nothing much yet.
    fn are_outdated(&self, sender: &Sender, now_ns: u64) -> bool {
        let Some(last) = self.packets.last() else {
            return false;
        };
        if is_same(&last.sender, sender) {
            let ahead = distance(last.sender.sequence, sender.sequence);
            let is_near = ahead.unsigned_abs() < u64::from(MAX_DROPOUT);
            return !is_near || self.packets.len() >= PACKETS_MAX;
        }
        self.packets.len() == 1 || now_ns.saturating_sub(last.at_ns) >= STALE_NS
    }
}

fn is_same(one: &Sender, other: &Sender) -> bool {
    (one.ssrc, one.address) == (other.ssrc, other.address)
}

/// From one sequence number to another, the shorter way.
fn distance(from: u16, to: u16) -> i64 {
    i64::from(to.wrapping_sub(from) as i16)
}

impl<D: Depacketize, S: Sink> Stream<D, S> {
    /// A packet came of a source that may take the stream's place.
    pub(super) fn keep_waiting(&mut self, packet: Suspect) {
        if self.waiting.are_outdated(&packet.sender, packet.at_ns) {
            self.forget_waiting();
        }
        let first = self.waiting.packets.first();
        if first.is_none_or(|first| is_same(&first.sender, &packet.sender)) {
            self.waiting.packets.push(packet);
        } else {
            self.waiting.foreign += 1;
            self.memory.release(packet.held.span);
        }
    }

    /// What waits is not the stream's.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.foreign += self.waiting.packets.len() as u64;
        for packet in self.waiting.packets.drain(..) {
            self.memory.release(packet.held.span);
        }
    }

    /// The stream begins anew with what waits, of the source of `sender`, whose own packet of that
    /// number follows.
    pub(super) fn begin_with_waiting(
        &mut self,
        number: u64,
        sender: &Sender,
        now_ns: u64,
    ) -> Result<(), MediaError> {
        let number_of = |packet: &Suspect| {
            let behind = distance(packet.sender.sequence, sender.sequence);
            number.saturating_add_signed(-behind)
        };
        let mut packets = mem::take(&mut self.waiting.packets);
        let numbers = packets.iter().map(number_of);
        self.reorder
            .start(numbers.min().unwrap_or(number).min(number));
        let mut result = Ok(());
        for packet in packets.drain(..) {
            let at = number_of(&packet);
            let bytes = self.memory.bytes(&packet.held.span).len() as u64;
            let arrived = packet.arrived_unix_ns.or(Some(packet.at_ns));
            self.count(bytes, packet.held.timestamp, arrived, now_ns);
            let pushed = self.push(at, packet.held, Origin::Network, now_ns);
            result = result.and(pushed);
        }
        self.waiting.packets = packets;
        result
    }
}
