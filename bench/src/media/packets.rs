//! The packets of a stream: media of a file, an RTP header in front of each piece.
//!
//! Both ends use it: the sender builds them, the receiver compares. A packet's sequence number is
//! its
//! place in the file.

use std::fs::File;
use std::io::{Error, ErrorKind, IoSliceMut};

use rustix::io::preadv;

/// RTP's fixed header (RFC 3550, section 5.1).
pub(super) const HEADER_BYTES: usize = 12;
/// Pieces that one read takes; the kernel takes 1024.
const PIECES_MAX: usize = 512;
/// MPEG-TS (RFC 3551, table 5).
const PAYLOAD_TYPE: u8 = 33;
const VERSION_2: u8 = 0x80;

/// The header of packet `number`. The time stamp is a number, too: nobody here plays it.
pub(super) fn header(number: u32, source: u32) -> [u8; HEADER_BYTES] {
    let sequence = (number as u16).to_be_bytes();
    let mut made = [0; HEADER_BYTES];
    made[..2].copy_from_slice(&[VERSION_2, PAYLOAD_TYPE]);
    made[2..4].copy_from_slice(&sequence);
    made[4..8].copy_from_slice(&number.to_be_bytes());
    made[8..].copy_from_slice(&source.to_be_bytes());
    made
}

/// The sequence number of what may be an RTP packet.
pub(super) fn sequence(packet: &[u8]) -> Option<u16> {
    match packet {
        [first, _, high, low, ..] if packet.len() > HEADER_BYTES && first & 0xc0 == VERSION_2 => {
            Some(u16::from_be_bytes([*high, *low]))
        }
        _ => None,
    }
}

/// Reads the media of packets `first` and up into `memory`, as many as fit, and writes the header
/// in front of each.
pub(super) fn lay_out(
    file: &File,
    first: u32,
    packet_bytes: usize,
    memory: &mut [u8],
) -> Result<(), Error> {
    let mut number = first;
    for batch in memory.chunks_mut(packet_bytes * PIECES_MAX) {
        let offset = u64::from(number) * (packet_bytes - HEADER_BYTES) as u64;
        let mut pieces = Vec::with_capacity(PIECES_MAX.min(batch.len() / packet_bytes));
        for packet in batch.chunks_exact_mut(packet_bytes) {
            let (head, media) = packet.split_at_mut(HEADER_BYTES);
            head.copy_from_slice(&header(number, 0));
            pieces.push(IoSliceMut::new(media));
            number += 1;
        }
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        if preadv(file, &mut pieces, offset)? != wanted {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_built_is_header_media_header_media() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&(0..=255).collect::<Vec<u8>>())
            .expect("written");
        let mut memory = vec![0; 3 * 20];
        lay_out(&file, 2, 20, &mut memory).expect("built");
        for (number, packet) in (2_u8..).zip(memory.chunks(20)) {
            assert_eq!(sequence(packet), Some(u16::from(number)));
            let media: Vec<u8> = (number * 8..).take(8).collect();
            assert_eq!(packet[HEADER_BYTES..], media);
        }
        assert!(
            lay_out(&file, 30, 20, &mut memory).is_err(),
            "beyond its end"
        );
    }

    #[test]
    fn what_is_no_packet_has_no_number() {
        assert_eq!(sequence(&[0x80; 13]), Some(0x8080));
        assert_eq!(sequence(&[0x80; 12]), None);
        assert_eq!(sequence(&[0x40; 100]), None);
        assert_eq!(sequence(&[]), None);
    }
}
