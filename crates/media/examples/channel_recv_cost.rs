//! What it costs to receive onto a channel: published where it was received, or copied into slots.
//!
//! `cargo run --release -p hythe-media --example channel_recv_cost [ROUNDS]`. One thread sends a
//! batch over loopback, receives it and takes the messages, in turns; only receiving counts. Both
//! ways in turns; CPU time of that thread for each packet, the kernel's included, medians of the
//! rounds.
#![allow(clippy::unwrap_used, reason = "an example fails by panicking")]

use std::net::UdpSocket;
use std::time::Duration;

use hythe_media::receive::session::{Session, Until, now_ns};
use hythe_media::receive::socket::{Binding, Sockets};
use hythe_media::receive::stream::{Settings, Stream};
use hythe_media::sink::channel::ChannelSink;
use hythe_media::slots::{Counts, Slots, depacketizer_for_channel};
use hythe_node::{Node, Pool, PoolOptions, PublisherOptions, SubscriberOptions, TrustPeers};
use hythe_rtp::Identity;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::{is_whole_in_packets, packetizer};
use hythe_rtp::unit::Unit;
use hythe_sys::socket_option::{SocketOption, set_socket_option};
use rustix::time::{ClockId, clock_gettime};

const PACKETS: usize = 20_000;
const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

/// A stream: batches of packets as one call of the receiver finds them.
struct Kind {
    name: &'static str,
    encoding: Encoding,
    /// Payloads of one batch.
    payloads: Vec<Vec<u8>>,
}

fn kinds() -> Vec<Kind> {
    let transport = [[0x47, 1, 0, 0x10].to_vec(), vec![9; 184]]
        .concat()
        .repeat(7);
    let ts = |name, count| Kind {
        name,
        encoding: Encoding::MpegTs,
        payloads: vec![transport.clone(); count],
    };
    let telephone = Kind {
        name: "PCMU, 45 joined packets of 160",
        encoding: Encoding::Pcmu,
        payloads: vec![vec![5; 160]; 45],
    };
    let video = |name, bytes| Kind {
        name,
        encoding: Encoding::H264,
        payloads: fragments(bytes),
    };
    vec![
        ts("MP2T, 45 joined packets", 45),
        ts("MP2T, one packet at a time", 1),
        telephone,
        video("H264, pictures of 57 KB", 57_000),
        video("H264, pictures of 4 KB", 4_000),
    ]
}

fn format(encoding: Encoding) -> StreamFormat {
    StreamFormat {
        encoding,
        payload_type: 96,
        clock_hz: 90_000,
        channels: u8::from(encoding == Encoding::Pcmu),
        parameters: String::new(),
    }
}

/// A picture in one NAL unit.
fn fragments(bytes: usize) -> Vec<Vec<u8>> {
    let picture = [vec![0x65], vec![7; bytes - 1]].concat();
    let unit = Unit {
        pieces: &[&picture],
        time: 0,
        due: 0,
        duration: 0,
        is_start: true,
    };
    let mut payloads = Vec::new();
    let mut packetizer = packetizer(&format(Encoding::H264)).unwrap();
    packetizer.packetize(&unit, 1400, &mut |payload| {
        payloads.push([payload.prefix, &payload.body.concat()].concat());
    });
    payloads
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One batch on the wire; the marker is on its last packet.
fn batch(kind: &Kind, sequence: &mut u16, timestamp: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, payload) in kind.payloads.iter().enumerate() {
        let is_marked = kind.encoding == Encoding::H264 && index + 1 == kind.payloads.len();
        bytes.extend([0x80, 96 | if is_marked { 0x80 } else { 0 }]);
        bytes.extend(sequence.to_be_bytes());
        bytes.extend(timestamp.to_be_bytes());
        bytes.extend(7_u32.to_be_bytes());
        bytes.extend(payload);
        *sequence = sequence.wrapping_add(1);
    }
    bytes
}

/// CPU time of the receiver for each packet in nanoseconds, and what became of the messages.
fn run(kind: &Kind, slots_max: usize, receiving: &Node, reading: &Node) -> (u64, Counts) {
    let format = format(kind.encoding);
    let options = SubscriberOptions::default().depth(256);
    let mut subscriber = reading.subscriber("cost", &options).unwrap();
    let publisher = receiving
        .publisher("cost", &PublisherOptions::default())
        .unwrap();
    let slots = Slots::new(receiving, &publisher, TRUST).at_most(slots_max);
    let depacketizer = depacketizer_for_channel(&format, &slots).unwrap();
    let sink = ChannelSink::new(publisher, &slots, &format);
    let sockets = Sockets::open(&Binding::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let to = sockets.address();
    let settings = Settings::default();
    let identity = Identity::seeded(1);
    let mut stream = Stream::new(settings, &format, &identity, depacketizer, sink, now_ns());
    if is_whole_in_packets(kind.encoding) {
        stream = stream.with_slots(&slots);
    }
    let until = Until {
        goodbye: false,
        idle: None,
    };
    let mut session = Session::new(sockets, stream, until);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let segment = 12 + kind.payloads[0].len();
    set_socket_option(&sender, SocketOption::UdpSegment, segment as i32).unwrap();
    let (mut sequence, mut spent, mut messages) = (0, 0, 0_usize);
    let batches = PACKETS / kind.payloads.len();
    for number in 0..batches {
        let bytes = batch(kind, &mut sequence, number as u32 * 3600);
        sender.send_to(&bytes, to).unwrap();
        let before = cpu_ns();
        session.turn(None, Duration::ZERO).unwrap();
        spent += cpu_ns() - before;
        while subscriber.take(Duration::ZERO).unwrap().is_some() {
            messages += 1;
        }
    }
    session.finish().unwrap();
    while subscriber.take(Duration::ZERO).unwrap().is_some() {
        messages += 1;
    }
    let expected = match kind.encoding {
        Encoding::H264 => batches,
        _ => batches * kind.payloads.len(),
    };
    assert_eq!(messages, expected, "{}", kind.name);
    (
        spent / (batches * kind.payloads.len()) as u64,
        slots.counts(),
    )
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().unwrap());
    let rounds: usize = arguments.next().unwrap_or(9);
    let root = std::path::PathBuf::from(format!("/dev/shm/hythe-cost-{}", std::process::id()));
    std::fs::create_dir(&root).unwrap();
    let options = PoolOptions::new("cost").root(&root).bytes(64 << 20);
    let join = |name| Node::join(&Pool::open_or_create(&options).unwrap(), name).unwrap();
    let (receiving, reading) = (join("receiver"), join("reader"));
    for kind in kinds() {
        let mut spent = [Vec::new(), Vec::new()];
        let mut counts = [Counts::default(); 2];
        for _ in 0..rounds {
            for (index, slots_max) in [usize::MAX, 0].into_iter().enumerate() {
                let (nanoseconds, counted) = run(&kind, slots_max, &receiving, &reading);
                spent[index].push(nanoseconds);
                counts[index] = counted;
            }
        }
        for ((way, mut spent), counts) in ["in place", "copied"].iter().zip(spent).zip(counts) {
            spent.sort_unstable();
            println!(
                "{}, {way}: {} ns of CPU for each packet (median of {rounds}; {} to {}); {} messages in place, {} copied, {} bytes moved",
                kind.name,
                spent[spent.len() / 2],
                spent[0],
                spent[spent.len() - 1],
                counts.in_place,
                counts.copied,
                counts.moved_bytes,
            );
        }
    }
    drop((receiving, reading));
    std::fs::remove_dir_all(&root).unwrap();
}
