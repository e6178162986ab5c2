//! What the two halves of a flow cost for each message, without a network: nanoseconds at the
//! sender (push, header, checksum, acknowledgement) and at the receiver (check, copy, accept,
//! acknowledgement), the median of 101 runs, each with its spread.
//!
//! `cargo run --release -p hythe-packets --example cost [BYTES [BATCH]]`

use hythe_packets::{
    ACKNOWLEDGEMENT_BYTES_MAX, Arrival, Checksum, HEADER_BYTES, Receiver, Sender, Settings, Window,
};
use std::time::Instant;

const ROUNDS: usize = 101;
const BATCHES: usize = 2_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| {
        arguments
            .next()
            .map_or(default, |text| text.parse().expect(&text))
    };
    let (bytes, batch): (usize, usize) = (number(64), number(32));
    let settings = Settings {
        session: 1,
        flow: 1,
        mtu_bytes: 9_000,
        window: Window {
            messages: 256,
            bytes: 1 << 24,
        },
        message_bytes_max: 8_000,
        unreachable_ns: u64::MAX / 4,
        initial_rtt_ns: 100_000,
        burst_bytes: 1 << 16,
        buffer_bytes: u32::MAX,
    };
    let mut sender = Sender::new(settings).expect("settings");
    let mut receiver = Receiver::new(settings).expect("settings");
    let (payload, mut slot) = (vec![7; bytes], vec![0; bytes]);
    let mut headers = vec![[0; HEADER_BYTES]; batch];
    let mut now_ns = 1_000_000_000;
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        let (mut sending, mut receiving) = (0, 0);
        for _ in 0..BATCHES {
            let start = Instant::now();
            for _ in 0..batch {
                sender
                    .push(now_ns, bytes as u32, 0)
                    .expect("accepted before");
            }
            sending += start.elapsed().as_nanos();
            while sender.next_wake().is_some() {
                // A round trip of 0.1 ms.
                now_ns += 100_000;
                let start = Instant::now();
                let sent = send(&mut sender, now_ns, &payload, &mut headers);
                sending += start.elapsed().as_nanos();
                let start = Instant::now();
                let answer = receive(&mut receiver, now_ns, &headers[..sent], &payload, &mut slot);
                receiving += start.elapsed().as_nanos();
                let start = Instant::now();
                sender
                    .acknowledged(now_ns + 100_000, &answer)
                    .expect("no fault");
                sending += start.elapsed().as_nanos();
            }
        }
        let messages = (BATCHES * batch) as f64;
        costs.push((sending as f64 / messages, receiving as f64 / messages));
    }
    show("send", costs.iter().map(|cost| cost.0).collect());
    show("receive", costs.iter().map(|cost| cost.1).collect());
}

fn send(
    sender: &mut Sender,
    now_ns: u64,
    payload: &[u8],
    headers: &mut [[u8; HEADER_BYTES]],
) -> usize {
    let mut sent = 0;
    while let Some(packet) = sender.transmit(now_ns) {
        headers[sent] = packet.seal(Checksum::of(&payload[packet.range()]));
        sent += 1;
    }
    sent
}

fn receive(
    receiver: &mut Receiver,
    now_ns: u64,
    headers: &[[u8; HEADER_BYTES]],
    payload: &[u8],
    slot: &mut [u8],
) -> Vec<u8> {
    for header in headers {
        let arrival = receiver.receive(now_ns, header, Checksum::of(payload));
        if let Arrival::Place(place) = arrival.expect("no fault") {
            slot[place.range()].copy_from_slice(payload);
            place.done();
        }
    }
    let mut through = 0;
    while let Some(message) = receiver.next_message() {
        through = message.number + 1;
    }
    receiver.accept(now_ns, through);
    let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
    let later_ns = now_ns + 2_000_000;
    let bytes = receiver.acknowledge(later_ns, &mut out).expect("due");
    out[..bytes].to_vec()
}

fn show(name: &str, mut costs: Vec<f64>) {
    costs.sort_by(f64::total_cmp);
    let (least, median, most) = (costs[0], costs[ROUNDS / 2], costs[ROUNDS - 1]);
    println!("{name}: {median:.1} ns a message ({least:.1} to {most:.1})");
}
