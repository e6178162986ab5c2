//! `hythe media send --pace kernel` over a link: who keeps packets apart is found out, said once,
//! and seen at the other end.
//!
//! Debian's kernel has `fq` and `etf` as modules; where they are missing those tests are skipped,
//! loudly. `make test-media` runs them on an emulated board, where they have to run.

use crate::support;

use std::net::UdpSocket;
use std::num::NonZeroUsize;

use hythe_sys::udp_receive::{Message, receive};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde_json::Value;

use crate::links::{FAR, Network, note_arrivals, run};
use crate::support::{Root, eventually};

/// What is sent: half a second, a packet every two milliseconds or so.
const RATE: &str = "kernel:6M";
const RATE_BITS: u64 = 6_000_000;
const BYTES: usize = 420_000;
/// Of a message where that is published: not a whole number of packets, so that some lie in two of
/// them.
const MESSAGE_BYTES: &str = "42000";

const RTP_HEADER_BYTES: usize = 12;

const ETF: [&str; 2] = [
    "qdisc add dev near root handle 1: prio",
    "qdisc add dev near parent 1:1 handle 10: etf clockid CLOCK_TAI delta 2000000",
];

/// A link, a pool and a receiver.
struct Scene {
    root: Root,
    _network: Network,
    socket: UdpSocket,
    port: u16,
    input: String,
}

impl Scene {
    /// A link whose near end is scheduled as `tc` is told, or `None`, said aloud, where that cannot
    /// be had.
    fn new(tc: &[&str]) -> Option<Self> {
        let network = Network::scheduled(tc)?;
        let root = Root::on_shared_memory("departure times")?;
        let (socket, port) = network.far.run(even_socket);
        let input = root.path().join("samples");
        let samples: Vec<u8> = (0..BYTES as u32)
            .map(|index| ((index * 7919) >> 8) as u8)
            .collect();
        std::fs::write(&input, samples).expect("room");
        Some(Self {
            input: input.to_str().expect("a name of ours").into(),
            root,
            _network: network,
            socket,
            port,
        })
    }

    fn arguments(&self, pace: &str) -> Vec<String> {
        self.arguments_for(&self.input, pace)
    }

    fn arguments_for(&self, input: &str, pace: &str) -> Vec<String> {
        let to = format!("rtp://{FAR}:{}", self.port);
        let words = ["media", "send", input, "--raw", "l16:48000:2", "--to", &to];
        let more = ["--pace", pace, "--burst", "1", "--early", "0", "--json"];
        words
            .iter()
            .chain(&more)
            .map(|word| (*word).to_owned())
            .collect()
    }

    /// Sends, and returns the document and what was said.
    fn send(&self, options: &[&str]) -> (Value, String) {
        let arguments = self.arguments(RATE);
        let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        words.extend(options);
        let ended = self.root.run(&words);
        let document = support::streams::document(&ended);
        (document, ended.errors)
    }

    /// When each packet arrived, all in order, none missing, and with the samples in them.
    fn arrivals(&self) -> Vec<u64> {
        let (mut arrived, mut samples) = (Vec::new(), Vec::new());
        let mut next = None;
        eventually("all arrive", || {
            let mut buffer = vec![0; 2048];
            let part = NonZeroUsize::new(buffer.len()).expect("not empty");
            let mut message = [Message::NONE];
            while receive(&self.socket, &mut buffer, part, &mut message).expect("works") == 1 {
                let sequence = u16::from_be_bytes([buffer[2], buffer[3]]);
                assert_eq!(*next.get_or_insert(sequence), sequence, "in order");
                next = Some(sequence.wrapping_add(1));
                arrived.push(message[0].arrived_unix_ns.expect("noted"));
                samples.extend_from_slice(&buffer[RTP_HEADER_BYTES..message[0].bytes]);
            }
            samples.len() >= BYTES
        });
        let input = std::fs::read(&self.input).expect("ours");
        assert!(samples == input, "other samples came");
        arrived
    }
}

/// A socket on an even port with room for all that is sent, whose kernel notes when packets arrive.
fn even_socket() -> (UdpSocket, u16) {
    loop {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("works");
        let port = socket.local_addr().expect("works").port();
        if port.is_multiple_of(2) {
            set_socket_recv_buffer_size_force(&socket, 8 << 20).expect("root");
            note_arrivals(&socket);
            return (socket, port);
        }
    }
}

fn number(document: &Value, name: &str) -> u64 {
    document[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {document}"))
}

/// How often something is said.
fn count(errors: &str, what: &str) -> usize {
    errors.matches(what).count()
}

/// The kernel kept them apart: there were far fewer handovers and calls than packets, and more
/// distances at the other end than those can have made.
fn were_kept_apart(arrived: &[u64], sent: &Value, errors: &str, scheduler: &str) {
    let pace = format!("kernel (SO_TXTIME, {scheduler})");
    assert_eq!(sent["pace"], pace.as_str());
    assert_eq!(count(errors, &format!("pace: {pace}")), 1, "{errors}");
    let (packets, handovers) = (number(sent, "packets"), number(sent, "handovers"));
    assert!(packets > 200 && handovers * 3 < packets, "{sent}");
    let destination = &sent["destinations"][0];
    assert!(number(destination, "calls") * 3 < packets, "{destination}");
    assert_eq!(destination["departures"], format!("SO_TXTIME, {scheduler}"));
    for name in ["lost", "missed"] {
        assert_eq!(
            (number(sent, name), number(destination, name)),
            (0, 0),
            "{sent}"
        );
    }
    assert_eq!(arrived.len() as u64, packets);
    let apart_ns = number(sent, "bytes") * 8 * 1_000_000_000 / RATE_BITS / packets;
    let mut gaps: Vec<u64> = arrived.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let apart = gaps.iter().filter(|gap| **gap >= apart_ns / 2).count() as u64;
    assert!(
        apart > handovers * 2,
        "{apart} distances of {packets} packets, {handovers} handovers"
    );
    gaps.sort_unstable();
    let at = |per_mille: usize| gaps[gaps.len() * per_mille / 1000].abs_diff(apart_ns);
    println!(
        "{scheduler}: {packets} packets, {handovers} handovers, {apart} of {} distances kept; the median is {} ns off",
        gaps.len(),
        at(500)
    );
}

#[test]
fn fq_keeps_packets_apart() {
    let Some(scene) = Scene::new(&["qdisc add dev near root fq"]) else {
        return;
    };
    let (sent, errors) = scene.send(&[]);
    were_kept_apart(&scene.arrivals(), &sent, &errors, "fq on near");
}

#[test]
fn fq_keeps_packets_apart_that_lie_in_messages_of_a_channel() {
    let Some(scene) = Scene::new(&["qdisc add dev near root fq"]) else {
        return;
    };
    let arguments = scene.arguments_for("channel:microphone", RATE);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let sender = scene.root.start(&words);
    eventually("the sender subscribes", || {
        scene.root.subscribers("microphone") == 1
    });
    let publish = ["pub", "microphone", &scene.input, "--size", MESSAGE_BYTES];
    scene.root.ok(&publish);
    let arrived = scene.arrivals();
    sender.interrupt();
    let ended = sender.end();
    let sent = support::streams::document(&ended);
    were_kept_apart(&arrived, &sent, &ended.errors, "fq on near");
}

#[test]
fn etf_in_a_class_keeps_packets_apart() {
    let Some(scene) = Scene::new(&ETF) else {
        return;
    };
    let (sent, errors) = scene.send(&["--class", "1:1"]);
    were_kept_apart(
        &scene.arrivals(),
        &sent,
        &errors,
        "etf in class 1:1 on near",
    );
}

#[test]
fn sender_uses_timed_groups_after_scheduler_is_removed() {
    let Some(scene) = Scene::new(&["qdisc add dev near root fq"]) else {
        return;
    };
    let arguments = scene.arguments(RATE);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let running = scene.root.start(&words);
    // It is under way when something arrived.
    eventually("packets come", || {
        let mut first = [0; 2048];
        scene.socket.set_nonblocking(true).expect("works");
        scene.socket.peek(&mut first).is_ok()
    });
    run("tc", "qdisc replace dev near root pfifo");
    let ended = running.end();
    let sent = support::streams::document(&ended);
    assert_eq!(
        count(&ended.errors, "pace: kernel (SO_TXTIME, fq on near)"),
        1
    );
    let fallback = format!(
        "timed groups ({FAR}:{}: pfifo on near, and only fq and etf heed departure times)",
        scene.port
    );
    assert_eq!(
        count(&ended.errors, &format!("pace: {fallback}")),
        1,
        "{}",
        ended.errors
    );
    assert_eq!(sent["pace"], fallback);
    assert_eq!(number(&sent, "lost"), 0);
}

#[test]
fn sender_without_scheduler_reports_timed_groups_once() {
    let Some(scene) = Scene::new(&["qdisc add dev near root pfifo"]) else {
        return;
    };
    let (sent, errors) = scene.send(&[]);
    let fallback = format!(
        "timed groups ({FAR}:{}: pfifo on near, and only fq and etf heed departure times)",
        scene.port
    );
    assert_eq!(sent["pace"], fallback);
    assert_eq!(count(&errors, "pace: "), 1, "{errors}");
    assert_eq!(number(&sent, "lost"), 0);
    assert_eq!(
        number(&sent, "handovers"),
        number(&sent, "packets"),
        "bursts of one"
    );
    assert_eq!(scene.arrivals().len() as u64, number(&sent, "packets"));
}

#[test]
fn class_of_htb_paces_by_its_rate() {
    let Some(scene) = Scene::new(&[
        "qdisc add dev near root handle 1: htb default 1",
        "class add dev near parent 1: classid 1:1 htb rate 10gbit",
        "class add dev near parent 1: classid 1:10 htb rate 8mbit burst 1600 cburst 1600",
    ]) else {
        return;
    };
    let arguments = scene.arguments("kernel");
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    words.extend(["--class", "1:10"]);
    let sent = support::streams::document(&scene.root.run(&words));
    assert_eq!(sent["pace"], "kernel (class 1:10 of htb on near)");
    assert_eq!(number(&sent, "lost"), 0);
    let arrived = scene.arrivals();
    // Less than 8 Mbit/s take, headers not counted.
    let taken_ns = arrived[arrived.len() - 1] - arrived[0];
    assert!(taken_ns > BYTES as u64 * 900, "{taken_ns} ns");
}
