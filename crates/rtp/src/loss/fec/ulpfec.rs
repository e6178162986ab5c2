//! Parity packets of RFC 5109 (ULPFEC), level 0: their headers.
//!
//! An ordinary RTP packet whose payload is a FEC header, the header of level 0, and the XOR. Levels
//! above 0, which protect the first bytes of packets once more, are passed over when received and
//! never sent.
//!
//! ```text
//!  E=0 | L | P | X | CC (4) | M | PT recovery (7) | SN base (16)
//!  TS recovery (32)
//!  length recovery (16)
//!  protection length (16) | mask (16, or 48 where L = 1)
//! ```

use rtp_types::RtpPacket;

use super::parity::{BadParity, Members, Parity, Recovery};
use crate::loss::{RTP_HEADER_BYTES, be16};

/// Most numbers that one parity packet spans: bits of the long mask.
pub const SPAN_MAX: usize = 48;
/// RTP header, FEC header, level header with the long mask.
pub const HEADER_BYTES_MAX: usize = RTP_HEADER_BYTES + FEC_HEADER_BYTES + 8;

const FEC_HEADER_BYTES: usize = 10;
const SHORT_MASK_BITS: u32 = 16;
const EXTENSION_BIT: u8 = 0x80;
const LONG_MASK_BIT: u8 = 0x40;

/// What of the headers changes from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source of the parity stream.
    pub ssrc: u32,
    /// Its payload type.
    pub payload_type: u8,
    /// Number of the parity packet in its own stream.
    pub sequence: u16,
    /// Media clock when it is sent.
    pub timestamp: u32,
    /// What it covers; spans at most [`SPAN_MAX`] numbers.
    pub members: Members,
    /// XOR of the fixed fields.
    pub recovery: Recovery,
    /// Bytes of XOR that follow.
    pub protected: u16,
}

impl Header {
    /// As bytes, and how many of them.
    #[must_use]
    pub fn bytes(&self) -> ([u8; HEADER_BYTES_MAX], usize) {
        let [flags, kind, t0, t1, t2, t3, l0, l1] = self.recovery.fields();
        let [s0, s1] = self.sequence.to_be_bytes();
        let [c0, c1, c2, c3] = self.timestamp.to_be_bytes();
        let [i0, i1, i2, i3] = self.ssrc.to_be_bytes();
        let [b0, b1] = self.members.base.to_be_bytes();
        let [p0, p1] = self.protected.to_be_bytes();
        // The first number is the highest bit.
        let mask = (self.members.offsets as u64).reverse_bits();
        let [m0, m1, m2, m3, m4, m5, ..] = mask.to_be_bytes();
        let is_long = mask << SHORT_MASK_BITS != 0;
        let long = if is_long { LONG_MASK_BIT } else { 0 };
        #[rustfmt::skip]
        let bytes = [
            0x80, self.payload_type & 0x7f, s0, s1,
            c0, c1, c2, c3,
            i0, i1, i2, i3,
            long | flags, kind, b0, b1,
            t0, t1, t2, t3,
            l0, l1,
            p0, p1, m0, m1, m2, m3, m4, m5,
        ];
        (bytes, if is_long { HEADER_BYTES_MAX } else { 26 })
    }
}

/// Reads a parity packet. That it belongs to the stream, its payload type says, which the caller
/// has looked at.
///
/// # Errors
///
/// [`BadParity`]: not of this format, or it protects nothing.
pub fn parse(packet: &[u8]) -> Result<Parity<'_>, BadParity> {
    let rtp = RtpPacket::parse(packet).map_err(|_| BadParity("no RTP packet"))?;
    let end = packet.len() - usize::from(rtp.padding().unwrap_or(0));
    let payload = &packet[rtp.payload_offset()..end];
    let (header, level) = payload
        .split_first_chunk::<FEC_HEADER_BYTES>()
        .ok_or(BadParity("too short"))?;
    let &[flags, kind, b0, b1, t0, t1, t2, t3, l0, l1] = header;
    if flags & EXTENSION_BIT != 0 {
        return Err(BadParity("an extended header"));
    }
    let mask_bytes = if flags & LONG_MASK_BIT == 0 { 2 } else { 6 };
    let (level_header, behind) = level
        .split_at_checked(2 + mask_bytes)
        .ok_or(BadParity("too short"))?;
    let protected = behind
        .get(..be16(level_header, 0).into())
        .ok_or(BadParity("less than it says to protect"))?;
    let mut mask = [0; 8];
    mask[..mask_bytes].copy_from_slice(&level_header[2..]);
    let offsets = u64::from_be_bytes(mask).reverse_bits();
    if offsets == 0 {
        return Err(BadParity("no packet is protected"));
    }
    Ok(Parity {
        members: Members {
            base: u16::from_be_bytes([b0, b1]),
            offsets: offsets.into(),
        },
        recovery: Recovery::from_fields([flags, kind, t0, t1, t2, t3, l0, l1]),
        payload: protected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(offsets: u128) -> Header {
        Header {
            ssrc: 2,
            payload_type: 127,
            sequence: 1,
            timestamp: 5,
            members: Members { base: 8, offsets },
            recovery: Recovery::from_fields([0, 0x80 | 11 ^ 18, 0, 0, 0, 3 ^ 5, 0x01, 0x74]),
            protected: 2,
        }
    }

    /// Packets 8 to 11 are covered (mask 0xf000).
    #[test]
    fn short_mask_is_as_computed_by_hand() {
        let (bytes, length) = header(0b1111).bytes();
        let expected = [
            0x80, 127, 0, 1, 0, 0, 0, 5, 0, 0, 0, 2, // RTP
            0x00, 0x99, 0, 8, 0, 0, 0, 6, 0x01, 0x74, // FEC
            0, 2, 0xf0, 0x00, // level 0
        ];
        assert_eq!(bytes[..length], expected);
        let packet = [&expected[..], &[0xab, 0xcd, 0xff]].concat();
        let parity = parse(&packet).unwrap();
        assert_eq!(parity.members, Members::stride(8, 1, 4));
        assert_eq!(parity.recovery, header(1).recovery);
        assert_eq!(
            parity.payload,
            [0xab, 0xcd],
            "what follows is another level"
        );
    }

    #[test]
    fn long_mask_reaches_the_48th_packet() {
        let offsets = 1 | 1 << 16 | 1 << 47;
        let (bytes, length) = header(offsets).bytes();
        assert_eq!(length, 30);
        assert_eq!(bytes[12], 0x40);
        assert_eq!(bytes[22..], [0, 2, 0x80, 0, 0x80, 0, 0, 1]);
        let packet = [&bytes[..], &[1, 2]].concat();
        assert_eq!(parse(&packet).unwrap().members.offsets, offsets);
    }

    #[test]
    fn what_breaks_the_layout_is_refused() {
        let (bytes, length) = header(1 | 1 << 20).bytes();
        let whole = [&bytes[..length], &[1, 2]].concat();
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err(), "{length}");
        }
        let mut extended = whole.clone();
        extended[12] |= 0x80;
        assert_eq!(parse(&extended), Err(BadParity("an extended header")));
        let mut empty = whole;
        empty[24..30].fill(0);
        assert_eq!(parse(&empty), Err(BadParity("no packet is protected")));
    }
}
