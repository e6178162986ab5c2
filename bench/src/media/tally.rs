//! Counts packets and checks each of them against the file it was made of.
//!
//! The receiver feeds it what its sockets yield. Trusts nothing: a number is only a place in a
//! table that has capacity for all numbers.

use super::case::Case;
use super::message::Tally;
use super::packets::{HEADER_BYTES, sequence};

/// Sequence numbers of RTP.
const NUMBERS: usize = 1 << 16;

/// What one destination got.
#[derive(Debug)]
struct Arrivals {
    seen: Vec<bool>,
    /// The number that counts as 0: known of our own senders, of others that of the first packet.
    first: Option<u16>,
    highest: usize,
    right: u64,
}

/// All destinations of one case.
#[derive(Debug)]
pub(super) struct Checker<'m> {
    case: Case,
    /// The file; of a peer that packs it anew nobody knows what has to be in which packet.
    media: Option<&'m [u8]>,
    arrivals: Vec<Arrivals>,
    delivered: u64,
    wrong: u64,
    last_ns: u64,
}

impl<'m> Checker<'m> {
    pub(super) fn new(case: Case, media: &'m [u8]) -> Self {
        let is_ours = !case.system.is_peer();
        let arrivals = (0..case.destinations).map(|_| Arrivals {
            seen: vec![false; NUMBERS],
            first: is_ours.then_some(0),
            highest: 0,
            right: 0,
        });
        Self {
            case,
            media: is_ours.then_some(media),
            arrivals: arrivals.collect(),
            delivered: 0,
            wrong: 0,
            last_ns: 0,
        }
    }

    /// Takes what one read of a destination's socket yielded: of our own senders any number of
    /// packets, one behind the other, of a peer one packet.
    pub(super) fn take(&mut self, destination: usize, bytes: &[u8], now_ns: impl Fn() -> u64) {
        let each = match self.media {
            Some(_) => usize::from(self.case.packet_bytes),
            None => bytes.len().max(1),
        };
        let before = self.delivered;
        for packet in bytes.chunks(each) {
            match self.check(destination, packet) {
                Some(()) => self.delivered += 1,
                None => self.wrong += 1,
            }
        }
        if self.delivered > before {
            self.last_ns = now_ns();
        }
    }

    fn check(&mut self, destination: usize, packet: &[u8]) -> Option<()> {
        let number = sequence(packet)?;
        let arrivals = self.arrivals.get_mut(destination)?;
        let first = *arrivals.first.get_or_insert(number);
        let place = usize::from(number.wrapping_sub(first));
        if let Some(media) = self.media {
            let payload_bytes = usize::from(self.case.packet_bytes) - HEADER_BYTES;
            let begin = place * payload_bytes;
            let is_known = place < self.case.packets as usize;
            let expected = media.get(begin..begin + payload_bytes);
            if !is_known || expected != Some(&packet[HEADER_BYTES..]) {
                return None;
            }
        }
        if std::mem::replace(&mut arrivals.seen[place], true) {
            return None;
        }
        arrivals.highest = arrivals.highest.max(place);
        arrivals.right += 1;
        Some(())
    }

    /// Has everything come? Of a peer nobody knows.
    pub(super) fn is_complete(&self) -> bool {
        self.media.is_some() && self.delivered >= self.case.deliveries()
    }

    pub(super) fn tally(&self) -> Tally {
        let missing = match self.media {
            Some(_) => self.case.deliveries().saturating_sub(self.delivered),
            None => self.arrivals.iter().map(Arrivals::gaps).sum(),
        };
        Tally {
            delivered: self.delivered,
            missing,
            wrong: self.wrong,
            last_ns: self.last_ns,
        }
    }
}

impl Arrivals {
    fn gaps(&self) -> u64 {
        match self.right {
            0 => 0,
            right => (self.highest as u64 + 1).saturating_sub(right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::System;
    use super::super::case::tests::PLAIN;
    use super::super::packets::header;
    use super::*;

    const CASE: Case = Case {
        packets: 4,
        packet_bytes: 20,
        ..PLAIN
    };

    fn media() -> Vec<u8> {
        (0..32).collect()
    }

    fn packet(number: u32) -> Vec<u8> {
        let media = &media()[number as usize * 8..][..8];
        [&header(number, 7)[..], media].concat()
    }

    fn tally(case: Case, reads: &[Vec<u8>]) -> (Tally, bool) {
        let media = media();
        let mut checker = Checker::new(case, &media);
        for (read, time) in reads.iter().zip(1..) {
            checker.take(0, read, || time);
        }
        (checker.tally(), checker.is_complete())
    }

    #[test]
    fn all_packets_in_any_order_and_grouping_are_complete() {
        let reads = [[packet(2), packet(3)].concat(), packet(0), packet(1)];
        let expected = Tally {
            delivered: 4,
            missing: 0,
            wrong: 0,
            last_ns: 3,
        };
        assert_eq!(tally(CASE, &reads), (expected, true));
    }

    #[test]
    fn what_is_doubled_damaged_cut_or_unknown_is_wrong() {
        let mut damaged = packet(1);
        damaged[19] ^= 1;
        let unknown = [&header(4, 7)[..], &[0; 8]].concat();
        let cut = packet(2)[..19].to_vec();
        let reads = [packet(0), packet(0), damaged, unknown, cut, vec![0; 3]];
        let expected = Tally {
            delivered: 1,
            missing: 3,
            wrong: 5,
            last_ns: 1,
        };
        assert_eq!(tally(CASE, &reads), (expected, false));
    }

    #[test]
    fn of_a_peer_the_numbers_are_checked() {
        let case = Case {
            system: System::Ffmpeg,
            ..CASE
        };
        let other = |number: u16| [&header(u32::from(number), 9)[..], &[9; 30]].concat();
        let reads = [other(65_534), other(65_535), other(1), other(1)];
        let (found, _) = tally(case, &reads);
        assert_eq!((found.delivered, found.missing, found.wrong), (3, 1, 1));
        assert_eq!(tally(case, &[]).0, Tally::default());
    }
}
