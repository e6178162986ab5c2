//! Parity packets of SMPTE ST 2022-1 (Pro-MPEG Code of Practice 3, release 2): their headers.
//!
//! An RTP header, sixteen bytes of FEC header, then the XOR of payloads. The RTP header's flags and
//! marker are those of the XOR, not of the packet (as in RFC 2733, section 5): a parity packet must
//! not be parsed like other RTP, it may seem to have an extension.
//!
//! ```text
//!  SNBase low bits (16)          | length recovery (16)
//!  E=1 | PT recovery (7)         | mask (24), 0
//!  TS recovery (32)
//!  X=0 | D | type (3) | index (3) | offset (8) | NA (8) | SNBase ext bits (8), 0
//! ```
//!
//! `D` is 0 for columns, whose packets are `offset` = L apart, and 1 for rows; `NA` packets are
//! covered.

use super::parity::{BadParity, Members, Parity, Recovery};
use super::{PACKETS_MAX, SIDE_MAX};
use crate::loss::{RTP_HEADER_BYTES, be16};

/// The payload type of parity packets.
pub const PAYLOAD_TYPE: u8 = 96;
/// RTP header and FEC header.
pub const HEADER_BYTES: usize = RTP_HEADER_BYTES + 16;
/// Columns go to the port of the media and this.
pub const COLUMN_PORT_OFFSET: u16 = 2;
/// Rows go to the port of the media and this.
pub const ROW_PORT_OFFSET: u16 = 4;

const VERSION_2: u8 = 0x80;
const MARKER_BIT: u8 = 0x80;
const EXTENDED: u8 = 0x80;
const ROW_BIT: u8 = 0x40;

/// What of the header changes from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the parity packet in its own stream: columns and rows are counted apart.
    pub sequence: u16,
    /// Media clock when it is sent.
    pub timestamp: u32,
    /// The first packet covered.
    pub base: u16,
    /// XOR of the fixed fields.
    pub recovery: Recovery,
    /// Distance of covered packets: L for columns; 1: a row.
    pub offset: u8,
    /// How many are covered: D for columns, L for rows.
    pub count: u8,
    /// Is it a row's?
    pub is_row: bool,
}

impl Header {
    /// As bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let [flags, kind, t0, t1, t2, t3, l0, l1] = self.recovery.fields();
        let [s0, s1] = self.sequence.to_be_bytes();
        let [c0, c1, c2, c3] = self.timestamp.to_be_bytes();
        let [b0, b1] = self.base.to_be_bytes();
        let direction = if self.is_row { ROW_BIT } else { 0 };
        #[rustfmt::skip]
        let bytes = [
            VERSION_2 | flags, kind & MARKER_BIT | PAYLOAD_TYPE, s0, s1,
            c0, c1, c2, c3,
            0, 0, 0, 0, // the source is not used
            b0, b1, l0, l1,
            EXTENDED | kind, 0, 0, 0,
            t0, t1, t2, t3,
            direction, self.offset, self.count, 0,
        ];
        bytes
    }
}

/// Reads a parity packet, be it a column's or a row's.
///
/// # Errors
///
/// [`BadParity`]: another format, or a matrix beyond the standard's limits.
pub fn parse(packet: &[u8]) -> Result<Parity<'_>, BadParity> {
    let (header, payload) = packet
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or(BadParity("too short"))?;
    if header[0] & !0x3f != VERSION_2 || header[1] & !MARKER_BIT != PAYLOAD_TYPE {
        return Err(BadParity("not of SMPTE ST 2022-1"));
    }
    let &[kind, _, _, _, t0, t1, t2, t3, direction, offset, count, _] =
        header.last_chunk::<12>().ok_or(BadParity("too short"))?;
    if kind & EXTENDED == 0 || direction & !ROW_BIT != 0 {
        return Err(BadParity("not an XOR with the extended header"));
    }
    let is_row = direction & ROW_BIT != 0;
    let sides = 1..=SIDE_MAX;
    let is_within = sides.contains(&offset)
        && sides.contains(&count)
        && u16::from(offset) * u16::from(count) <= PACKETS_MAX
        && (!is_row || offset == 1);
    if !is_within {
        return Err(BadParity("a matrix beyond the limits"));
    }
    let kind = header[1] & MARKER_BIT | kind & !EXTENDED;
    let fields = [header[0], kind, t0, t1, t2, t3, header[14], header[15]];
    Ok(Parity {
        members: Members::stride(be16(header, 12), offset.into(), count.into()),
        recovery: Recovery::from_fields(fields),
        payload,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// XOR of packets 0x1234, 0x1239, 0x123e, 0x1243 (L = 5, D = 4), computed by hand: markers 1 0
    /// 0 0, payload type 33 (even times: 0), timestamps 0x10, 0x20, 0x40, 0x80, lengths 2, 2, 2, 3.
    const COLUMN: [u8; 31] = [
        0x80, 0xe0, 0x00, 0x07, 0x00, 0x00, 0x01, 0x00, 0, 0, 0, 0, // RTP
        0x12, 0x34, 0x00, 0x01, 0x80, 0, 0, 0, // base, length, E and type, mask
        0x00, 0x00, 0x00, 0xf0, 0x00, 5, 4, 0, // timestamp; column, L, D
        0xaa, 0xbb, 0xcc,
    ];

    fn header() -> Header {
        Header {
            sequence: 7,
            timestamp: 0x100,
            base: 0x1234,
            recovery: Recovery::from_fields([0, 0x80, 0, 0, 0, 0xf0, 0, 1]),
            offset: 5,
            count: 4,
            is_row: false,
        }
    }

    #[test]
    fn header_is_as_computed_by_hand() {
        assert_eq!(header().bytes(), COLUMN[..28]);
        let row = Header {
            offset: 1,
            count: 5,
            is_row: true,
            recovery: Recovery::from_fields([0x35, 33, 1, 2, 3, 4, 5, 6]),
            ..header()
        };
        let bytes = row.bytes();
        assert_eq!(bytes[..2], [0xb5, 96]);
        assert_eq!(
            bytes[14..],
            [5, 6, 0xa1, 0, 0, 0, 1, 2, 3, 4, 0x40, 1, 5, 0]
        );
        let parity = parse(&bytes).unwrap();
        assert_eq!(parity.recovery, row.recovery);
        assert_eq!(parity.members, Members::stride(0x1234, 1, 5));
        assert!(parity.payload.is_empty());
    }

    #[test]
    fn packet_reads_back() {
        let parity = parse(&COLUMN).unwrap();
        assert_eq!(parity.members, Members::stride(0x1234, 5, 4));
        assert_eq!(parity.recovery, header().recovery);
        assert_eq!(parity.payload, [0xaa, 0xbb, 0xcc]);
    }

    #[test]
    fn what_breaks_the_layout_is_refused() {
        for length in 0..28 {
            assert_eq!(parse(&COLUMN[..length]), Err(BadParity("too short")));
        }
        let changed = |at: usize, value: u8| {
            let mut packet = COLUMN;
            packet[at] = value;
            parse(&packet).map(|_| ())
        };
        for (at, value) in [
            (0, 0x00),  // version
            (1, 97),    // payload type
            (16, 0x00), // not extended
            (24, 0x80), // a longer header
            (24, 0x08), // another code
            (24, 0x01), // another index
            (24, 0x40), // a row of packets that do not follow each other
            (25, 0),
            (25, 26),
            (25, 21),
            (26, 0),
            (26, 21),
            (26, 255),
        ] {
            assert!(changed(at, value).is_err(), "{at} {value}");
        }
        assert!(changed(17, 0xff).is_ok(), "the mask is not used");
    }
}
