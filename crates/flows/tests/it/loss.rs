//! Flows over links that lose, swap, double and damage single datagrams, or pass them in one
//! direction only: everything arrives, once and in order. And how fast, beside TCP, on a link
//! between two networks of the kernel.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::networks::{ADDRESSES, Networks, ip};
use crate::support::relay::{Faults, Relay};
use crate::support::{Flow, Pair, agreed, blocking, direct, pattern};
use hythe_flows::message::Agreed;
use hythe_node::Publisher;
use hythe_sys::bpf::{Attachment, Link, load_xdp};
use hythe_testing::{let_time_pass, stays};

/// Some of one packet, some of several, some of none.
fn message(number: u32) -> Vec<u8> {
    const LENGTHS: [u32; 7] = [0, 64, 1_400, 64, 9_000, 30_000, 64];
    pattern(number, LENGTHS[number as usize % LENGTHS.len()])
}

/// A flow by a relay that is honest until it carries.
fn begun(agreed: Agreed, faults: Faults) -> (Pair, Flow, Relay) {
    let mut pair = Pair::new();
    let (mut flow, relay) = pair.flow_by_relay(&blocking(), agreed, faults);
    flow.carry_first(&mut pair.a, &message(0));
    (pair, flow, relay)
}

#[test]
fn messages_arrive_once_in_order_despite_packet_faults() {
    for mtu_bytes in [1_280, 1_500, 9_000] {
        for lost in [1, 10, 100] {
            for trouble in [0, 10] {
                let faults = Faults {
                    lost,
                    doubled: trouble,
                    swapped: 2 * trouble,
                    damaged: trouble,
                };
                println!("packets of {mtu_bytes} bytes, {faults:?}");
                let mut agreed = agreed(32);
                agreed.mtu_bytes = mtu_bytes;
                let (pair, mut flow, relay) = begun(agreed, faults);
                flow.carry(&pair.a.node, (1..150, 8), message);
                assert!(flow.subscriber.try_take().expect("sound").is_none());
                assert_eq!(flow.subscriber.statistics().dropped, 0);
                let passed = relay.passed.load(Ordering::Relaxed);
                assert!(passed > 200, "{passed} datagrams went by the relay");
            }
        }
    }
}

#[test]
fn one_way_cut_of_link_loses_nothing() {
    let (pair, mut flow, relay) = begun(agreed(32), Faults::default());
    let node = &pair.a.node;
    let mut number = 1;
    // What the publisher sends, and then what comes back.
    for way in [0, 1] {
        relay.cut_way(way, true);
        let first = number;
        for _ in 0..10 {
            assert_eq!(flow.publish(node, &message(number)).delivered, 1);
            number += 1;
        }
        let cut = Duration::from_millis(300);
        match way {
            0 => stays("nothing comes", cut, || {
                flow.subscriber.try_take().expect("sound").is_none()
            }),
            _ => let_time_pass(cut, "receipts are lost"),
        }
        relay.cut_way(way, false);
        for expected in first..number {
            assert!(flow.take() == message(expected), "message {expected}");
        }
    }
    assert!(flow.subscriber.try_take().expect("sound").is_none());
    assert_eq!(flow.subscriber.statistics().dropped, 0);
}

const MEASURED: Duration = Duration::from_secs(3);

/// Has an interface drop some of every thousand packets that come.
fn drop_some(interface: &str, per_mille: u64) -> Link {
    const CALL_RANDOM: u64 = 0x85 | 7 << 32;
    // `r1 = r0` cut to 32 bits; `r0 = XDP_PASS`; skip one unless `r1 < limit`; `r0 = XDP_DROP`.
    let limit = (u64::from(u32::MAX) * per_mille / 1_000) >> 1;
    let program = [
        CALL_RANDOM,
        0xbc | 1 << 8,
        // Half of it: values are signed.
        0x74 | 1 << 8 | 1 << 32,
        0xb7 | 2 << 32,
        0x35 | 1 << 8 | 1 << 16 | limit << 32,
        0xb7 | 1 << 32,
        0x95,
    ];
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("bound");
    let index = rustix::net::netdevice::name_to_index(socket, interface).expect("it is there");
    let program = load_xdp("drop", &program).expect("loaded");
    Link::attach(program, index, Attachment::Generic).expect("attached")
}

/// Sends by TCP for a while, and says how many bytes arrive in a second.
fn tcp_bytes_per_second(link: &Networks, during: Duration) -> f64 {
    let listener = link.within_second(|| TcpListener::bind((ADDRESSES[1], 0)).expect("bound"));
    let address = listener.local_addr().expect("bound");
    let came = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("connected");
            let mut bytes = vec![0; 1 << 16];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                came.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
        let mut stream = TcpStream::connect(address).expect("connected");
        let timeout = Some(Duration::from_millis(100));
        stream.set_write_timeout(timeout).expect("set");
        let bytes = vec![7; 1 << 16];
        while start.elapsed() < during {
            // What does not fit in time is tried again.
            let _ = stream.write(&bytes);
        }
        stream.shutdown(std::net::Shutdown::Both).expect("open");
    });
    came.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

/// As [`tcp_bytes_per_second`], by a flow.
fn flow_bytes_per_second(pair: &Pair, flow: &mut Flow, during: Duration) -> f64 {
    const BYTES: usize = 1 << 16;
    let node = pair.a.node.clone();
    let (publisher, subscriber) = (&mut flow.publisher, &mut flow.subscriber);
    let is_over = AtomicBool::new(false);
    let start = Instant::now();
    let came = std::thread::scope(|scope| {
        let taking = scope.spawn(|| {
            let mut came = 0_usize;
            while !is_over.load(Ordering::Relaxed) {
                let taken = subscriber.take(Duration::from_millis(50)).expect("sound");
                came += taken.map_or(0, |sample| sample.len());
            }
            came
        });
        while start.elapsed() < during {
            publish(publisher, &node, BYTES);
        }
        is_over.store(true, Ordering::Relaxed);
        taking.join().expect("no panic")
    });
    came as f64 / start.elapsed().as_secs_f64()
}

fn publish(publisher: &mut Publisher, node: &hythe_node::Node, bytes: usize) {
    let lease = node.lease(bytes).expect("a slot");
    publisher.publish(lease, bytes).expect("published");
}

#[test]
#[ignore = "figures of this machine, for which it must be quiet; needs root"]
fn lossy_flow_shares_link_fairly_with_tcp() {
    let link = Networks::new();
    // Single packets are to be lost.
    ip("link set first gso_max_segs 1");
    let _dropper = link.within_second(|| {
        ip("link set second gso_max_segs 1");
        drop_some("second", 10)
    });
    let mut pair = Pair::new();
    link.place(&mut pair);
    let mut flow = pair.flow(&blocking().depth(32), agreed(32), direct);
    flow.carry_first(&mut pair.a, &[0]);
    let mut rows = Vec::new();
    for _ in 0..3 {
        let tcp = tcp_bytes_per_second(&link, MEASURED);
        let alone = flow_bytes_per_second(&pair, &mut flow, MEASURED);
        let (mut beside, mut with) = (0.0, 0.0);
        std::thread::scope(|scope| {
            let flowing = scope.spawn(|| flow_bytes_per_second(&pair, &mut flow, MEASURED));
            beside = tcp_bytes_per_second(&link, MEASURED);
            with = flowing.join().expect("no panic");
        });
        let mega = |rate: f64| (rate / 1e6).round();
        println!(
            "MB/s: TCP {} alone, {} beside a flow; flow {} alone, {} beside TCP",
            mega(tcp),
            mega(beside),
            mega(alone),
            mega(with)
        );
        rows.push((alone / tcp, beside / tcp));
    }
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    let speed = rows[rows.len() / 2].0;
    rows.sort_by(|one, other| one.1.total_cmp(&other.1));
    let left = rows[rows.len() / 2].1;
    println!("flow / TCP {speed:.2}, TCP beside / alone {left:.2} (medians)");
    assert!(speed >= 0.5, "{speed}");
    assert!(left >= 1.0 / 3.0, "{left}");
}
