//! Damaged and invented input for every parser, by a seed that is printed; `HYTHE_TEST_SEED`
//! repeats a run. The fuzz targets check the same with inputs that libFuzzer finds.

use crate::hostile_input;

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::sdp::{self, Retransmission, StreamDescription};
use hythe_testing::Dice;
use ogg::{PacketWriteEndInfo, PacketWriter};

/// Inputs for each parser.
const ROUNDS: usize = 20_000;

fn fuzz(originals: &[Vec<u8>], prepare: impl Fn(&mut Vec<u8>), check: fn(&[u8])) {
    hythe_testing::play(originals, ROUNDS, |mut bytes| {
        prepare(&mut bytes);
        check(&bytes);
    });
}

fn leave(_: &mut Vec<u8>) {}

/// Twelve packets, three of them with clock references.
fn transport_stream() -> Vec<u8> {
    let mut stream = Vec::new();
    for count in 0..12 {
        let mut packet = vec![0x47, 1, 0, 0x10 | count];
        if count % 5 == 0 {
            packet = vec![0x47, 1, 0, 0x20, 183, 0x10, 0, 0, count, 0, 0, 0];
        }
        packet.resize(188, count);
        stream.extend(packet);
    }
    stream
}

#[test]
fn transport_streams() {
    let stream = transport_stream();
    let longer = stream
        .chunks(188)
        .flat_map(|packet| [&[0; 4], packet].concat())
        .collect();
    fuzz(&[stream, longer], leave, hostile_input::transport_stream);
}

#[test]
fn wav_files() {
    let mut files = Vec::new();
    for (bits, tag) in [(16, 1), (8, 6)] {
        let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
        file.extend([tag, 0, 2, 0, 0x80, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, bits, 0]);
        file.extend(b"LIST\x03\0\0\0abc\0data\0\x02\0\0");
        file.resize(file.len() + 512, 7);
        files.push(file);
    }
    fuzz(&files, leave, hostile_input::wav);
}

#[test]
fn mpeg_audio_files() {
    let stream = |header: [u8; 4], bytes: usize| {
        let mut frame = header.to_vec();
        frame.resize(bytes, 0);
        let tags = [b"ID3\x04\0\0\0\0\0\x20".to_vec(), vec![0; 32]].concat();
        let mut end = b"TAG".to_vec();
        end.resize(128, 0);
        [tags, frame.repeat(14), end].concat()
    };
    let files = [
        stream([0xff, 0xe3, 0x18, 0xc0], 72),
        stream([0xff, 0xfd, 0x14, 0xc0], 96),
        stream([0xff, 0xff, 0x18, 0xc0], 48),
    ];
    fuzz(&files, leave, hostile_input::mpeg_audio);
}

/// Twelve packets, of which the sixth has `sixth_bytes`.
fn opus_file(sixth_bytes: usize) -> Vec<u8> {
    let mut writer = PacketWriter::new(Vec::new());
    let head = b"OpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0".to_vec();
    let mut write =
        |packet: Vec<u8>, end, granule| writer.write_packet(packet, 1, end, granule).unwrap();
    write(head, PacketWriteEndInfo::EndPage, 0);
    write(
        b"OpusTags\0\0\0\0\0\0\0\0".to_vec(),
        PacketWriteEndInfo::EndPage,
        0,
    );
    for count in 1..=12 {
        let end = match count {
            12 => PacketWriteEndInfo::EndStream,
            4 | 8 => PacketWriteEndInfo::EndPage,
            _ => PacketWriteEndInfo::NormalPacket,
        };
        let bytes = if count == 6 { sixth_bytes } else { 20 };
        write(vec![0xfc; bytes], end, count * 960);
    }
    writer.into_inner()
}

/// Makes the sums of all pages right, so that what is inside them is looked at.
fn mend_sums(file: &mut [u8]) {
    let starts: Vec<usize> = (0..file.len())
        .filter(|at| file[*at..].starts_with(b"OggS"))
        .collect();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(file.len());
        let Some(page) = file.get_mut(*start..end).filter(|page| page.len() >= 27) else {
            continue;
        };
        page[22..26].fill(0);
        let segments = usize::from(page[26]).min(page.len() - 27);
        let body: usize = page[27..27 + segments]
            .iter()
            .map(|length| usize::from(*length))
            .sum();
        let sum = page[..(27 + segments + body).min(page.len())]
            .iter()
            .fold(0u32, |sum, byte| {
                (0..8).fold(sum ^ u32::from(*byte) << 24, |sum, _| {
                    sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
                })
            });
        page[22..26].copy_from_slice(&sum.to_le_bytes());
    }
}

#[test]
fn ogg_files() {
    fuzz(
        &[opus_file(20), opus_file(300)],
        |file| mend_sums(file),
        hostile_input::ogg_opus,
    );
    // A packet over two pages makes inputs large.
    let long = opus_file(70_000);
    let mut dice = Dice::new(5);
    for _ in 0..200 {
        let mut damaged = dice.damage(&long);
        hostile_input::ogg_opus(&damaged);
        mend_sums(&mut damaged);
        hostile_input::ogg_opus(&damaged);
    }
}

#[test]
fn received_payloads() {
    let frame = [&[0xff, 0xe3, 0x18, 0xc0][..], &[0; 68]].concat();
    let with_header = |offset: u8, part: &[u8]| [&[0, 0, 0, offset], part].concat();
    let ts: Vec<u8> = [&[0x47][..], &[0; 187]].concat();
    let sequences: [(u8, Vec<Vec<u8>>); 6] = [
        (0, vec![ts.clone(), ts]),
        (1, vec![vec![1; 100]; 3]),
        (0x82, vec![vec![1; 100]; 3]),
        (
            4,
            vec![
                with_header(0, &[&frame[..], &frame].concat()),
                with_header(0, &frame),
            ],
        ),
        (
            4,
            vec![
                with_header(0, &frame[..30]),
                with_header(30, &frame[30..60]),
                with_header(60, &frame[60..]),
            ],
        ),
        (5, vec![vec![0xfc; 60], vec![0xff; 60], vec![3, 1, 0]]),
    ];
    let originals = sequences.map(|(encoding, payloads)| {
        let framed = payloads.iter().flat_map(|payload| {
            assert!(payload.len() < 256);
            [&[4, payload.len() as u8][..], payload].concat()
        });
        [encoding].into_iter().chain(framed).collect()
    });
    fuzz(&originals, leave, hostile_input::payloads);
}

#[test]
fn descriptions() {
    let format = StreamFormat {
        encoding: Encoding::H264,
        payload_type: 96,
        clock_hz: 90_000,
        channels: 1,
        parameters: "packetization-mode=1".to_owned(),
    };
    let stream = StreamDescription {
        takes_nack: true,
        rtcp_port: Some(7000),
        ptime_ms: Some(20),
        retransmission: Some(Retransmission {
            payload_type: 97,
            time_ms: Some(300),
        }),
        ..StreamDescription::new(format, "239.1.2.3:5004".parse().unwrap())
    };
    let other = StreamDescription::new(
        hythe_rtp::L16::new(48_000, 2).unwrap().into(),
        "[::1]:6000".parse().unwrap(),
    );
    let originals = [
        sdp::describe(std::slice::from_ref(&stream), 1).into_bytes(),
        sdp::describe(&[stream, other], 1).into_bytes(),
    ];
    fuzz(&originals, leave, hostile_input::description);
}
