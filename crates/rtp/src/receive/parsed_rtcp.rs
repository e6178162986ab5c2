//! What is read in RTCP: reports of both sides, and goodbyes (RFC 3550, sections 6.4 and 6.6).
//!
//! A receiver and a sender hand over each datagram of the RTCP port and decide what to believe.
//! Pure, allocates nothing; a datagram that breaks the rules of RFC 3550, A.2, is dropped whole.

use rtcp_types::prelude::*;
use rtcp_types::{Bye, ReceiverReport, ReportBlock, SenderReport, TransportFeedback};

/// What an RTCP packet reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtcpEvent {
    /// A sender report (SR).
    Report {
        /// Who.
        ssrc: u32,
        /// When, by its own clock: seconds since 1900 and their fraction, 32 bits each.
        ntp: u64,
    },
    /// A report block of a receiver.
    Reception(Reception),
    /// A source left (BYE).
    Goodbye {
        /// Who.
        ssrc: u32,
    },
}

/// A report block (RFC 3550, section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The stream that it is about.
    pub stream: u32,
    /// Share of the packets since the report before that were lost, in 256ths.
    pub fraction_lost: u8,
    /// Packets lost since the beginning; less than 0 with duplicates.
    pub cumulative_lost: i32,
    /// Interarrival jitter in ticks.
    pub jitter: u32,
    /// The middle of the NTP time of the last sender report that came; 0: none did.
    pub last_sender_report: u32,
    /// How long ago that was, in 1/65536 s.
    pub delay: u32,
}

impl Reception {
    fn of(block: &ReportBlock<'_>) -> Self {
        Self {
            stream: block.ssrc(),
            fraction_lost: block.fraction_lost(),
            // 24 bits with a sign.
            cumulative_lost: (block.cumulative_lost() << 8) as i32 >> 8,
            jitter: block.interarrival_jitter(),
            last_sender_report: block.last_sender_report_timestamp(),
            delay: block.delay_since_last_sender_report_timestamp(),
        }
    }
}

/// Most events that are taken from one datagram: an honest one has a report and a BYE.
const EVENTS_MAX: usize = 8;
/// A datagram that is longer is malformed: it has to fit a packet of Ethernet.
const DATAGRAM_BYTES: usize = 2048;

/// The events of a datagram that concern a receiver, copied out of the memory of the datagram.
pub struct ParsedRtcp {
    /// The events, in order.
    pub events: [Option<RtcpEvent>; EVENTS_MAX],
    /// Does it follow the rules of RFC 3550, A.2?
    pub is_valid: bool,
}

impl ParsedRtcp {
    /// Reads a copy: `datagram` may lie where a peer can change it between two looks.
    #[must_use]
    pub fn read(datagram: &[u8]) -> Self {
        let mut copy = [0; DATAGRAM_BYTES];
        let copy = copy.get_mut(..datagram.len()).map(|copy| {
            copy.copy_from_slice(datagram);
            &*copy
        });
        let mut events = [None; EVENTS_MAX];
        let mut places = events.iter_mut();
        let is_valid = copy.is_some_and(|datagram| {
            read(datagram, &mut |event| {
                // What others receive is not for us.
                if !matches!(event, RtcpEvent::Reception(_))
                    && let Some(place) = places.next()
                {
                    *place = Some(event);
                }
            })
        });
        Self { events, is_valid }
    }
}

const HEADER_BYTES: usize = 4;
const SENDER_REPORT: u8 = SenderReport::PACKET_TYPE;
const RECEIVER_REPORT: u8 = ReceiverReport::PACKET_TYPE;
const TRANSPORT_FEEDBACK: u8 = TransportFeedback::PACKET_TYPE;
const BYE: u8 = Bye::PACKET_TYPE;

/// Is a datagram on a port shared with RTP one of RTCP? (RFC 5761, section 4: types 192 to 223.)
#[must_use]
pub fn is_rtcp(datagram: &[u8]) -> bool {
    matches!(datagram, [_, 192..=223, ..])
}

/// Reads a datagram; `false`: it is no valid compound packet, and nothing was taken.
pub fn read(datagram: &[u8], take: &mut dyn FnMut(RtcpEvent)) -> bool {
    let is_valid = is_compound(datagram);
    if is_valid {
        for packet in packets(datagram).flatten() {
            read_packet(packet, take);
        }
    }
    is_valid
}

/// Is there feedback on the transport in a datagram, which may be a request for packets?
#[must_use]
pub fn has_feedback(datagram: &[u8]) -> bool {
    packets(datagram)
        .flatten()
        .any(|packet| packet[1] == TRANSPORT_FEEDBACK)
}

fn read_packet(packet: &[u8], take: &mut dyn FnMut(RtcpEvent)) {
    let reception = |block: &ReportBlock<'_>| RtcpEvent::Reception(Reception::of(block));
    match packet[1] {
        SENDER_REPORT => {
            if let Ok(report) = SenderReport::parse(packet) {
                take(RtcpEvent::Report {
                    ssrc: report.ssrc(),
                    ntp: report.ntp_timestamp(),
                });
                report
                    .report_blocks()
                    .for_each(|block| take(reception(&block)));
            }
        }
        RECEIVER_REPORT => {
            if let Ok(report) = ReceiverReport::parse(packet) {
                report
                    .report_blocks()
                    .for_each(|block| take(reception(&block)));
            }
        }
        BYE => {
            if let Ok(bye) = Bye::parse(packet) {
                bye.ssrcs()
                    .for_each(|ssrc| take(RtcpEvent::Goodbye { ssrc }));
            }
        }
        _ => {}
    }
}

/// The checks of RFC 3550, A.2: a report first, version 2 everywhere, padding only in the last
/// packet, lengths that add up.
fn is_compound(datagram: &[u8]) -> bool {
    let mut count = 0;
    let mut is_padded = false;
    for packet in packets(datagram) {
        let Some(packet) = packet.filter(|packet| packet[0] >> 6 == 2 && !is_padded) else {
            return false;
        };
        if count == 0 && !matches!(packet[1], SENDER_REPORT | RECEIVER_REPORT) {
            return false;
        }
        is_padded = packet[0] & 0x20 != 0;
        count += 1;
    }
    count > 0
}

/// The packets of a compound packet; `None` for what is shorter than it says, which is the last.
fn packets(datagram: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let [_, _, high, low, ..] = *rest else {
            rest = &[];
            return Some(None);
        };
        let words = usize::from(u16::from_be_bytes([high, low]));
        let split = rest.split_at_checked(HEADER_BYTES + 4 * words);
        rest = split.map_or(&[], |(_, rest)| rest);
        Some(split.map(|(packet, _)| packet))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use crate::rtcp::{Counts, Reports};

    fn goodbye() -> Vec<u8> {
        let mut reports = Reports::new(&Identity::seeded(1)).unwrap();
        let counts = Counts {
            unix_ns: 1_500_000_000,
            timestamp: 77,
            packets: 5,
            bytes: 5760,
        };
        reports.goodbye(counts).unwrap().to_vec()
    }

    fn events(datagram: &[u8]) -> Option<Vec<RtcpEvent>> {
        let mut all = Vec::new();
        read(datagram, &mut |event| all.push(event)).then_some(all)
    }

    #[test]
    fn report_and_a_goodbye_are_read() {
        let ssrc = Identity::seeded(1).ssrc;
        let ntp = 2_208_988_801 << 32 | 1 << 31;
        let expected = [RtcpEvent::Report { ssrc, ntp }, RtcpEvent::Goodbye { ssrc }];
        assert_eq!(events(&goodbye()).unwrap(), expected);
        assert!(is_rtcp(&goodbye()));
        assert!(!is_rtcp(&[0x80, 96, 0, 0]) && !is_rtcp(&[0x80]));
    }

    #[test]
    fn what_breaks_the_rules_is_dropped_whole() {
        let whole = goodbye();
        for length in 0..whole.len() {
            let starts = [0, 28, 64]; // where packets end, a shorter compound packet is left
            assert_eq!(
                events(&whole[..length]).is_some(),
                starts[1..].contains(&length),
                "{length}"
            );
        }
        let mut datagram = whole.clone();
        datagram[28] ^= 0x40; // version of the second packet
        assert_eq!(events(&datagram), None);
        datagram = whole.clone();
        datagram[0] |= 0x20; // padding before the end
        assert_eq!(events(&datagram), None);
        assert_eq!(events(&whole[28..]), None, "no report in front");
        // More sources than there is free capacity for: the packet is passed over, the report is
        // not.
        datagram = whole;
        let bye = datagram.len() - 8;
        datagram[bye] |= 31;
        assert_eq!(events(&datagram).unwrap().len(), 1);
    }
}
