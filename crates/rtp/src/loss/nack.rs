//! Requests to send packets again (generic NACK, RFC 4585, section 6.2.1), as far as they are
//! followed.
//!
//! RTCP is easily forged and each request makes us send up to seventeen packets, so a sender that
//! follows blindly floods whoever the forger names. A [`Resender`] stands for one destination. It
//! answers requests from that destination's address only, for packets of that stream only, which
//! were sent and are still in the [`History`]; each packet a few times at most and never twice
//! within a round trip; all of them within a [`Budget`] of bytes. The answer goes where the stream
//! goes: there is no way to name another address. Everything that is refused is counted by its
//! reason.
//!
//! Reading RTCP is `rtcp-types`'; it allocates for some packets of a compound (never more than a
//! few words for each of its bytes). Nothing else here allocates after [`Resender::new`].

use std::net::IpAddr;

use rtcp_types::{Compound, Nack, Packet, TransportFeedback};

use super::budget::Budget;
use super::history::{Absent, History, Kept};

/// Most numbers of one datagram that are looked at; a receiver that has lost more is better served
/// by what comes next.
pub const NUMBERS_MAX: usize = 512;
/// FMT of a generic NACK (RFC 4585, section 6.2).
const GENERIC_NACK: u8 = 1;

/// How far requests are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes sent again, in thousandths of the stream's bytes.
    pub share_per_mille: u32,
    /// Bytes that may be sent again at once, after a pause.
    pub burst_bytes: u32,
    /// How often one packet is sent again.
    pub resends_max: u8,
    /// Shortest time between two resends of a packet, until [`Resender::set_round_trip`] knows
    /// better; in nanoseconds.
    pub round_trip_ns: u64,
}

impl Default for Limits {
    /// A quarter of the stream, 64 KiB at once, four times each, 5 ms apart.
    ///
    /// At 20 % random loss a packet needs 1.25 transmissions on average, so a quarter repairs that;
    /// four resends leave 0.03 %.
    fn default() -> Self {
        Self {
            share_per_mille: 250,
            burst_bytes: 64 << 10,
            resends_max: 4,
            round_trip_ns: 5_000_000,
        }
    }
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Askers {
    /// The host that the stream goes to.
    Host(IpAddr),
    /// Any member of the multicast group that the stream goes to. Resends go to the group.
    Group,
}

/// What was not followed, by reason. Of datagrams the first three, of numbers the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// RTCP that is not understood.
    pub malformed: u64,
    /// A request that came from elsewhere.
    pub foreign_address: u64,
    /// A request for another stream.
    pub foreign_stream: u64,
    /// Never sent.
    pub never_sent: u64,
    /// No longer kept.
    pub gone: u64,
    /// Sent again as often as is allowed.
    pub too_often: u64,
    /// Sent again less than a round trip ago: the answer may be on its way.
    pub too_soon: u64,
    /// The budget is used up.
    pub over_budget: u64,
    /// Behind [`NUMBERS_MAX`] others in its datagram.
    pub excess: u64,
}

impl Refused {
    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        let datagrams = self.malformed + self.foreign_address + self.foreign_stream;
        let repeated = self.too_often + self.too_soon;
        datagrams + self.never_sent + self.gone + repeated + self.over_budget + self.excess
    }
}

/// What was sent again, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResendCounts {
    /// Packets sent again.
    pub packets: u64,
    /// Their bytes, as first sent.
    pub bytes: u64,
    /// What was not.
    pub refused: Refused,
}

/// How often, and when, a packet was sent again.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// When the packet was first sent: tells it from the one that had its number 65,536 packets
    /// ago.
    sent_ns: u64,
    last_ns: u64,
    sequence: u16,
    /// 0: the record is empty.
    resends: u8,
}

/// Follows the requests of one destination.
#[derive(Debug)]
pub struct Resender {
    ssrc: u32,
    askers: Askers,
    limits: Limits,
    round_trip_ns: u64,
    budget: Budget,
    /// By sequence number modulo their count, which is that of the history: kept packets never
    /// share one.
    records: Box<[Record]>,
    counts: ResendCounts,
}

impl Resender {
    /// For the stream `ssrc` of `bytes_per_second`, whose history keeps `history_packets` at most
    /// (24 bytes are needed for each).
    #[must_use]
    pub fn new(
        ssrc: u32,
        askers: Askers,
        limits: Limits,
        bytes_per_second: u64,
        history_packets: usize,
    ) -> Self {
        let rate = share(bytes_per_second, limits);
        // A power of two: numbers that wrap stay apart.
        let records = history_packets.clamp(1, super::history::PACKETS_MAX);
        Self {
            ssrc,
            askers,
            limits,
            round_trip_ns: limits.round_trip_ns,
            budget: Budget::new(rate, u64::from(limits.burst_bytes), 0),
            records: vec![Record::default(); records.next_power_of_two()].into_boxed_slice(),
            counts: ResendCounts::default(),
        }
    }

    /// The round trip as reports tell it (RFC 3550, section 6.4.1), in nanoseconds. Reports can be
    /// forged, too: it counts from a quarter of [`Limits::round_trip_ns`] upwards.
    pub fn set_round_trip(&mut self, round_trip_ns: u64) {
        self.round_trip_ns = round_trip_ns.max(self.limits.round_trip_ns / 4);
    }

    /// The stream's rate has changed.
    pub fn set_rate(&mut self, bytes_per_second: u64, now_ns: u64) {
        self.budget
            .set_rate(share(bytes_per_second, self.limits), now_ns);
    }

    /// What was sent again so far.
    #[must_use]
    pub fn counts(&self) -> ResendCounts {
        self.counts
    }

    /// Takes an RTCP datagram that came from `from`, and hands each packet that is to be sent again
    /// to `resend`. Anything in it but requests is passed over.
    pub fn take<P>(
        &mut self,
        rtcp: &[u8],
        from: IpAddr,
        now_ns: u64,
        history: &History<P>,
        resend: &mut dyn FnMut(&Kept<P>),
    ) {
        let Ok(compound) = Compound::parse(rtcp) else {
            self.counts.refused.malformed += 1;
            return;
        };
        let mut left = NUMBERS_MAX;
        for packet in compound {
            match packet {
                Ok(Packet::TransportFeedback(feedback)) if is_nack(&feedback) => {
                    let Some(numbers) = self.admit(&feedback, from) else {
                        continue;
                    };
                    for number in numbers.entries() {
                        self.consider(number, now_ns, history, &mut left, resend);
                    }
                }
                Ok(_) => {}
                Err(_) => self.counts.refused.malformed += 1,
            }
        }
    }

    /// The numbers of a request by somebody who may ask.
    fn admit<'f>(&mut self, feedback: &TransportFeedback<'f>, from: IpAddr) -> Option<Nack<'f>> {
        let refused = &mut self.counts.refused;
        let may_ask = match self.askers {
            Askers::Host(host) => host.to_canonical() == from.to_canonical(),
            Askers::Group => true,
        };
        if !may_ask {
            refused.foreign_address += 1;
            return None;
        }
        if feedback.media_ssrc() != self.ssrc {
            refused.foreign_stream += 1;
            return None;
        }
        // The crate takes padding for numbers. Nobody pads what is not encrypted (RFC 3550, section
        // 6.4.1).
        let numbers = match feedback.padding() {
            None => feedback.parse_fci::<Nack<'_>>().ok(),
            Some(_) => None,
        };
        refused.malformed += u64::from(numbers.is_none());
        numbers
    }

    fn consider<P>(
        &mut self,
        sequence: u16,
        now_ns: u64,
        history: &History<P>,
        left: &mut usize,
        resend: &mut dyn FnMut(&Kept<P>),
    ) {
        if *left == 0 {
            self.counts.refused.excess += 1;
            return;
        }
        *left -= 1;
        let refused = &mut self.counts.refused;
        let packet = match history.find(sequence) {
            Ok(packet) => packet,
            Err(Absent::NeverSent) => return refused.never_sent += 1,
            Err(Absent::Gone) => return refused.gone += 1,
        };
        let index = usize::from(sequence) & (self.records.len() - 1);
        let record = &mut self.records[index];
        if record.sequence != sequence || record.sent_ns != packet.sent_ns {
            *record = Record::default();
        }
        if record.resends >= self.limits.resends_max {
            return refused.too_often += 1;
        }
        if record.resends > 0 && now_ns.saturating_sub(record.last_ns) < self.round_trip_ns {
            return refused.too_soon += 1;
        }
        if !self.budget.take(u64::from(packet.bytes), now_ns) {
            return refused.over_budget += 1;
        }
        *record = Record {
            sent_ns: packet.sent_ns,
            last_ns: now_ns,
            sequence,
            resends: record.resends + 1,
        };
        self.counts.packets += 1;
        self.counts.bytes += u64::from(packet.bytes);
        resend(packet);
    }
}

fn is_nack(feedback: &TransportFeedback<'_>) -> bool {
    use rtcp_types::prelude::*;
    feedback.count() == GENERIC_NACK
}

fn share(bytes_per_second: u64, limits: Limits) -> u64 {
    let bytes = u128::from(bytes_per_second) * u128::from(limits.share_per_mille) / 1000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const SSRC: u32 = 0x1122_3344;
    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const MS: u64 = 1_000_000;
    const PLENTY: Limits = Limits {
        share_per_mille: 1000,
        burst_bytes: 1 << 20,
        resends_max: 3,
        round_trip_ns: 10 * MS,
    };

    /// Packets 0xfff0 to 0x000f (32 of them), 1000 bytes each.
    fn history() -> History<()> {
        let mut history = History::new(32, u64::MAX);
        for index in 0..40_u16 {
            let packet = Kept {
                sequence: 0xffe8_u16.wrapping_add(index),
                bytes: 1000,
                sent_ns: u64::from(index),
                place: (),
            };
            history.keep(packet, &mut |_| {});
        }
        history
    }

    /// A request by hand: header, sender, media source, pairs of number and mask.
    fn request(ssrc: u32, pairs: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = vec![0x81, 205];
        bytes.extend_from_slice(&(2 + pairs.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[9, 9, 9, 9]);
        bytes.extend_from_slice(&ssrc.to_be_bytes());
        for (number, mask) in pairs {
            bytes.extend_from_slice(&number.to_be_bytes());
            bytes.extend_from_slice(&mask.to_be_bytes());
        }
        bytes
    }

    fn resender(limits: Limits) -> Resender {
        Resender::new(SSRC, Askers::Host(HOST), limits, 1_000_000, 32)
    }

    fn asked(resender: &mut Resender, rtcp: &[u8], now_ns: u64) -> Vec<u16> {
        let mut numbers = Vec::new();
        resender.take(rtcp, HOST, now_ns, &history(), &mut |packet| {
            numbers.push(packet.sequence);
        });
        numbers
    }

    #[test]
    fn number_and_mask_are_resent_across_the_wrap() {
        let mut resender = resender(PLENTY);
        let rtcp = request(SSRC, &[(0xfffe, 0b1000_0000_0000_0011), (5, 0)]);
        assert_eq!(rtcp[..4], [0x81, 205, 0, 4]);
        let resent = asked(&mut resender, &rtcp, MS);
        assert_eq!(resent, [0xfffe, 0xffff, 0, 0xe, 5]);
        let counts = resender.counts();
        assert_eq!((counts.packets, counts.bytes), (5, 5000));
        assert_eq!(counts.refused, Refused::default());
    }

    #[test]
    fn compound_with_reports_is_read_and_other_feedback_passed_over() {
        let mut resender = resender(PLENTY);
        let report = [0x80, 201, 0, 1, 9, 9, 9, 9];
        let picture_loss = [0x81, 206, 0, 2, 9, 9, 9, 9, 0x11, 0x22, 0x33, 0x44];
        let rtcp = [&report[..], &picture_loss, &request(SSRC, &[(3, 0)])].concat();
        assert_eq!(asked(&mut resender, &rtcp, MS), [3]);
        assert_eq!(resender.counts().refused, Refused::default());
    }

    #[test]
    fn numbers_never_sent_and_gone_ones_are_told_apart() {
        let mut resender = resender(PLENTY);
        let rtcp = request(SSRC, &[(0x10, 0), (0xffef, 0), (0x7000, 0), (0x9000, 0)]);
        assert!(asked(&mut resender, &rtcp, MS).is_empty());
        let refused = resender.counts().refused;
        assert_eq!((refused.never_sent, refused.gone), (2, 2));
    }

    #[test]
    fn one_packet_goes_out_a_few_times_and_not_within_a_round_trip() {
        let mut resender = resender(PLENTY);
        let rtcp = request(SSRC, &[(1, 0)]);
        for (now_ns, resent) in [
            (0, 1),
            (9 * MS, 0),
            (10 * MS, 1),
            (25 * MS, 1),
            (50 * MS, 0),
        ] {
            assert_eq!(
                asked(&mut resender, &rtcp, now_ns).len(),
                resent,
                "{now_ns}"
            );
        }
        let refused = resender.counts().refused;
        assert_eq!((refused.too_soon, refused.too_often), (1, 1));
        // Twice in one datagram is too soon, whatever a report said about the round trip.
        resender.set_round_trip(0);
        let twice = request(SSRC, &[(2, 0), (2, 0)]);
        assert_eq!(asked(&mut resender, &twice, 60 * MS), [2]);
        assert_eq!(asked(&mut resender, &twice, 62 * MS), [0_u16; 0]);
        assert_eq!(asked(&mut resender, &twice, 63 * MS), [2]);
    }

    #[test]
    fn same_number_65536_packets_later_is_another_packet() {
        let mut resender = resender(PLENTY);
        let rtcp = request(SSRC, &[(1, 0)]);
        for sent_ns in [0, 1_000_000 * MS] {
            let mut history = History::new(32, u64::MAX);
            let packet = Kept {
                sequence: 1,
                bytes: 10,
                sent_ns,
                place: (),
            };
            history.keep(packet, &mut |_| {});
            let mut resent = 0;
            for step in 0..10 {
                let now_ns = sent_ns + step * 20 * MS;
                resender.take(&rtcp, HOST, now_ns, &history, &mut |_| resent += 1);
            }
            assert_eq!(resent, 3);
        }
    }

    #[test]
    fn budget_bounds_bytes_whatever_is_asked() {
        let limits = Limits {
            share_per_mille: 100,
            burst_bytes: 5000,
            resends_max: 255,
            round_trip_ns: 0,
        };
        let mut resender = resender(limits);
        let everything = request(SSRC, &[(0xfff0, 0xffff), (1, 0x3fff)]);
        // A second of a flood of requests: the burst, and a tenth of a megabyte.
        let resent: usize = (0..=1000)
            .map(|step| asked(&mut resender, &everything, step * MS).len())
            .sum();
        assert!((104..=105).contains(&resent), "{resent}");
        assert_eq!(resender.counts().bytes, 1000 * resent as u64);
        assert!(resender.counts().refused.over_budget > 1000);
    }

    #[test]
    fn only_the_destination_asks_and_only_for_its_stream() {
        let mut resender = resender(PLENTY);
        let rtcp = request(SSRC, &[(1, 0)]);
        let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
        resender.take(&rtcp, other, 0, &history(), &mut |_| panic!("foreign"));
        assert!(asked(&mut resender, &request(SSRC + 1, &[(1, 0)]), 0).is_empty());
        let refused = resender.counts().refused;
        assert_eq!((refused.foreign_address, refused.foreign_stream), (1, 1));
        // A dual-stack socket shows IPv4 peers as mapped addresses.
        let mapped = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped());
        let mut resent = 0;
        resender.take(&rtcp, mapped, 0, &history(), &mut |_| resent += 1);
        assert_eq!(resent, 1);
        let mut group = Resender::new(SSRC, Askers::Group, PLENTY, 1_000_000, 32);
        let anybody = IpAddr::V6(Ipv6Addr::LOCALHOST);
        group.take(&rtcp, anybody, 0, &history(), &mut |_| resent += 1);
        assert_eq!(resent, 2);
    }

    #[test]
    fn parser_counts_malformed_feedback_and_bounds_lists() {
        let mut resender = resender(PLENTY);
        let whole = request(SSRC, &[(1, 0)]);
        for length in 0..whole.len() {
            assert!(asked(&mut resender, &whole[..length], 0).is_empty());
        }
        let mut padded = request(SSRC, &[(1, 0), (0, 4)]);
        padded[0] |= 0x20;
        assert!(asked(&mut resender, &padded, 0).is_empty());
        assert_eq!(resender.counts().refused.malformed, 17);
        let long = request(SSRC, &[(0x7000, 0xffff); 40]);
        assert!(asked(&mut resender, &long, 0).is_empty());
        let refused = resender.counts().refused;
        assert_eq!((refused.never_sent, refused.excess), (512, 40 * 17 - 512));
    }
}
