//! A UDP datagram over IPv4 as an Ethernet frame: 42 bytes of headers, then the payload.
//!
//! Pure. IPv4's checksum is computed; UDP's is left out, as IPv4 permits (RFC 768): the payload has
//! one of its own. What it never does: fragments, options, VLAN tags, IPv6.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

/// Ethernet, IPv4 and UDP.
pub const HEADERS_BYTES: usize = 14 + 20 + 8;
/// The largest payload of a frame in a chunk of 4,096 bytes, of which the kernel keeps 256.
pub const PAYLOAD_BYTES_MAX: usize = 4096 - 256 - HEADERS_BYTES;

const IPV4: [u8; 2] = [0x08, 0x00];
/// Version 4, five words of header.
const VERSION_LENGTH: u8 = 0x45;
const DO_NOT_FRAGMENT: [u8; 2] = [0x40, 0x00];
const UDP: u8 = 17;
const TIME_TO_LIVE: u8 = 64;

/// The addresses of the two stations of a link: whose the frame is for, and whose it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stations(pub [u8; 12]);

impl Stations {
    /// Those of an answer.
    #[must_use]
    pub fn swapped(self) -> Self {
        let mut swapped = [0; 12];
        swapped[..6].copy_from_slice(&self.0[6..]);
        swapped[6..].copy_from_slice(&self.0[..6]);
        Self(swapped)
    }
}

/// Both ends of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// Where it comes from.
    pub from: SocketAddrV4,
    /// Where it goes to.
    pub to: SocketAddrV4,
}

impl Ends {
    /// Those of an answer.
    #[must_use]
    pub fn swapped(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
        }
    }

    /// As the bytes of a frame from the first address on, by which the program finds a socket.
    #[must_use]
    pub fn key(self) -> [u8; 12] {
        let mut key = [0; 12];
        key[..4].copy_from_slice(&self.from.ip().octets());
        key[4..8].copy_from_slice(&self.to.ip().octets());
        key[8..10].copy_from_slice(&self.from.port().to_be_bytes());
        key[10..].copy_from_slice(&self.to.port().to_be_bytes());
        key
    }
}

/// A datagram that was found in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Whose frame it is.
    pub stations: Stations,
    /// Where it comes from and goes to.
    pub ends: Ends,
    /// Its bytes in the frame.
    pub payload: Range<usize>,
}

/// The headers of a datagram.
///
/// # Panics
/// If the payload is longer than [`PAYLOAD_BYTES_MAX`].
#[must_use]
pub fn headers(stations: Stations, ends: Ends, payload_bytes: usize) -> [u8; HEADERS_BYTES] {
    assert!(payload_bytes <= PAYLOAD_BYTES_MAX, "{payload_bytes} bytes");
    // Fits: less than a chunk.
    let payload_bytes = payload_bytes as u16;
    let mut bytes = [0; HEADERS_BYTES];
    bytes[..12].copy_from_slice(&stations.0);
    bytes[12..14].copy_from_slice(&IPV4);
    bytes[14] = VERSION_LENGTH;
    bytes[16..18].copy_from_slice(&(20 + 8 + payload_bytes).to_be_bytes());
    bytes[20..22].copy_from_slice(&DO_NOT_FRAGMENT);
    bytes[22] = TIME_TO_LIVE;
    bytes[23] = UDP;
    bytes[26..38].copy_from_slice(&ends.key());
    bytes[38..40].copy_from_slice(&(8 + payload_bytes).to_be_bytes());
    let sum = checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Finds a whole datagram, not a fragment of one, in a frame.
#[must_use]
pub fn parse(frame: &[u8]) -> Option<Datagram> {
    parse_headers(frame.first_chunk()?, frame.len())
}

/// As [`parse`], of a frame of so many bytes that begins so.
#[must_use]
pub fn parse_headers(bytes: &[u8; HEADERS_BYTES], frame_bytes: usize) -> Option<Datagram> {
    let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let is_ours = bytes[12..14] == IPV4
        && bytes[14] == VERSION_LENGTH
        && half(20) & 0x3fff == 0
        && bytes[23] == UDP;
    let (packet, datagram) = (usize::from(half(16)), usize::from(half(38)));
    let payload = HEADERS_BYTES..14 + packet;
    let is_whole = packet == 20 + datagram && datagram >= 8 && payload.end <= frame_bytes;
    let address = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
    let mut stations = [0; 12];
    stations.copy_from_slice(&bytes[..12]);
    (is_ours && is_whole).then_some(Datagram {
        stations: Stations(stations),
        ends: Ends {
            from: SocketAddrV4::new(address(26), half(34)),
            to: SocketAddrV4::new(address(30), half(36)),
        },
        payload,
    })
}

/// That of an IPv4 header (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let halves = header.as_chunks::<2>().0;
    let sum: u32 = halves
        .iter()
        .map(|half| u32::from(u16::from_be_bytes(*half)))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    // Fits: folded twice.
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends = Ends {
        from: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 0x1234),
        to: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 0x5678),
    };
    const STATIONS: Stations = Stations([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = headers(STATIONS, ENDS, payload.len()).to_vec();
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn what_is_built_is_found_also_behind_padding() {
        for bytes in [0, 1, 48, PAYLOAD_BYTES_MAX] {
            let mut built = frame(&vec![7; bytes]);
            // Ethernet pads short frames.
            built.resize(built.len().max(60), 0);
            let found = parse(&built).expect("a datagram");
            assert_eq!((found.stations, found.ends), (STATIONS, ENDS));
            assert_eq!(found.payload, HEADERS_BYTES..HEADERS_BYTES + bytes);
        }
        assert_eq!(STATIONS.swapped().swapped(), STATIONS);
        assert_eq!(STATIONS.swapped().0[..6], [7, 8, 9, 10, 11, 12]);
    }

    #[test]
    fn checksum_of_a_header_with_it_is_zero() {
        // The example of RFC 1071, section 3.
        assert_eq!(checksum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&frame(&[1, 2, 3])[14..34]), 0);
    }

    #[test]
    fn what_is_no_whole_datagram_is_refused() {
        let sound = frame(&[1; 20]);
        assert!(parse(&sound).is_some());
        for bytes in 0..sound.len() {
            assert_eq!(parse(&sound[..bytes]), None, "{bytes} bytes");
        }
        // Ethernet's type; options; a fragment; another protocol; lengths that contradict.
        for at in [12, 14, 20, 21, 23, 16, 17, 38, 39] {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x21;
            assert_eq!(parse(&damaged), None, "byte {at}");
        }
    }
}
