//! The header of an RTP packet (RFC 3550, section 5.1), each byte of it read once.
//!
//! `rtp-types`, which reads packets elsewhere, looks at a packet again for each question. This one
//! may lie in memory that is shared, where a peer that does not keep to the rules changes it
//! between two looks; what was checked has to be what is used. Believes no length, allocates
//! nothing.

use std::ops::Range;

use crate::HEADER_BYTES;

/// A contributing source.
const SOURCE_BYTES: usize = 4;
/// In front of an extension: what it is, and its length in words of this size.
const EXTENSION_HEADER_BYTES: usize = 4;

const PADDING: u8 = 0x20;
const EXTENSION: u8 = 0x10;
const SOURCES: u8 = 0x0f;
const MARKER: u8 = 0x80;

/// What is taken from a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the payload is (RFC 3551, or as the session description says).
    pub payload_type: u8,
    /// The marker bit, whose meaning is the payload's.
    pub marker: bool,
    /// Counts packets, modulo 2^16.
    pub sequence: u16,
    /// Ticks of the stream's clock, modulo 2^32.
    pub timestamp: u32,
    /// The synchronisation source.
    pub ssrc: u32,
    /// Where the payload is in the packet, without padding.
    pub payload: Range<usize>,
}

impl Head {
    /// `None`: it is no packet of RTP, or shorter than it says.
    #[must_use]
    pub fn read(packet: &[u8]) -> Option<Self> {
        let header: [u8; HEADER_BYTES] = *packet.first_chunk()?;
        let [first, second, a, b, t0, t1, t2, t3, s0, s1, s2, s3] = header;
        if first >> 6 != 2 {
            return None;
        }
        let mut start = HEADER_BYTES + SOURCE_BYTES * usize::from(first & SOURCES);
        if first & EXTENSION != 0 {
            let behind = packet.get(start..)?;
            let [_, _, high, low] = *behind.first_chunk::<EXTENSION_HEADER_BYTES>()?;
            let words = usize::from(u16::from_be_bytes([high, low]));
            start += EXTENSION_HEADER_BYTES + 4 * words;
        }
        let mut end = packet.len();
        if first & PADDING != 0 {
            let padding = usize::from(*packet.last()?);
            // It counts itself.
            end = end.checked_sub(padding).filter(|_| padding > 0)?;
        }
        (start <= end).then_some(Self {
            payload_type: second & !MARKER,
            marker: second & MARKER != 0,
            sequence: u16::from_be_bytes([a, b]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([s0, s1, s2, s3]),
            payload: start..end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rtp_types::RtpPacket;

    proptest! {
        /// What the crate says that reads packets everywhere else.
        #[test]
        fn headers_mean_what_they_mean_to_others(
            mut packet in proptest::collection::vec(any::<u8>(), 0..120),
            first in any::<u8>(),
            words in 0_u8..20,
            padding in 0_u8..130,
        ) {
            if packet.len() > HEADER_BYTES {
                packet[0] = 0x80 | first >> 2;
                let at = HEADER_BYTES + SOURCE_BYTES * usize::from(packet[0] & SOURCES);
                if let Some(length) = packet.get_mut(at + 2..at + 4) {
                    length.copy_from_slice(&[0, words]);
                }
                *packet.last_mut().unwrap() = padding;
            }
            let expected = RtpPacket::parse(&packet).ok().map(|packet| Head {
                payload_type: packet.payload_type(),
                marker: packet.marker_bit(),
                sequence: packet.sequence_number(),
                timestamp: packet.timestamp(),
                ssrc: packet.ssrc(),
                payload: packet.payload_offset()..packet.payload_offset() + packet.payload_len(),
            });
            prop_assert_eq!(Head::read(&packet), expected);
        }
    }
}
