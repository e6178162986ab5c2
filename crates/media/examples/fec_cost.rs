//! What forward error correction costs: nanoseconds of CPU per media packet of 1,316 bytes (seven
//! packets of a transport stream).
//!
//! `cargo run --release -p hythe-media --example fec_cost`

use std::hint::black_box;

use hythe_rtp::loss::fec::decoder::DecoderLimits;
use hythe_rtp::loss::fec::encoder::Format;
use hythe_rtp::loss::fec::{BadShape, Decoder, Encoder, Protection, Shape};
use rustix::time::{ClockId, clock_gettime};

const BODY_BYTES: u16 = 1316;
/// Different packets, 1.3 MB: more than caches of the first level hold, as when the sender reads
/// them from the pool.
const PACKETS: usize = 1000;
const ROUNDS: usize = 40;
const REPETITIONS: usize = 25;

fn main() -> Result<(), BadShape> {
    let packets: Vec<Vec<u8>> = (0..PACKETS).map(packet).collect();
    println!("copy               {}", spread(|| copy(&packets)));
    for (columns, rows) in [(5, 5), (10, 10), (20, 5)] {
        let shape = Shape::new(columns, rows)?;
        for protection in [Protection::Columns, Protection::Rows, Protection::Both] {
            let mut encoder = Encoder::new(Format::Smpte2022, shape, protection, BODY_BYTES, 0)?;
            let figures = spread(|| encode(&mut encoder, &packets));
            println!("encode {columns:2} x {rows:2} {protection:?} {figures}");
        }
    }
    let mut decoder = Decoder::new(DecoderLimits::default());
    let figures = spread(|| decode(&mut decoder, &packets));
    println!("decode, no loss    {figures}");
    Ok(())
}

fn packet(index: usize) -> Vec<u8> {
    let mut packet = vec![0x80, 33, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    packet.extend((0..usize::from(BODY_BYTES)).map(|at| (at * 31 + index * 7) as u8));
    packet
}

/// Least, median and most of the repetitions, of what `round` takes per packet.
fn spread(mut round: impl FnMut()) -> String {
    round();
    let mut figures: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let started_ns = cpu_ns();
            (0..ROUNDS).for_each(|_| round());
            (cpu_ns() - started_ns) as f64 / (ROUNDS * PACKETS) as f64
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    let (least, median, most) = (
        figures[0],
        figures[REPETITIONS / 2],
        figures[REPETITIONS - 1],
    );
    format!("min {least:6.1}  p50 {median:6.1}  max {most:6.1} ns per packet")
}

/// CPU time of this thread: what others do meanwhile counts only by what it does to caches.
fn cpu_ns() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// For comparison: what it costs to read a packet and write it elsewhere.
fn copy(packets: &[Vec<u8>]) {
    let mut target = [0; 12 + BODY_BYTES as usize];
    for packet in packets {
        target.copy_from_slice(black_box(packet));
        black_box(&target);
    }
}

/// The first twelve bytes, numbered on from round to round.
fn header(packet: &[u8], sequence: u16) -> [u8; 12] {
    let mut header = [0; 12];
    header.copy_from_slice(&packet[..12]);
    header[2..4].copy_from_slice(&sequence.to_be_bytes());
    header
}

fn encode(encoder: &mut Encoder, packets: &[Vec<u8>]) {
    for (sequence, packet) in (0..).zip(packets) {
        let body = black_box(&packet[12..]);
        let pushed = encoder.push(&header(packet, sequence), &[body], &mut |parity| {
            black_box(parity.payload);
        });
        debug_assert_eq!(pushed, Ok(()));
    }
}

fn decode(decoder: &mut Decoder, packets: &[Vec<u8>]) {
    decoder.reset();
    let mut received = [0; 12 + BODY_BYTES as usize];
    for (sequence, packet) in (0..).zip(packets) {
        // The header is of another number each time; the rest is as good as any.
        received[..12].copy_from_slice(&header(packet, sequence));
        decoder.take_media(black_box(&received), &mut |_| {});
    }
}
