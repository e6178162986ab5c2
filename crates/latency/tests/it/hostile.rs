//! Damaged and invented records of cores and emulators, by a seed that is printed;
//! `HYTHE_TEST_SEED` repeats a run. The fuzz targets `latency_…` check the same with inputs that
//! libFuzzer finds.

use crate::hostile_input::{self, lines};
use hythe_testing::vectors;

/// Inputs for each reader.
const ROUNDS: usize = 5_000;

fn play(originals: &[Vec<u8>], check: fn(&[u8])) {
    hythe_testing::play(originals, ROUNDS, |bytes| check(&bytes));
}

/// Of the page's vectors: what is good, and what is refused.
fn records() -> Vec<Vec<u8>> {
    let text = include_str!("../../../../spec/vectors/histogram.txt");
    let groups = vectors::groups(text, "").into_iter();
    let hex = groups.filter_map(|(_, group)| group.get("hex").map(|hex| vectors::bytes(hex)));
    let mut records: Vec<Vec<u8>> = hex.collect();
    assert!(records.len() > 4);
    records.push(conditions());
    records
}

fn conditions() -> Vec<u8> {
    let body = "hythe-latency/1\nboard=mps2-an386\nrtos=FreeRTOS V11.2.0\nclock=APB timer 0\nclock_hz=25000000\ntick_hz=250\n\
        preemption=1\ntime_slicing=1\nstack_checks=2\ncompiler=GCC 12\nflags=-O2\nload=idle\nperiod.timer_jitter=24925\nhistograms=9\n";
    let checksum = crc32c::crc32c(body.as_bytes());
    format!("{body}checksum={checksum:08x}\n").into_bytes()
}

#[test]
fn records_of_cores() {
    play(&records(), hostile_input::record);
}

#[test]
fn serial_lines() {
    let whole: String = records()
        .iter()
        .map(|record| format!("said between\r\n{}", lines(record)))
        .collect();
    let short = lines(&conditions());
    play(
        &[whole.into_bytes(), short.into_bytes()],
        hostile_input::console,
    );
}

/// `edges` as QEMU 7.2 records them, each an instruction count and one byte that left the port; in
/// front what came out of the pin.
fn recorded(edges: &[(u32, u8)]) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(edges.len()).expect("few")];
    bytes.extend(edges.iter().map(|(_, letter)| letter));
    bytes.extend([0x00, 0xe0, 0x20, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0]);
    // The host's clock, checkpoints.
    bytes.extend([
        0x1c, 0x18, 0xea, 0x62, 0x32, 0x7e, 0x49, 0x12, 0xe8, 0x25, 0x26,
    ]);
    for (instructions, _) in edges {
        bytes.push(0);
        bytes.extend(instructions.to_be_bytes());
        bytes.extend([0x16, 0, 0, 0, 1, 0, 0, 0, 1]);
    }
    // Random bytes that the guest asked for, a byte for its console, the end.
    bytes.extend([0x1b, 0, 0, 0, 0, 0, 0, 0, 2, 7, 7]);
    bytes.extend([0x07, 0, 0, 0, 0, 1, b'x', 0x27]);
    bytes
}

#[test]
fn records_of_emulators() {
    let samples: Vec<(u32, u8)> = (0..40)
        .map(|at| (100 + at, if at % 2 == 0 { b'A' } else { b'a' }))
        .collect();
    // A timer, some of whose alarms are missed.
    let mut alarms = vec![(5, b'+'), (3, b'+')];
    alarms.extend((0..60).map(|at| (131 + at % 3, b'g')));
    play(
        &[recorded(&samples), recorded(&alarms)],
        hostile_input::record_log,
    );
}
