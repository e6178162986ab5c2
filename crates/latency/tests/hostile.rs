//! Damaged and invented records of cores and emulators, by a seed that is printed; `HYTHE_TEST_SEED` repeats a run. The fuzz targets
//! `latency_…` check the same with inputs that libFuzzer finds.

mod hostile_input;

use hostile_input::lines;

/// Inputs for each reader.
const ROUNDS: usize = 5_000;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
struct Dice(u64);

impl Dice {
    /// At least 0, less than `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ value >> 31) % limit.max(1) as u64) as usize
    }

    /// `original`, changed in one to four places: bits, extreme bytes, pieces that are missing, doubled, moved or invented.
    fn damage(&mut self, original: &[u8]) -> Vec<u8> {
        let mut bytes = original.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(40)).min(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = [0, 0xff, 0x7f, 0x80][self.below(4)],
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..end)),
                4 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                _ => bytes[at..end]
                    .iter_mut()
                    .for_each(|byte| *byte = self.below(256) as u8),
            }
        }
        bytes
    }
}

fn play(originals: &[Vec<u8>], check: fn(&[u8])) {
    let given = std::env::var("HYTHE_TEST_SEED").ok();
    let seed = given
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(20_261_122);
    println!("HYTHE_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    for original in originals {
        check(original);
    }
    for _ in 0..ROUNDS {
        let original = &originals[dice.below(originals.len())];
        check(&dice.damage(original));
    }
}

/// Of the page's vectors: what is good, and what is refused.
fn records() -> Vec<Vec<u8>> {
    let text = include_str!("../../../spec/vectors/histogram.txt");
    let hex = text.lines().filter_map(|line| line.strip_prefix("hex = "));
    let bytes = |hex: &str| {
        let pairs = (0..hex.len() / 2).map(|at| &hex[2 * at..2 * at + 2]);
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).expect("two digits"))
            .collect()
    };
    let mut records: Vec<Vec<u8>> = hex.map(bytes).collect();
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

/// `edges` as QEMU 7.2 records them, each an instruction count and one byte that left the port; in front what came out of the pin.
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
