//! What travels between hosts against `spec/vectors/host.txt`, which was computed from the page and
//! not by this crate; and the same bytes damaged.

use crate::frames;

use hythe_cluster::HostName;
use hythe_cluster::frame::{
    Answer, Assembler, CarriedType, Control, EndKind, Ends, FlowOffer, FlowSide, FlowTaken,
    FrameKind, Header, Hello, HostFacts, NotTaken, Opening, Policy, Preamble, Purpose, TasksWish,
    Want, Window, encode,
};
use hythe_flows::message::{PublicKey, Transport};
use hythe_testing::play;
use hythe_testing::vectors::{self, Group, bytes};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn groups(prefix: &str) -> Vec<(String, Group)> {
    vectors::groups(include_str!("../../../../spec/vectors/host.txt"), prefix)
}

fn group(name: &str) -> Vec<u8> {
    let mut found = groups(name).into_iter();
    bytes(&found.next().expect("in the file").1["hex"])
}

fn is_like<T>(name: &str, message: T)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let expected = group(name);
    let mut written = Vec::new();
    encode(&message, &mut written).expect("short");
    assert_eq!(written, expected, "{name}");
    let mut assembler = Assembler::default();
    let mut left = &expected[..];
    while !left.is_empty() {
        left = &left[assembler.take_in(left).expect("short")..];
    }
    let read: T = assembler.message().expect("readable").expect("whole");
    assert_eq!(read, message, "{name}");
}

#[test]
fn headers_are_as_the_page_says() {
    let found = groups("header.");
    assert_eq!(found.len(), 4);
    for (name, group) in found {
        let header = Header {
            kind: match group["kind"].as_str() {
                "message" => FrameKind::Message,
                "missed" => FrameKind::Missed,
                "end" => FrameKind::End,
                _ => FrameKind::Lost,
            },
            length: vectors::number(&group["length"]),
            sequence: vectors::number(&group["sequence"]),
            publisher: vectors::number(&group["publisher"]),
            missed: vectors::number(&group["missed"]),
            number: vectors::number(&group["number"]),
        };
        let expected = bytes(&group["hex"]);
        assert_eq!(header.to_bytes()[..], expected, "{name}");
        let read = Header::from_bytes(expected.first_chunk().expect("32 bytes"));
        assert_eq!(read, Ok(header), "{name}");
    }
}

#[test]
fn connection_begins_as_the_page_says() {
    assert_eq!(Preamble::to_bytes()[..], group("preamble"));
    let purpose = Purpose::Control { session: u64::MAX };
    let host = "cam-1".parse().expect("a name");
    is_like("hello.control", Hello { host, purpose });
    let opening = Opening {
        stream: 5,
        kind: EndKind::Publish,
        channel: "video/high".to_owned(),
        carries: CarriedType {
            name: "pose".to_owned(),
            bytes: 300,
            align: 8,
            version: 2,
        },
    };
    let purpose = Purpose::Data {
        session: 77,
        opening,
    };
    let host = "hub.lan".parse().expect("a name");
    is_like("hello.data", Hello { host, purpose });
    let host: HostName = "cam-1".parse().expect("a name");
    let part = TasksWish::Part {
        job: 2 << 9 | 3,
        program: "solve".to_owned(),
        hosts: vec!["hub.lan".parse().expect("a name")],
    };
    let runner = TasksWish::Runner { job: 2 << 9 | 3 };
    for (name, wish) in [("hello.tasks.part", part), ("hello.tasks.runner", runner)] {
        let purpose = Purpose::Tasks { session: 77, wish };
        let host = host.clone();
        is_like(name, Hello { host, purpose });
    }
    let purpose = Purpose::Host { session: 77 };
    let asks = Hello {
        host: host.clone(),
        purpose,
    };
    is_like("hello.host", asks);
    let facts = HostFacts {
        clock_ns: 1_000_000_000,
        pointer_bytes: 8,
        is_big_endian: false,
    };
    is_like("answer.host", Answer::Host(facts));
    is_like("answer.tasks", Answer::Tasks);
    is_like("answer.session", Answer::Session { session: 128 });
    let window = Window {
        frames: 64,
        bytes: 1 << 33,
    };
    let (payload_bytes_max, taken) = (600_000, 12);
    let answer = Answer::Stream {
        window,
        payload_bytes_max,
        taken,
    };
    is_like("answer.stream", answer);
    let reason = "no".to_owned();
    is_like("answer.refused", Answer::Refused { reason });
}

#[test]
fn control_messages_are_as_the_page_says() {
    is_like("control.keep_alive", Control::KeepAlive { number: 1 });
    is_like("control.echo", Control::Echo { number: 1 << 32 });
    let want = Want {
        kind: EndKind::Publish,
        channel: "x".to_owned(),
        carries: CarriedType::default(),
        policy: Policy::Block { timeout_ms: 250 },
        depth: 32,
        history: 3,
    };
    is_like("control.want", Control::Want(want));
    let (kind, channel) = (EndKind::Event, "alarm".to_owned());
    is_like("control.unwant", Control::Unwant { kind, channel });
    let (stream, through) = (3, 16_384);
    is_like(
        "control.acknowledge",
        Control::Acknowledge { stream, through },
    );
    let refused = Control::Refused {
        kind: EndKind::Request,
        channel: "sums".to_owned(),
        reason: "why".to_owned(),
    };
    is_like("control.refused", refused);
    let (channel, events) = ("alarm".to_owned(), 5);
    is_like("control.raise", Control::Raise { channel, events });
    let reason = "stops".to_owned();
    is_like("control.bye", Control::Bye { reason });
    let ends = Ends {
        kind: EndKind::Publish,
        channel: "x".to_owned(),
        carries: CarriedType {
            name: "pose".to_owned(),
            bytes: 300,
            align: 8,
            version: 2,
        },
        sending: 1,
        receiving: 300,
    };
    is_like("control.ends", Control::Ends(ends));
    let not_taken = Control::NotTaken {
        stream: 3,
        messages: 300,
        why: NotTaken::OtherType,
    };
    is_like("control.not_taken", not_taken);
}

#[test]
fn messages_about_flows_are_as_the_page_says() {
    let trust = |address| Control::LinkTrust { address };
    is_like("control.link_trust.none", trust(None));
    let address = [10, 1, 2, 3].into();
    is_like("control.link_trust.ipv4", trust(Some(address)));
    let address = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 7].into();
    is_like("control.link_trust.ipv6", trust(Some(address)));
    let offer = FlowOffer {
        flow: 7,
        channel: "x".to_owned(),
        carries: CarriedType {
            name: "pose".to_owned(),
            bytes: 300,
            align: 8,
            version: 2,
        },
        transport: Transport::Tcp,
        port: 40_000,
        word: 1 << 63,
        key: None,
        frame_port: 1_500,
    };
    is_like("control.flow_offer", Control::FlowOffer(offer.clone()));
    let sealed = FlowOffer {
        transport: Transport::Tls,
        frame_port: 0,
        key: Some(PublicKey(std::array::from_fn(|at| at as u8))),
        ..offer
    };
    is_like("control.flow_offer.sealed", Control::FlowOffer(sealed));
    let (flow, reason) = (7, "why".to_owned());
    is_like("control.flow_waits", Control::FlowWaits { flow, reason });
    let taken = FlowTaken {
        flow,
        port: 50_000,
        frame_port: 1_280,
        window_messages: 64,
        window_bytes: 4 << 20,
        message_bytes_max: 1 << 20,
        block_ms: 250,
        key: None,
    };
    is_like("control.flow_taken", Control::FlowTaken(taken));
    let (flow, side, reason) = (300, FlowSide::Receiving, String::new());
    is_like("control.flow_finish", Control::FlowFinish { flow });
    is_like(
        "control.flow_ended",
        Control::FlowEnded { flow, side, reason },
    );
}

/// As the fuzz target `host_frames`, bounded.
#[test]
fn hostile_bytes_are_read_without_a_panic() {
    let all = groups("");
    let originals: Vec<Vec<u8>> = all.iter().map(|(_, group)| bytes(&group["hex"])).collect();
    let rounds = 20_000;
    play(&originals, rounds, |bytes: Vec<u8>| {
        frames::read_all(&bytes)
    });
}
