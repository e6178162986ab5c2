//! Sending a packet again, and taking it back: retransmission payloads (RFC 4588), or simply the
//! same packet.
//!
//! A retransmission has a source, a sequence number and a payload type of its own, and the
//! original's sequence number (OSN) in front of its payload; so a receiver's statistics of the
//! original stream stay true. [`Method::packet`] builds it as slices around the original's bytes,
//! which are not copied. [`RtxReceiver::restore`] moves the header over the OSN instead of moving
//! the payload.
//!
//! Receivers that know nothing of it get the same packet once more ([`Method::Plain`]).

use rtp_types::RtpPacket;

use super::{RTP_HEADER_BYTES, Repaired, be16};

/// Bytes of the original sequence number.
const OSN_BYTES: usize = 2;
const PADDING_BIT: u8 = 0x20;
const MARKER_BIT: u8 = 0x80;

/// What retransmissions are sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtxStream {
    /// Source of retransmissions: another than the original's where both share a session (SSRC
    /// multiplexing), the same where retransmissions have a session, thus a port, of their own (RFC
    /// 4588, section 5).
    pub ssrc: u32,
    /// Payload type of retransmissions (`a=rtpmap:… rtx/…`).
    pub payload_type: u8,
}

/// How packets are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The same packet once more.
    Plain,
    /// As RFC 4588 says.
    Rtx {
        /// What it is sent as.
        stream: RtxStream,
        /// Number of the next retransmission.
        sequence: u16,
    },
}

/// A packet to be sent again: its slices in order make up the datagram.
#[derive(Clone, Copy, Debug)]
pub struct Resent<'o> {
    header: [u8; RTP_HEADER_BYTES],
    /// Contributing sources and extension, as in the original.
    middle: &'o [u8],
    osn: [u8; OSN_BYTES],
    osn_bytes: usize,
    payload: &'o [u8],
}

impl Resent<'_> {
    /// The datagram; some slices may be empty.
    #[must_use]
    pub fn slices(&self) -> [&[u8]; 4] {
        let osn = &self.osn[..self.osn_bytes];
        [&self.header, self.middle, osn, self.payload]
    }

    /// Bytes of the datagram.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slices().iter().map(|slice| slice.len()).sum()
    }

    /// Never: there is a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl Method {
    /// `original` once more; `None` where that is no RTP packet.
    #[must_use]
    pub fn packet<'o>(&mut self, original: &'o [u8]) -> Option<Resent<'o>> {
        let parsed = RtpPacket::parse(original).ok()?;
        let (header, behind) = original.split_first_chunk::<RTP_HEADER_BYTES>()?;
        let mut resent = Resent {
            header: *header,
            middle: &[],
            osn: [0; OSN_BYTES],
            osn_bytes: 0,
            payload: behind,
        };
        if let Self::Rtx { stream, sequence } = self {
            let padding = usize::from(parsed.padding().unwrap_or(0));
            let unpadded = &behind[..behind.len() - padding];
            let middle_bytes = parsed.payload_offset() - RTP_HEADER_BYTES;
            (resent.middle, resent.payload) = unpadded.split_at(middle_bytes);
            resent.osn = parsed.sequence_number().to_be_bytes();
            resent.osn_bytes = OSN_BYTES;
            // Section 4: padding is removed, marker, sources and extension stay.
            resent.header[0] &= !PADDING_BIT;
            resent.header[1] = header[1] & MARKER_BIT | stream.payload_type & !MARKER_BIT;
            resent.header[2..4].copy_from_slice(&sequence.to_be_bytes());
            resent.header[8..12].copy_from_slice(&stream.ssrc.to_be_bytes());
            *sequence = sequence.wrapping_add(1);
        }
        Some(resent)
    }
}

/// Why a packet is not taken as a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestored {
    /// No RTP packet.
    #[error("not an RTP packet")]
    Malformed,
    /// Another payload type or source: not for us, perhaps an original.
    #[error("not a retransmission of this stream")]
    Foreign,
    /// There is no original in it. Senders probe the bandwidth with such.
    #[error("a retransmission without an original")]
    Empty,
    /// Nobody misses that packet: repaired already, or never asked for.
    #[error("a retransmission of packet {0}, which is not missing")]
    NotMissing(u16),
}

/// Takes retransmissions of one stream.
#[derive(Clone, Copy, Debug)]
pub struct RtxReceiver {
    /// Source of the originals.
    pub original_ssrc: u32,
    /// Payload type of the originals (`a=fmtp:… apt=`).
    pub original_payload_type: u8,
    /// Payload type of retransmissions.
    pub payload_type: u8,
    /// Source of retransmissions. `None`: not told; then a packet counts by its payload type and by
    /// being missed (RFC 4588, section 5.3, which associates streams by what was asked for).
    pub ssrc: Option<u32>,
}

impl RtxReceiver {
    /// Turns a retransmission into the original, in place: the last bytes of `packet`, less
    /// padding. `is_missing` says whether a number is waited for.
    ///
    /// # Errors
    ///
    /// [`NotRestored`]; `packet` is as it was.
    pub fn restore<'r>(
        &self,
        packet: &'r mut [u8],
        is_missing: impl FnOnce(u16) -> bool,
    ) -> Result<Repaired<'r>, NotRestored> {
        let parsed = RtpPacket::parse(packet).map_err(|_| NotRestored::Malformed)?;
        let is_ours = parsed.payload_type() == self.payload_type
            && self.ssrc.is_none_or(|ssrc| ssrc == parsed.ssrc());
        if !is_ours {
            return Err(NotRestored::Foreign);
        }
        let header_bytes = parsed.payload_offset();
        let end = packet.len() - usize::from(parsed.padding().unwrap_or(0));
        if end < header_bytes + OSN_BYTES {
            return Err(NotRestored::Empty);
        }
        let sequence = be16(packet, header_bytes);
        if !is_missing(sequence) {
            return Err(NotRestored::NotMissing(sequence));
        }
        packet.copy_within(..header_bytes, OSN_BYTES);
        let original = &mut packet[OSN_BYTES..end];
        original[0] &= !PADDING_BIT;
        original[1] = original[1] & MARKER_BIT | self.original_payload_type & !MARKER_BIT;
        original[2..4].copy_from_slice(&sequence.to_be_bytes());
        original[8..12].copy_from_slice(&self.original_ssrc.to_be_bytes());
        Ok(Repaired {
            sequence,
            bytes: original,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECEIVER: RtxReceiver = RtxReceiver {
        original_ssrc: 0xa0b0_c0d0,
        original_payload_type: 33,
        payload_type: 97,
        ssrc: Some(0x0102_0304),
    };
    const ORIGINAL: [u8; 15] = [
        0x80, 0xa1, 0x12, 0x34, 1, 2, 3, 4, 0xa0, 0xb0, 0xc0, 0xd0, 7, 8, 9,
    ];

    fn sender() -> Method {
        let stream = RtxStream {
            ssrc: 0x0102_0304,
            payload_type: 97,
        };
        Method::Rtx {
            stream,
            sequence: 0xffff,
        }
    }

    #[test]
    fn layout_is_that_of_rfc_4588() {
        let mut sender = sender();
        let first = sender.packet(&ORIGINAL).unwrap();
        assert_eq!(
            first.slices().concat(),
            [
                0x80, 0xe1, 0xff, 0xff, 1, 2, 3, 4, 1, 2, 3, 4, 0x12, 0x34, 7, 8, 9
            ]
        );
        assert_eq!(first.len(), 17);
        let second = sender.packet(&ORIGINAL).unwrap();
        assert_eq!(second.slices()[0][2..4], [0, 0]);
    }

    #[test]
    fn rtx_restores_packet_without_padding() {
        let with_middle = [
            &[0x92, 0x21, 0, 1, 0, 0, 0, 9, 0xa0, 0xb0, 0xc0, 0xd0][..],
            &[1, 1, 1, 1, 2, 2, 2, 2],             // two sources
            &[0xbe, 0xde, 0, 1, 0x10, 0xff, 0, 0], // extension of a word
            b"media",
        ]
        .concat();
        let mut padded = [&with_middle[..], &[0, 0, 3]].concat();
        padded[0] |= PADDING_BIT;
        let header_only = ORIGINAL[..12].to_vec();
        for (original, expected) in [
            (ORIGINAL.to_vec(), ORIGINAL.to_vec()),
            (with_middle.clone(), with_middle.clone()),
            (padded, with_middle),
            (header_only.clone(), header_only),
        ] {
            let mut sent = sender().packet(&original).unwrap().slices().concat();
            let repaired = RECEIVER.restore(&mut sent, |_| true).unwrap();
            assert_eq!(repaired.bytes, expected);
            assert_eq!(repaired.sequence, be16(&original, 2));
        }
    }

    #[test]
    fn padding_of_a_retransmission_is_removed() {
        let sent = sender().packet(&ORIGINAL).unwrap().slices().concat();
        let mut padded = [&sent[..], &[0, 2]].concat();
        padded[0] |= PADDING_BIT;
        let repaired = RECEIVER.restore(&mut padded, |_| true).unwrap();
        assert_eq!(repaired.bytes, ORIGINAL);
    }

    #[test]
    fn plain_is_the_same_packet() {
        let resent = Method::Plain.packet(&ORIGINAL).unwrap();
        assert_eq!(resent.slices().concat(), ORIGINAL);
        assert!(Method::Plain.packet(&ORIGINAL[..11]).is_none());
        assert!(sender().packet(&[0; 20]).is_none());
    }

    #[test]
    fn what_is_not_a_retransmission_stays_as_it_was() {
        let sent = sender().packet(&ORIGINAL).unwrap().slices().concat();
        let restore = |mut packet: Vec<u8>, is_missing: bool| {
            let before = packet.clone();
            let refused = RECEIVER.restore(&mut packet, |_| is_missing).map(|_| ());
            assert_eq!(packet, before);
            refused.unwrap_err()
        };
        assert_eq!(
            restore(sent.clone(), false),
            NotRestored::NotMissing(0x1234)
        );
        assert_eq!(restore(ORIGINAL.to_vec(), true), NotRestored::Foreign);
        let mut other = sent.clone();
        other[11] ^= 1;
        assert_eq!(restore(other.clone(), true), NotRestored::Foreign);
        for bytes in 0..12 {
            assert_eq!(
                restore(sent[..bytes].to_vec(), true),
                NotRestored::Malformed
            );
        }
        for bytes in 12..14 {
            assert_eq!(restore(sent[..bytes].to_vec(), true), NotRestored::Empty);
        }
        let untold = RtxReceiver {
            ssrc: None,
            ..RECEIVER
        };
        assert!(untold.restore(&mut other, |_| true).is_ok());
    }
}
