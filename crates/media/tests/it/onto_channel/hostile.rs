//! Senders that lie about lengths, and a peer that writes over what is being received: garbage is
//! published, and nothing else happens.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use hythe_media::receive::repairer::Repairer;
use hythe_rtp::format::Encoding;
use hythe_rtp::loss::fec::{Protection, Shape};
use hythe_rtp::sdp::{Parity, Retransmission, StreamDescription};
use hythe_sys::udp_receive::Message;

use super::media::{datagrams, format};
use super::stage::{Onto, Stage, host};
use hythe_testing::Dice;

/// A stream with all that can be repaired.
fn stream(stage: &Stage, encoding: Encoding) -> Onto {
    let format = format(encoding);
    let description = StreamDescription {
        retransmission: Some(Retransmission {
            payload_type: 98,
            time_ms: None,
        }),
        parity: Some(Parity::Smpte2022(
            Shape::new(4, 4).unwrap(),
            Protection::Both,
        )),
        ..StreamDescription::new(format.clone(), host())
    };
    let (stream, _) = stage.stream(&format, usize::MAX);
    stream.with_repair(Box::new(Repairer::new(&description).unwrap()))
}

/// A datagram that is nearly right, in its headers most of all.
fn nearly(dice: &mut Dice, honest: &[Vec<u8>]) -> Vec<u8> {
    let mut datagram = honest[dice.below(honest.len())].clone();
    for _ in 0..dice.below(3) {
        let at = dice.below(datagram.len().min(20));
        datagram[at] = dice.below(256) as u8;
    }
    match dice.below(8) {
        0 => datagram.truncate(dice.below(datagram.len() + 1)),
        1 => datagram.resize(datagram.len() + dice.below(2000), dice.below(256) as u8),
        // Padding that reaches wherever it says.
        2 => {
            datagram[0] |= 0x20;
            *datagram.last_mut().unwrap() = dice.below(256) as u8;
        }
        // An extension, sources.
        3 => datagram[0] = 0x80 | dice.below(64) as u8,
        4 => datagram[1] = 98,
        _ => {}
    }
    datagram
}

/// Feeds what is nearly right, alone and as the kernel joins it, with sizes that do not fit.
fn feed(stream: &mut Onto, dice: &mut Dice, honest: &[Vec<u8>], rounds: usize) {
    let mut now_ns = 0;
    for round in 0..rounds {
        now_ns += dice.below(3_000_000) as u64;
        let choice = dice.below(8);
        if choice > 2 {
            let datagram = &honest[round % honest.len()];
            stream.take_datagram(datagram, host(), now_ns).unwrap();
        } else if choice > 0 {
            let datagram = nearly(dice, honest);
            stream.take_datagram(&datagram, host(), now_ns).unwrap();
        } else {
            let joined: Vec<u8> = (0..dice.below(20))
                .flat_map(|_| nearly(dice, honest))
                .collect();
            let storage = stream.free_capacity().unwrap();
            let bytes = joined.len().min(storage.len());
            storage[..bytes].copy_from_slice(&joined[..bytes]);
            let message = Message {
                bytes,
                segment_bytes: dice.below(1500),
                source: host(),
                is_truncated: dice.below(10) == 0,
                ..Message::NONE
            };
            stream.take_messages(&[message], 1 << 16, now_ns).unwrap();
        }
        stream.expire(now_ns).unwrap();
        stream.report(now_ns).unwrap();
    }
    stream.finish(now_ns).unwrap();
}

#[test]
fn senders_that_lie_about_lengths_do_no_harm() {
    for encoding in Encoding::ALL {
        let Some(stage) = Stage::new(&format!("lies-{}", encoding.name())) else {
            return;
        };
        let honest = datagrams(encoding, 40, &mut Dice::new(1));
        for seed in 0..3 {
            let mut dice = Dice::new(seed);
            let mut reader = stage.reader();
            let mut stream = stream(&stage, encoding);
            feed(&mut stream, &mut dice, &honest, 1000);
            // Whatever was published can be read to its end.
            let bytes: usize = reader.messages().iter().map(Vec::len).sum();
            let statistics = stream.statistics();
            assert!(
                bytes > 0 && statistics.malformed > 0,
                "{encoding:?}, seed {seed}: {bytes} bytes, {statistics:?}"
            );
            drop((stream, reader));
            assert_eq!(stage.slots_held(), 0, "{encoding:?}, seed {seed}");
        }
    }
}

#[test]
fn overwritten_input_is_published_as_garbage() {
    for encoding in Encoding::ALL {
        let Some(stage) = Stage::new(&format!("scribbled-{}", encoding.name())) else {
            return;
        };
        let honest = datagrams(encoding, 40, &mut Dice::new(2));
        let region = OpenOptions::new().write(true).open(stage.region()).unwrap();
        let length = usize::try_from(region.metadata().unwrap().len()).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut dice = Dice::new(11);
                while !is_over.load(Ordering::Relaxed) {
                    let mut garbage = [0; 64];
                    garbage.fill_with(|| dice.below(256) as u8);
                    garbage[0] = 0x80 | dice.below(64) as u8;
                    // The slots that are received into lie together, somewhere behind the small
                    // ones.
                    for _ in 0..64 {
                        let at = dice.below(length - garbage.len()) as u64;
                        region.write_all_at(&garbage, at).unwrap();
                    }
                }
            });
            for seed in 0..2 {
                let mut reader = stage.reader();
                let mut stream = stream(&stage, encoding);
                feed(&mut stream, &mut Dice::new(seed), &honest, 1000);
                reader.messages();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(stage.slots_held(), 0, "{encoding:?}");
    }
}
