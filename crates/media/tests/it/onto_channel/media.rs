//! Media of each encoding, of noise: no part of it is like another.

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::packetizer;
use hythe_rtp::unit::Unit;

use hythe_testing::Dice;

pub(crate) const PAYLOAD_TYPE: u8 = 96;
pub(crate) const SSRC: u32 = 7;

pub(crate) fn format(encoding: Encoding) -> StreamFormat {
    StreamFormat {
        encoding,
        payload_type: PAYLOAD_TYPE,
        clock_hz: match encoding {
            Encoding::Pcmu | Encoding::Pcma => 8000,
            Encoding::L16 | Encoding::Opus => 48_000,
            _ => 90_000,
        },
        channels: 1,
        parameters: String::new(),
    }
}

pub(crate) fn noise(dice: &mut Dice, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| dice.below(256) as u8).collect()
}

/// The pieces of one unit.
fn unit(encoding: Encoding, dice: &mut Dice, index: usize) -> Vec<Vec<u8>> {
    let behind = |dice: &mut Dice, front: &[u8], bytes: usize| {
        let mut piece = noise(dice, bytes);
        piece[..front.len()].copy_from_slice(front);
        piece
    };
    match encoding {
        Encoding::MpegTs => {
            let packets = (0..7).map(|_| behind(dice, &[0x47], 188));
            vec![packets.collect::<Vec<_>>().concat()]
        }
        Encoding::L16 => vec![noise(dice, 1920)],
        Encoding::Pcmu | Encoding::Pcma => vec![noise(dice, 160)],
        Encoding::Opus => {
            let bytes = 20 + dice.below(200);
            vec![behind(dice, &[0xfc], bytes)]
        }
        // 128 kbit/s, which share packets, and every fifth of 320 kbit/s, which goes in fragments.
        Encoding::MpegAudio if index % 5 == 4 => {
            vec![behind(dice, &[0xff, 0xfb, 0xe0, 0x64], 1044)]
        }
        Encoding::MpegAudio => {
            let frames = (0..2).map(|_| behind(dice, &[0xff, 0xfb, 0x90, 0x64], 417));
            vec![frames.collect::<Vec<_>>().concat()]
        }
        Encoding::H264 if index.is_multiple_of(10) => {
            let slice = 20_000 + dice.below(60_000);
            vec![
                behind(dice, &[0x67], 20),
                behind(dice, &[0x68], 6),
                behind(dice, &[0x65], slice),
            ]
        }
        Encoding::H264 => {
            let (first, second) = (4 + dice.below(4000), 4 + dice.below(900));
            vec![behind(dice, &[0x41], first), behind(dice, &[0x41], second)]
        }
        // H.265.
        _ => {
            let bytes = 4 + dice.below(9000);
            vec![behind(dice, &[0x02, 0x01], bytes)]
        }
    }
}

/// Datagrams of a stream of so many units; the numbers begin shortly before they wrap.
pub(crate) fn datagrams(encoding: Encoding, units: usize, dice: &mut Dice) -> Vec<Vec<u8>> {
    let format = format(encoding);
    let pieces = (0..units).map(|index| unit(encoding, dice, index));
    datagrams_of(&format, &pieces.collect::<Vec<_>>())
}

/// Datagrams of these units, each of these pieces.
pub(crate) fn datagrams_of(format: &StreamFormat, units: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let mut packetizer = packetizer(format).unwrap();
    let mut datagrams = Vec::new();
    let mut sequence = 65_500_u16;
    for (index, pieces) in units.iter().enumerate() {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let time = index as u64 * 3600;
        let unit = Unit {
            pieces: &pieces,
            time,
            due: time,
            duration: 0,
            is_start: true,
        };
        // Transport packets of a unit share a packet; longer frames go in fragments.
        let limit = match format.encoding {
            Encoding::MpegTs => 1400,
            _ => 1000,
        };
        packetizer.packetize(&unit, limit, &mut |payload| {
            let marker = if payload.marker { 0x80 } else { 0 };
            let timestamp = payload.time as u32;
            let header = [
                &[0x80, PAYLOAD_TYPE | marker][..],
                &sequence.to_be_bytes(),
                &timestamp.to_be_bytes(),
                &SSRC.to_be_bytes(),
            ];
            datagrams.push([&header.concat(), payload.prefix, &payload.body.concat()].concat());
            sequence = sequence.wrapping_add(1);
        });
    }
    datagrams
}
