//! Seeded runs of the server that `fuzz/fuzz_targets/rtsp_answers.rs` plays without end;
//! `HYTHE_TEST_SEED` repeats one.

use hythe_testing::Dice;

use super::hostile_answers::{self, NEXT, WORDS};

/// Inputs of each kind.
const ROUNDS: usize = 3000;
/// Parts of a talk that is made up.
const PARTS_MAX: usize = 40;

/// The word that begins so.
fn word(beginning: &str) -> u8 {
    let at = WORDS.iter().position(|word| word.starts_with(beginning));
    0x80 + u8::try_from(at.expect("a word")).expect("few")
}

/// A talk from its beginning to its end.
fn good() -> Vec<u8> {
    let ok = word("RTSP/1.0 200 OK\r\nCSeq: NUMBER\r\n\r\n");
    let mut session = WORDS
        .iter()
        .position(|word| word.contains("timeout=60"))
        .expect("a word") as u8;
    session += 0x80;
    let described = word("RTSP/1.0 200 OK\r\nCSeq: NUMBER\r\nContent-Base");
    let refused = word("RTSP/1.0 501");
    let answers = [described, session, session, ok, ok, refused, ok];
    answers
        .into_iter()
        .flat_map(|answer| [answer, NEXT])
        .collect()
}

#[test]
fn damaged_talks() {
    let with_packets = good()
        .into_iter()
        .flat_map(|byte| [word("$"), byte])
        .collect();
    hythe_testing::play(&[good(), with_packets], ROUNDS, |bytes| {
        hostile_answers::play(&bytes);
    });
}

#[test]
fn made_up_talks() {
    let mut dice = Dice::from_environment();
    for _ in 0..ROUNDS {
        let mut talk = Vec::new();
        for _ in 0..dice.below(PARTS_MAX) {
            match dice.below(12) {
                0 => talk.push(NEXT),
                1 => talk.push(dice.number() as u8),
                2 => talk.extend(&good()[..2 * dice.below(7)]),
                _ => talk.push(0x80 + dice.below(WORDS.len()) as u8),
            }
        }
        hostile_answers::play(&talk);
    }
}

/// Far beyond every limit: the work stays in proportion.
#[test]
fn long_talks() {
    for word in [
        "$",
        "OPTIONS",
        "RTSP/1.0 200 OK\r\n",
        "Content-Length: 1",
        "\r\n\r\n",
        "m=audio",
    ] {
        hostile_answers::play(&[self::word(word)].repeat(40_000));
    }
}
