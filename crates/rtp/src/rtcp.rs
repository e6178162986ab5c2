//! What a sender says about itself over RTCP (RFC 3550, section 6): reports and the goodbye.
//!
//! A sending session asks when a report is due and sends what is written here, as compound packets:
//! sender report and canonical name, at the end with a BYE. Everything that does not change is laid
//! out at the start, so that nothing is allocated later.

use rtcp_types::prelude::*;
use rtcp_types::{Bye, Sdes, SdesChunk, SdesItem, SenderReport, SenderReportBuilder};

use crate::Identity;
use crate::RtpError;

/// How long lies between two reports. RFC 3550 wants at least five seconds.
pub const REPORT_INTERVAL_NS: u64 = 5_000_000_000;

const REPORT_BYTES: usize = 28;
/// Header, source, item header, 24 hexadecimal digits, zeros up to the next word.
const NAME_BYTES: usize = 4 + 4 + 2 + 24 + 2;
const BYE_BYTES: usize = 8;
const MAX_BYTES: usize = REPORT_BYTES + NAME_BYTES + BYE_BYTES;
/// Seconds from 1900, where NTP starts to count, to 1970.
const NTP_OFFSET_SECONDS: u64 = 2_208_988_800;

/// What changes from report to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// The time of the report, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The RTP timestamp at the same instant.
    pub timestamp: u32,
    /// RTP packets sent, modulo 2^32.
    pub packets: u32,
    /// Payload bytes sent, modulo 2^32.
    pub bytes: u32,
}

/// Writes the reports of one source.
#[derive(Debug)]
pub struct Reports {
    /// Only absent inside [`Self::write`]: its methods consume it.
    report: Option<SenderReportBuilder>,
    packet: [u8; MAX_BYTES],
}

impl Reports {
    /// Lays out all that will not change.
    ///
    /// # Errors
    ///
    /// [`RtpError::Packet`] if the packets do not come out as this module expects.
    pub fn new(identity: &Identity) -> Result<Self, RtpError> {
        use std::fmt::Write as _;
        let mut name = String::with_capacity(2 * identity.name.len());
        for byte in identity.name {
            let _ = write!(name, "{byte:02x}"); // a String takes everything
        }
        let item = SdesItem::builder(SdesItem::CNAME, &name);
        let names = Sdes::builder().add_chunk(SdesChunk::builder(identity.ssrc).add_item(item));
        let bye = Bye::builder().add_source(identity.ssrc);

        let mut packet = [0; MAX_BYTES];
        write(&names, "names", &mut packet[REPORT_BYTES..][..NAME_BYTES])?;
        write(&bye, "goodbye", &mut packet[REPORT_BYTES + NAME_BYTES..])?;
        let mut reports = Self {
            report: Some(SenderReport::builder(identity.ssrc)),
            packet,
        };
        // Once now, so that a report that cannot be written shows here and not in the stream.
        reports.fill(Counts {
            unix_ns: 0,
            timestamp: 0,
            packets: 0,
            bytes: 0,
        })?;
        Ok(reports)
    }

    /// The report for now.
    ///
    /// # Errors
    ///
    /// [`RtpError::Packet`], which [`Self::new`] would have returned before.
    pub fn report(&mut self, counts: Counts) -> Result<&[u8], RtpError> {
        self.fill(counts)?;
        Ok(&self.packet[..REPORT_BYTES + NAME_BYTES])
    }

    /// The last report, with the goodbye.
    ///
    /// # Errors
    ///
    /// As [`Self::report`].
    pub fn goodbye(&mut self, counts: Counts) -> Result<&[u8], RtpError> {
        self.fill(counts)?;
        Ok(&self.packet)
    }

    fn fill(&mut self, counts: Counts) -> Result<(), RtpError> {
        let Some(report) = self.report.take() else {
            return Err(RtpError::Packet {
                what: "report",
                reason: "an earlier one failed".into(),
            });
        };
        let report = report
            .ntp_timestamp(ntp_timestamp(counts.unix_ns))
            .rtp_timestamp(counts.timestamp)
            .packet_count(counts.packets)
            .octet_count(counts.bytes);
        write(&report, "report", &mut self.packet[..REPORT_BYTES])?;
        self.report = Some(report);
        Ok(())
    }
}

/// A goodbye from a receiver that has heard enough: an empty receiver report and a BYE.
///
/// # Errors
///
/// [`RtpError::Packet`], which does not happen.
pub fn farewell(ssrc: u32) -> Result<[u8; 16], RtpError> {
    let mut packet = [0; 16];
    write(
        &rtcp_types::ReceiverReport::builder(ssrc),
        "report",
        &mut packet[..8],
    )?;
    write(
        &Bye::builder().add_source(ssrc),
        "goodbye",
        &mut packet[8..],
    )?;
    Ok(packet)
}

/// Writes a packet that fills `buffer` exactly.
fn write(
    packet: &impl RtcpPacketWriter,
    what: &'static str,
    buffer: &mut [u8],
) -> Result<(), RtpError> {
    match packet.write_into(buffer) {
        Ok(bytes) if bytes == buffer.len() => Ok(()),
        Ok(bytes) => Err(RtpError::Packet {
            what,
            reason: format!("it has {bytes} bytes"),
        }),
        Err(error) => Err(RtpError::Packet {
            what,
            reason: error.to_string(),
        }),
    }
}

/// Seconds since 1900 and their fraction, 32 bits each (RFC 5905).
#[must_use]
pub fn ntp_timestamp(unix_ns: u64) -> u64 {
    let seconds = unix_ns / 1_000_000_000 + NTP_OFFSET_SECONDS;
    let fraction = ((unix_ns % 1_000_000_000) << 32) / 1_000_000_000;
    (seconds << 32) | fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtcp_types::{Compound, Packet};

    const COUNTS: Counts = Counts {
        unix_ns: 1_500_000_000_500_000_000,
        timestamp: 77,
        packets: 5,
        bytes: 5760,
    };

    #[test]
    fn goodbye_is_a_report_a_name_and_a_bye() {
        let identity = Identity::seeded(1);
        let mut reports = Reports::new(&identity).unwrap();
        assert_eq!(
            Compound::parse(reports.report(COUNTS).unwrap())
                .unwrap()
                .count(),
            2
        );

        let bytes = reports.goodbye(COUNTS).unwrap();
        let packets: Vec<_> = Compound::parse(bytes)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let [Packet::Sr(report), Packet::Sdes(names), Packet::Bye(bye)] = &packets[..] else {
            panic!("{packets:?}");
        };
        assert_eq!(report.ssrc(), identity.ssrc);
        assert_eq!((report.packet_count(), report.octet_count()), (5, 5760));
        assert_eq!(report.rtp_timestamp(), 77);
        assert_eq!(
            report.ntp_timestamp() >> 32,
            1_500_000_000 + NTP_OFFSET_SECONDS
        );
        assert_eq!(report.ntp_timestamp() as u32, 1 << 31);
        let chunk = names.chunks().next().unwrap();
        assert_eq!(chunk.ssrc(), identity.ssrc);
        assert_eq!(chunk.items().next().unwrap().value().len(), 24);
        assert_eq!(bye.ssrcs().collect::<Vec<_>>(), [identity.ssrc]);
    }

    #[test]
    fn farewell_reads_back() {
        let packet = farewell(9).unwrap();
        let packets: Vec<_> = Compound::parse(&packet)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(
            matches!(&packets[..], [Packet::Rr(_), Packet::Bye(_)]),
            "{packets:?}"
        );
    }
}
