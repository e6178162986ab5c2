//! `hythe media send` that is kept from running: what it sends is late for a while, and then on
//! time again, whole and in order.
//!
//! When packets leave is taken from the kernel's time stamps at the receiver. Nothing is asserted
//! about how fast this machine is.

use crate::support;

use std::net::UdpSocket;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use crate::support::{BOUND, Root, eventually};
use hythe_sys::udp_receive::{Message, enable_timestamps, receive};
use hythe_testing::let_time_pass;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::process::Signal;
use serde_json::Value;

const BITS_PER_SECOND: usize = 4_000_000;
const SECONDS: usize = 9;
/// Seven transport packets of 188 bytes.
const PAYLOAD_BYTES: usize = 7 * 188;
const PACKETS: usize = BITS_PER_SECOND / 8 * SECONDS / PAYLOAD_BYTES;

/// A packet as it arrived: its sequence number, its RTP time in ticks, and when.
struct Arrival {
    sequence: u16,
    ticks: u32,
    unix_ns: u64,
}

/// An even port of this host, and a socket on it with room for the whole stream.
fn listener() -> UdpSocket {
    let mut sockets = (0..1000).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let is_even = |socket: &UdpSocket| {
        let port = socket.local_addr().expect("bound").port();
        port.is_multiple_of(2)
    };
    let socket = sockets.find(is_even).expect("an even one");
    socket.set_nonblocking(true).expect("works");
    enable_timestamps(&socket).expect("works");
    // Packets are counted with what the kernel keeps around them.
    let bytes = 2 * PACKETS * 2048;
    if set_socket_recv_buffer_size_force(&socket, bytes).is_err() {
        set_socket_recv_buffer_size(&socket, bytes).expect("works");
    }
    socket
}

/// Takes what has arrived.
fn drain(socket: &UdpSocket, arrivals: &mut Vec<Arrival>) {
    let mut buffer = vec![0; 2048];
    let part = NonZeroUsize::new(buffer.len()).expect("not empty");
    let mut message = [Message::NONE];
    while receive(socket, &mut buffer, part, &mut message).expect("works") == 1 {
        assert_eq!(message[0].bytes, 12 + PAYLOAD_BYTES);
        arrivals.push(Arrival {
            sequence: u16::from_be_bytes([buffer[2], buffer[3]]),
            ticks: u32::from_be_bytes([buffer[4], buffer[5], buffer[6], buffer[7]]),
            unix_ns: message[0].arrived_unix_ns.expect("noted"),
        });
    }
}

/// How much later each packet came than its RTP time says, the earliest of all taken as on time.
fn lateness_ns(arrivals: &[Arrival]) -> Vec<i64> {
    let first = arrivals.first().expect("some");
    let behind = |arrival: &Arrival| {
        let ticks = i64::from(arrival.ticks.wrapping_sub(first.ticks));
        (arrival.unix_ns - first.unix_ns).cast_signed() - ticks * 100_000 / 9
    };
    let all: Vec<i64> = arrivals.iter().map(behind).collect();
    let least = *all.iter().min().expect("some");
    all.iter().map(|late| late - least).collect()
}

/// A stream of null packets: nothing in it but its rate.
fn null_packets() -> Vec<u8> {
    let mut packet = [0xff; 188];
    packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    packet.repeat(7 * PACKETS)
}

#[test]
fn sender_that_was_stopped_is_on_time_again() {
    let Some(root) = Root::on_shared_memory("a sender that is stopped now and then") else {
        return;
    };
    let film = root.path().join("film.ts");
    std::fs::write(&film, null_packets()).expect("room");
    let socket = listener();
    let to = format!("rtp://{}", socket.local_addr().expect("bound"));
    let rate = BITS_PER_SECOND.to_string();
    let film = film.to_str().expect("UTF-8");
    let arguments = [
        "media",
        "send",
        film,
        "--to",
        &to,
        "--bitrate",
        &rate,
        "--json",
    ];
    let sender = root.start(&arguments);
    let mut arrivals = Vec::new();
    eventually("it begins", || {
        drain(&socket, &mut arrivals);
        !arrivals.is_empty()
    });
    for (runs_ms, stopped_ms) in [(300, 50), (400, 1000), (200, 200), (700, 50)] {
        pass(runs_ms, &socket, &mut arrivals);
        sender.signal(Signal::STOP);
        pass(stopped_ms, &socket, &mut arrivals);
        sender.signal(Signal::CONT);
    }
    let began = Instant::now();
    while arrivals.len() < PACKETS && began.elapsed() < BOUND {
        pass(20, &socket, &mut arrivals);
    }
    let sent = support::streams::document(&sender.end());
    assert_eq!(sent["packets"], PACKETS, "{sent}");
    // None is missing, and none overtook another.
    assert_eq!(arrivals.len(), PACKETS);
    let in_order = |pair: &[Arrival]| pair[1].sequence == pair[0].sequence.wrapping_add(1);
    assert!(arrivals.windows(2).all(in_order));
    let late = lateness_ns(&arrivals);
    let worst = *late.iter().max().expect("some");
    let last = *late.last().expect("some");
    assert!(worst > 800_000_000, "stopped for a second: {worst} ns late");
    // In the seconds since it was stopped last all of it was made up for; half of it would be
    // enough to show that, on a machine that keeps it waiting for other reasons as well.
    assert!(
        last < worst / 2,
        "{last} ns late in the end, {worst} at worst: {sent}"
    );
    let spacing = &sent["spacing"];
    assert_eq!(spacing["moves"], 0, "{sent}");
    let of = |field: &str| spacing[field].as_i64().expect("a time");
    assert!(of("late_max_ns") > 800_000_000, "{sent}");
    assert!(of("late_ns") < of("late_max_ns") / 2, "{sent}");
    assert!(mean(&sent) > 4.0, "20 ms of it leave together: {sent}");
}

fn mean(sent: &Value) -> f64 {
    sent["packets_per_handover"].as_f64().expect("a number")
}

/// Lets time pass and takes what arrives.
fn pass(milliseconds: u64, socket: &UdpSocket, arrivals: &mut Vec<Arrival>) {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    while Instant::now() < end {
        let_time_pass(Duration::from_millis(2), "between two polls of the socket");
        drain(socket, arrivals);
    }
}

/// How many leave together at most is what tells the two apart on a machine of any speed: whoever
/// is late sends larger groups, but none beyond the burst.
#[test]
fn late_file_sends_long_bursts_and_live_media_short_ones() {
    let Some(root) = Root::on_shared_memory("bursts of files, live media and groups") else {
        return;
    };
    let socket = listener();
    let address = socket.local_addr().expect("bound");
    // 20 ms of 20 Mbit/s are 38 packets.
    let second = null_packets()[..20_000_000 / 8 / PAYLOAD_BYTES * PAYLOAD_BYTES].to_vec();
    let film = root.path().join("second.ts");
    std::fs::write(&film, &second).expect("room");
    let film = film.to_str().expect("UTF-8");
    let to_host = format!("rtp://{address}");
    // Nobody is in that group, and nothing of it leaves this host.
    let to_group = format!("rtp://239.77.6.9:{}?ttl=0&interface=lo", address.port());
    let send = |input: &str, to: &str| {
        let arguments = [
            "media",
            "send",
            input,
            "--to",
            to,
            "--bitrate",
            "20M",
            "--json",
        ];
        let ended = match input {
            "-" => root.feed(&arguments, &second),
            _ => root.run(&arguments),
        };
        mean(&support::streams::document(&ended))
    };
    assert!(send(film, &to_host) > 8.0);
    assert!(send("-", &to_host) <= 8.0);
    assert!(send(film, &to_group) <= 8.0);
}
