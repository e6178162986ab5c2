//! Readers that hold what they read, and a pool that has nothing left.

use hythe_node::{Lease, Node, Sample};
use hythe_rtp::format::Encoding;

use super::media::{datagrams, format};
use super::stage::{Onto, Reader, Stage, host, into_memory};
use hythe_testing::Dice;

fn feed(stream: &mut Onto, datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        stream.take_datagram(datagram, host(), 0).unwrap();
    }
}

fn expected(encoding: Encoding, datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut stream = into_memory(&format(encoding));
    for datagram in datagrams {
        stream.take_datagram(datagram, host(), 0).unwrap();
    }
    stream.sink().messages.clone()
}

/// Takes all that waits and keeps each tenth.
fn take(reader: &mut Reader, kept: &mut Vec<(usize, Sample)>, messages: &mut Vec<Vec<u8>>) {
    while let Some(sample) = reader.take() {
        messages.push(sample.to_vec());
        if messages.len().is_multiple_of(10) {
            kept.push((messages.len() - 1, sample));
        }
    }
}

#[test]
fn reader_that_keeps_samples_costs_only_copies() {
    for (encoding, units) in [(Encoding::MpegTs, 6000), (Encoding::H264, 1500)] {
        let Some(stage) = Stage::new(&format!("kept-{}", encoding.name())) else {
            return;
        };
        let sent = datagrams(encoding, units, &mut Dice::new(3));
        let expected = expected(encoding, &sent);
        let mut reader = stage.reader();
        let (mut stream, slots) = stage.stream(&format(encoding), usize::MAX);
        let (mut kept, mut messages) = (Vec::new(), Vec::new());
        let mut rest = sent.chunks(500);
        for chunk in rest.by_ref() {
            feed(&mut stream, chunk);
            take(&mut reader, &mut kept, &mut messages);
            if slots.counts().none_back > 100 {
                break;
            }
        }
        let counts = slots.counts();
        assert!(counts.in_place > 100 && counts.copied > 100, "{counts:?}");
        assert_eq!((counts.dropped, counts.none_free), (0, 0));
        // What is ours is bounded; each copy that is kept has a slot of its own.
        let held = stage.slots_held() as usize;
        assert!(held <= slots.slots_max() + kept.len(), "{held}");
        for (index, sample) in &kept {
            assert!(sample.to_vec() == expected[*index], "message {index}");
        }
        // Slots come back when they are let go, and nothing was lost.
        kept.clear();
        for chunk in rest {
            feed(&mut stream, chunk);
            messages.extend(reader.messages());
        }
        assert!(slots.counts().in_place > counts.in_place + 100);
        stream.finish(0).unwrap();
        messages.extend(reader.messages());
        assert!(messages[..expected.len()] == expected);
        drop((stream, reader, slots));
        assert_eq!(stage.slots_held(), 0);
    }
}

/// Leases until the pool has nothing of so many bytes.
fn lease_all(node: &Node, bytes: usize) -> Vec<Lease> {
    std::iter::from_fn(|| node.lease(bytes).ok()).collect()
}

#[test]
fn full_pool_costs_copies_then_messages_and_never_the_stream() {
    for encoding in [Encoding::MpegTs, Encoding::H265] {
        let Some(stage) = Stage::new(&format!("full-{}", encoding.name())) else {
            return;
        };
        let sent = datagrams(encoding, 400, &mut Dice::new(4));
        let (front, rest) = sent.split_at(sent.len() / 3);
        let (middle, rest) = rest.split_at(rest.len() / 2);
        let expected = expected(encoding, &sent);
        let mut reader = stage.reader();
        let (mut stream, slots) = stage.stream(&format(encoding), usize::MAX);
        let large = lease_all(&stage.reading, 64 << 10);
        feed(&mut stream, front);
        let copied = slots.counts();
        assert!(copied.copied > 50 && copied.none_free > 0, "{copied:?}");
        assert_eq!((copied.in_place, copied.dropped), (0, 0));
        let messages = reader.messages();
        assert!(messages == expected[..messages.len()]);

        let small = lease_all(&stage.reading, 1);
        feed(&mut stream, middle);
        let dropped = slots.counts();
        assert!(dropped.dropped > 50, "{dropped:?}");
        assert_eq!((dropped.in_place, dropped.copied), (0, copied.copied));
        assert!(reader.messages().is_empty());

        drop((large, small));
        feed(&mut stream, rest);
        stream.finish(0).unwrap();
        let counts = slots.counts();
        assert_eq!(counts.dropped, dropped.dropped);
        assert!(counts.in_place > 50, "{counts:?}");
        let messages = reader.messages();
        assert!(expected.ends_with(&messages));
        drop((stream, reader, slots));
        assert_eq!(stage.slots_held(), 0);
    }
}
