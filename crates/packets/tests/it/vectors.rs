//! Packets against `spec/vectors/packets.txt`, which was computed from the page and not by this
//! crate.

use crate::network::{MS, settings};
use hythe_packets::{
    ACKNOWLEDGEMENT_BYTES_MAX, Acknowledged, Arrival, Checksum, Content, Receiver, Sender,
};
use hythe_testing::vectors::{self, Group, bytes};

fn group(name: &str) -> Group {
    let text = include_str!("../../../../spec/vectors/packets.txt");
    let mut found = vectors::groups(text, name).into_iter();
    found.next().expect("in the file").1
}

fn hex(name: &str) -> Vec<u8> {
    bytes(&group(name)["hex"])
}

const PACKETS: [&str; 5] = [
    "packet.first",
    "packet.empty",
    "packet.begin",
    "packet.rest",
    "packet.end",
];

#[test]
fn sender_writes_and_reads_what_the_page_says() {
    let mut now_ns = MS;
    let mut sender = Sender::new(settings()).expect("settings");
    for (length, tag) in [(5, 9), (0, 0), (1_600, 255)] {
        sender.push(now_ns, length, tag).expect("free");
    }
    sender.end(now_ns).expect("free");
    for name in PACKETS {
        let payload = bytes(&group(name)["payload"]);
        let packet = sender.transmit(now_ns).expect("within the window");
        let message: u64 = vectors::number(&group(name)["message"]);
        let offset: u32 = vectors::number(&group(name)["offset"]);
        assert_eq!((packet.message, packet.offset), (message, offset));
        assert_eq!(packet.range().len(), payload.len());
        let mut written = packet.seal(Checksum::of(&payload)).to_vec();
        written.extend(payload);
        assert_eq!(written, hex(name), "{name}");
    }
    assert_eq!(sender.transmit(now_ns), None);
    now_ns += MS;
    // Packet 2 is missing, for all but the last.
    for (name, accepted, in_flight) in [
        ("acknowledgement.two", 0, 1_452 + 244 + 48),
        ("acknowledgement.gap", 0, 1_452 + 48),
    ] {
        let read = sender.acknowledged(now_ns, &hex(name));
        assert_eq!(read, Ok(Acknowledged::Through(accepted)), "{name}");
        assert_eq!(sender.state().in_flight_bytes, in_flight, "{name}");
    }
    assert_eq!(sender.state().round_trip_ns, MS);
    assert_eq!(sender.state().timeouts, 0);
}

#[test]
fn receiver_reads_and_writes_what_the_page_says() {
    let now_ns = MS;
    let mut receiver = Receiver::new(settings()).expect("settings");
    let mut message = vec![0; 1_600];
    let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
    let order = [
        ("packet.first", None),
        // Too few bytes to be told of at once; a gap is.
        ("packet.empty", Some((MS, "acknowledgement.two"))),
        ("packet.rest", Some((0, "acknowledgement.gap"))),
        ("packet.begin", None),
        ("packet.end", None),
        ("packet.probe", None),
    ];
    for (name, answer) in order {
        let (datagram, group) = (hex(name), group(name));
        let (header, payload) = datagram.split_first_chunk().expect("a header");
        let arrival = receiver.receive(now_ns, header, Checksum::of(payload));
        match arrival.expect("no fault") {
            Arrival::Place(place) => {
                assert_eq!(place.message(), vectors::number::<u64>(&group["message"]));
                assert_eq!(place.length(), vectors::number::<u32>(&group["length"]));
                assert_eq!(place.tag(), vectors::number::<u8>(&group["tag"]));
                if place.length() == 1_600 {
                    message[place.range()].copy_from_slice(payload);
                }
                place.done();
            }
            Arrival::Taken => assert!(payload.is_empty(), "{name}"),
            Arrival::Dropped(reason) => panic!("{name}: {reason:?}"),
        }
        if let Some((after_ns, answer)) = answer {
            let written = receiver.acknowledge(now_ns + after_ns, &mut out);
            let written = written.expect("due");
            assert_eq!(out[..written], hex(answer), "{answer}");
        }
    }
    let is_as_written = (0..1_600).all(|at: usize| message[at] == (at * 7) as u8);
    assert!(is_as_written);
    let contents: Vec<Content> = std::iter::from_fn(|| receiver.next_message())
        .map(|message| message.content)
        .collect();
    let of = |length, tag| Content::Message { length, tag };
    assert_eq!(contents, [of(5, 9), of(0, 0), of(1_600, 255), Content::End]);
    receiver.accept(now_ns, 4);
    let written = receiver
        .acknowledge(now_ns + MS / 4, &mut out)
        .expect("due");
    assert_eq!(out[..written], hex("acknowledgement.accepted"));
}

#[test]
fn sender_probes_for_what_is_not_accepted() {
    let mut sender = Sender::new(settings()).expect("settings");
    for (length, tag) in [(5, 9), (0, 0), (1_600, 255)] {
        sender.push(MS, length, tag).expect("free");
    }
    sender.end(MS).expect("free");
    while sender.transmit(MS).is_some() {}
    // All came, and nothing was accepted.
    let mut receiver = Receiver::new(settings()).expect("settings");
    for name in PACKETS {
        let datagram = hex(name);
        let (header, payload) = datagram.split_first_chunk().expect("a header");
        let arrival = receiver.receive(MS, header, Checksum::of(payload));
        if let Arrival::Place(place) = arrival.expect("no fault") {
            place.done();
        }
    }
    let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
    let written = receiver.acknowledge(2 * MS, &mut out).expect("due");
    let read = sender.acknowledged(3 * MS, &out[..written]);
    assert_eq!(read, Ok(Acknowledged::Through(0)));
    let now_ns = sender.next_wake().expect("it waits");
    sender.expire(now_ns).expect("no fault");
    let probe = sender.transmit(now_ns).expect("a probe");
    assert_eq!(
        probe.seal(Checksum::default()).to_vec(),
        hex("packet.probe")
    );
    let read = sender.acknowledged(now_ns, &hex("acknowledgement.accepted"));
    assert_eq!(read, Ok(Acknowledged::Through(4)));
    assert_eq!(sender.next_wake(), None);
}
