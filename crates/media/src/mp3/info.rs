//! Frames that describe the others and have no sound: Xing and Info (LAME writes them, ffmpeg too),
//! VBRI (Fraunhofer).

use hythe_rtp::mpeg_audio::{HEADER_BYTES, Header, Version};

const XING: [&[u8]; 2] = [b"Xing", b"Info"];
const VBRI: &[u8] = b"VBRI";
/// Where VBRI stands, whatever the side information.
const VBRI_AT: usize = HEADER_BYTES + 32;
const CRC_BYTES: usize = 2;

/// Does `frame`, a whole frame of layer III, describe the others?
pub(super) fn is_info(header: Header, frame: &[u8]) -> bool {
    let has = |at: usize, mark: &[u8]| frame.get(at..).is_some_and(|rest| rest.starts_with(mark));
    let at = HEADER_BYTES + side_info_bytes(header);
    let behind_crc = at + if header.has_crc() { CRC_BYTES } else { 0 };
    let is_xing = |at| XING.iter().any(|mark| has(at, mark));
    // Some writers forget that a CRC stands in front.
    is_xing(at) || is_xing(behind_crc) || has(VBRI_AT, VBRI)
}

/// ISO/IEC 11172-3 and 13818-3, 2.4.1.7.
fn side_info_bytes(header: Header) -> usize {
    match (header.version() == Version::Mpeg1, header.channels()) {
        (true, 1) => 17,
        (true, _) => 32,
        (false, 1) => 9,
        (false, _) => 17,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_known_by_their_marks_behind_the_side_information() {
        for (header, at, mark, expected) in [
            ([0xff, 0xfb, 0x90, 0x64], 36, b"Info", true),
            ([0xff, 0xfb, 0x90, 0x64], 36, b"Xing", true),
            ([0xff, 0xfb, 0x90, 0x64], 36, b"VBRI", true),
            ([0xff, 0xfb, 0x90, 0x64], 37, b"Info", false),
            ([0xff, 0xfb, 0x90, 0xc4], 21, b"Info", true), // one channel
            ([0xff, 0xfa, 0x90, 0x64], 38, b"Info", true), // with a CRC
            ([0xff, 0xf3, 0x90, 0x64], 21, b"Xing", true), // MPEG-2
            ([0xff, 0xf3, 0x90, 0xc4], 13, b"Xing", true),
            ([0xff, 0xf3, 0x90, 0xc4], 36, b"VBRI", true),
        ] {
            let mut frame = header.to_vec();
            frame.resize(400, 0);
            frame[at..at + 4].copy_from_slice(mark);
            let parsed = Header::parse(&frame).unwrap();
            assert_eq!(is_info(parsed, &frame), expected, "{header:x?}");
            assert!(!is_info(parsed, &frame[..8]));
        }
    }
}
