//! Peers that lie, strangers, and what they are refused with.

use crate::hostile_input::{self, SETTINGS, sign};
use hythe_packets::{
    ACKNOWLEDGEMENT_BYTES_MAX, Acknowledged, Arrival, Checksum, DropReason, Fault, HEADER_BYTES,
    Receiver, SPANS_MAX, Sender, Settings, Window,
};
use hythe_testing::{Dice, play, vectors};

/// Fields of a packet, and its payload.
#[derive(Clone, Copy)]
struct Fields {
    number: u64,
    kind: u8,
    offset: u32,
    message: u64,
    length: u32,
    waiting: u32,
}

const GOOD: Fields = Fields {
    number: 0,
    kind: 1,
    offset: 0,
    message: 0,
    length: 100,
    waiting: 0,
};

fn packet(fields: Fields, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[16..24].copy_from_slice(&fields.number.to_le_bytes());
    bytes[24] = fields.kind;
    bytes[28..32].copy_from_slice(&fields.offset.to_le_bytes());
    bytes[32..40].copy_from_slice(&fields.message.to_le_bytes());
    bytes[40..44].copy_from_slice(&fields.length.to_le_bytes());
    bytes[44..].copy_from_slice(&fields.waiting.to_le_bytes());
    bytes.extend(payload);
    sign(&mut bytes);
    bytes
}

/// An acknowledgement is a packet with other fields.
fn acknowledgement(largest: u64, first: u16, accepted: u64, credit: Window) -> Fields {
    Fields {
        number: largest,
        kind: 4,
        offset: u32::from(first),
        message: accepted,
        length: credit.messages,
        waiting: credit.bytes,
    }
}

fn second(change: impl FnOnce(&mut Fields)) -> Fields {
    let mut fields = Fields { number: 1, ..GOOD };
    change(&mut fields);
    fields
}

fn receiver() -> Receiver {
    Receiver::new(SETTINGS).expect("settings")
}

/// None: it was placed or taken.
fn give(receiver: &mut Receiver, datagram: &[u8]) -> Result<Option<DropReason>, Fault> {
    let (header, payload) = datagram.split_first_chunk().expect("a header");
    match receiver.receive(1, header, Checksum::of(payload))? {
        Arrival::Place(place) => place.done(),
        Arrival::Taken => (),
        Arrival::Dropped(reason) => return Ok(Some(reason)),
    }
    Ok(None)
}

#[test]
fn receiver_drops_and_counts_strangers_and_replays() {
    let mut receiver = receiver();
    let good = packet(
        Fields {
            number: 5,
            waiting: 0,
            ..GOOD
        },
        &[1; 100],
    );
    assert_eq!(give(&mut receiver, &good), Ok(None));
    let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
    assert_eq!(receiver.acknowledge(1, &mut out), Some(HEADER_BYTES));
    let reflected = out[..HEADER_BYTES].to_vec();
    let mut changed = |at: usize| {
        let mut bytes = packet(Fields { number: 9, ..GOOD }, &[1; 100]);
        bytes[at] ^= 4;
        give(&mut receiver, &bytes)
    };
    assert_eq!(changed(0), Ok(Some(DropReason::Session)));
    for at in (8..148).step_by(7) {
        assert_eq!(changed(at), Ok(Some(DropReason::Checksum)), "byte {at}");
    }
    for (datagram, reason) in [
        (good, DropReason::Duplicate),
        (reflected, DropReason::Kind),
        (
            packet(
                Fields {
                    number: 6,
                    kind: 77,
                    ..GOOD
                },
                &[],
            ),
            DropReason::Kind,
        ),
    ] {
        assert_eq!(give(&mut receiver, &datagram), Ok(Some(reason)));
    }
    receiver.too_short();
    // The sender waits for nothing below 8.
    let later = packet(Fields { number: 8, ..GOOD }, &[1; 100]);
    assert_eq!(give(&mut receiver, &later), Ok(None));
    let late = packet(Fields { number: 7, ..GOOD }, &[1; 100]);
    assert_eq!(give(&mut receiver, &late), Ok(Some(DropReason::Late)));
    let drops = receiver.drops();
    assert_eq!(drops.count(DropReason::Checksum), 20);
    assert_eq!(drops.count(DropReason::Length), 1);
    assert_eq!(drops.total(), 26);
    let other = Settings {
        session: 3,
        ..SETTINGS
    };
    let mut other = Receiver::new(other).expect("settings");
    assert_eq!(give(&mut other, &later), Ok(Some(DropReason::Session)));
    assert_eq!(
        (other.acknowledge(u64::MAX, &mut out), other.next_wake()),
        (None, None)
    );
    let flow = Settings {
        flow: 8,
        ..SETTINGS
    };
    let mut flow = Receiver::new(flow).expect("settings");
    assert_eq!(give(&mut flow, &later), Ok(Some(DropReason::Flow)));
}

#[test]
fn sender_that_lies_ends_the_flow() {
    let malformed = Fault::Malformed { number: 1 };
    let far = Fault::Malformed { number: 1 << 62 };
    let long = Fault::TooLong {
        message: 0,
        length: 4_001,
    };
    let beyond = |message| Fault::BeyondCredit { message };
    let changed = Fault::Changed { message: 0 };
    let cases: [(Fields, usize, Fault); 12] = [
        (second(|fields| fields.offset = 1), 100, malformed),
        (second(|fields| fields.offset = u32::MAX), 100, malformed),
        (second(|fields| fields.message = 1), 0, malformed),
        (second(|fields| fields.waiting = 2), 100, malformed),
        (second(|fields| fields.kind = 3), 0, malformed),
        (second(|fields| fields.kind = 2), 0, malformed),
        (second(|fields| fields.number = 1 << 62), 100, far),
        (second(|fields| fields.length = 4_001), 100, long),
        (second(|fields| fields.message = 8), 100, beyond(8)),
        (
            second(|fields| fields.message = u64::MAX),
            100,
            beyond(u64::MAX),
        ),
        (second(|fields| fields.length = 101), 100, changed),
        (
            second(|fields| (fields.kind, fields.length) = (2, 0)),
            0,
            changed,
        ),
    ];
    for (fields, bytes, fault) in cases {
        let mut receiver = receiver();
        assert_eq!(give(&mut receiver, &packet(GOOD, &[1; 100])), Ok(None));
        let lie = packet(fields, &vec![1; bytes]);
        assert_eq!(give(&mut receiver, &lie), Err(fault));
        // It stays so.
        let good = packet(Fields { number: 9, ..GOOD }, &[1; 100]);
        assert_eq!(give(&mut receiver, &good), Err(fault));
        assert_eq!(receiver.next_wake(), None);
    }
}

#[test]
fn credit_in_bytes_and_the_end_of_a_flow_bind() {
    let mut receiver = receiver();
    let whole = |number, message, length: u32| {
        let fields = Fields {
            number,
            message,
            length,
            ..GOOD
        };
        packet(fields, &vec![1; length.min(1_000) as usize])
    };
    for number in 0..2 {
        assert_eq!(give(&mut receiver, &whole(number, number, 4_000)), Ok(None));
    }
    let fault = Fault::BeyondCredit { message: 2 };
    assert_eq!(give(&mut receiver, &whole(2, 2, 2_001)), Err(fault));
    let end = |number, message| {
        packet(
            Fields {
                number,
                message,
                kind: 2,
                length: 0,
                ..GOOD
            },
            &[],
        )
    };
    for (first, second, message) in [
        (end(0, 1), whole(1, 2, 10), 2),
        (end(0, 1), end(1, 2), 2),
        (end(0, 2), end(1, 1), 1),
        (whole(0, 3, 10), end(1, 2), 2),
    ] {
        let mut receiver = Receiver::new(SETTINGS).expect("settings");
        assert_eq!(give(&mut receiver, &first), Ok(None));
        let fault = Fault::BehindEnd { message };
        assert_eq!(give(&mut receiver, &second), Err(fault));
    }
}

#[test]
fn receiver_that_lies_ends_the_flow() {
    let credit = SETTINGS.window;
    let malformed = Fault::Malformed { number: 1 };
    let less = Window {
        messages: 6,
        ..credit
    };
    let fewer_bytes = Window {
        bytes: 100,
        ..credit
    };
    let cases: [(Fields, &[u8], Fault); 8] = [
        (
            acknowledgement(2, 1, 0, credit),
            &[],
            Fault::NeverSent { number: 2 },
        ),
        (acknowledgement(1, 0, 1, credit), &[], malformed),
        (acknowledgement(1, 3, 1, credit), &[], malformed),
        (
            acknowledgement(1, 1, 1, credit),
            &[1, 0, 0, 0, 1, 0, 0, 0],
            malformed,
        ),
        (acknowledgement(1, 1, 1, credit), &[0; 8], malformed),
        (
            acknowledgement(1, 1, 3, credit),
            &[],
            Fault::NeverWhole { accepted: 3 },
        ),
        (
            acknowledgement(1, 1, 1, less),
            &[],
            Fault::Withdrawn { number: 1 },
        ),
        (
            acknowledgement(1, 1, 1, fewer_bytes),
            &[],
            Fault::Withdrawn { number: 1 },
        ),
    ];
    for (fields, ranges, fault) in cases {
        let mut sender = Sender::new(SETTINGS).expect("settings");
        for _ in 0..2 {
            sender.push(1, 100, 0).expect("free");
            assert!(sender.transmit(1).is_some());
        }
        let first = packet(acknowledgement(0, 1, 1, credit), &[]);
        assert_eq!(sender.acknowledged(2, &first), Ok(Acknowledged::Through(1)));
        // A replay, and one that was overtaken, are neither.
        let overtaken = packet(acknowledgement(0, 1, 0, credit), &[]);
        for again in [&first, &overtaken] {
            assert_eq!(sender.acknowledged(2, again), Ok(Acknowledged::Through(1)));
        }
        let lie = packet(fields, ranges);
        assert_eq!(sender.acknowledged(2, &lie), Err(fault));
        assert_eq!(sender.acknowledged(2, &first), Err(fault));
        assert_eq!(sender.transmit(3), None);
    }
}

#[test]
fn no_packet_is_answered_with_more_bytes_than_it_has() {
    let mut receiver = receiver();
    let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
    // Each leaves a gap, and gaps want a range each.
    for number in (0..200).step_by(2) {
        let (kind, waiting) = (3, number as u32);
        let probe = Fields {
            number,
            kind,
            waiting,
            length: 0,
            ..GOOD
        };
        assert_eq!(give(&mut receiver, &packet(probe, &[])), Ok(None));
        assert_eq!(receiver.acknowledge(1, &mut out), Some(HEADER_BYTES));
        assert_eq!(receiver.acknowledge(1, &mut out), None);
    }
    // With payload there is place for them.
    let long = packet(
        Fields {
            number: 200,
            waiting: 200,
            length: 500,
            ..GOOD
        },
        &[1; 500],
    );
    assert_eq!(give(&mut receiver, &long), Ok(None));
    assert_eq!(
        receiver.acknowledge(1, &mut out),
        Some(ACKNOWLEDGEMENT_BYTES_MAX)
    );
    let replay = give(&mut receiver, &long);
    assert_eq!(replay, Ok(Some(DropReason::Duplicate)));
    assert_eq!(receiver.acknowledge(u64::MAX, &mut out), None);
}

#[test]
fn gaps_are_bounded_and_the_oldest_message_is_finished_still() {
    let mut receiver = Receiver::new(Settings {
        window: Window {
            messages: 2,
            bytes: 1 << 20,
        },
        message_bytes_max: 1 << 19,
        ..SETTINGS
    })
    .expect("settings");
    let length = SPANS_MAX as u32 * 4 + 8;
    let piece = |number, message, offset| {
        packet(
            Fields {
                number,
                message,
                offset,
                length,
                ..GOOD
            },
            &[1; 2],
        )
    };
    let mut number = 0;
    let mut one = |message, offset| {
        number += 1;
        give(&mut receiver, &piece(number, message, offset))
    };
    for at in 0..SPANS_MAX as u32 {
        assert_eq!(one(1, 4 * at + 4), Ok(None));
    }
    // One more would be too much, unless it touches another or begins the oldest.
    assert_eq!(one(0, 8), Ok(Some(DropReason::Gaps)));
    assert_eq!(one(0, 0), Ok(None));
    assert_eq!(one(0, 8), Ok(Some(DropReason::Gaps)));
    for at in 1..length / 2 {
        assert_eq!(one(0, 2 * at), Ok(None));
    }
    for at in 0..length / 2 {
        assert_eq!(one(1, 2 * at), Ok(None));
    }
    let whole = std::iter::from_fn(|| receiver.next_message()).count();
    assert_eq!(whole, 2);
}

/// As the fuzz target `packets`, bounded.
#[test]
fn hostile_datagrams_are_read_without_a_panic() {
    let text = include_str!("../../../../spec/vectors/packets.txt");
    let mut originals = Vec::new();
    let (mut flow, mut dice) = (Vec::new(), Dice::new(1));
    for (name, group) in vectors::groups(text, "") {
        let datagram = vectors::bytes(&group["hex"]);
        let to = u8::from(name.starts_with("acknowledgement"));
        for manner in [to, to | 2, to | 4, to | (8 * dice.below(16) as u8)] {
            let mut one = (datagram.len() as u16).to_le_bytes().to_vec();
            one.push(manner);
            one.extend(&datagram);
            originals.push(one.clone());
            flow.extend(one);
        }
    }
    originals.push(flow);
    play(&originals, 20_000, |bytes: Vec<u8>| {
        hostile_input::read_all(&bytes);
    });
}
