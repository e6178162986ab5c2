//! Messages of a flow go past the kernel's protocols while a program serves the interface, and by
//! UDP when it does not any more.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hythe_flows::message::Carrier;
use hythe_node::{PortPolicy, SubscriberOptions};
use hythe_sys::namespaces::Network;
use support::served::Served;
use support::{BOUND, Flow, Pair, agreed, direct};
use tempfile::TempDir;

/// A network of the calling thread's own, with nothing but the loopback interface. `None`, said
/// aloud, without root.
fn own_network() -> Option<Network> {
    match Network::unshare() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            eprintln!("SKIPPED: a network of one's own needs root");
            None
        }
        made => {
            let up = Command::new("ip")
                .args(["link", "set", "lo", "up"])
                .status();
            assert!(up.expect("iproute2").success());
            Some(made.expect("made"))
        }
    }
}

/// Datagrams that sockets of UDP have taken in this network.
fn by_udp() -> u64 {
    let counted = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counted");
    let mut lines = counted.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut both = names.split(' ').zip(values.split(' '));
    let found = both.find(|(name, _)| *name == "InDatagrams");
    found
        .and_then(|(_, value)| value.parse().ok())
        .expect("a number")
}

fn message(number: u32) -> Vec<u8> {
    let bytes = match number % 50 {
        // Now and then one that the kernel cuts, and one of several packets.
        49 => 100_000,
        48 => 5_000,
        other => other * 25,
    };
    (0..bytes)
        .map(|at| ((number * 31 + at * 7) >> 3) as u8)
        .collect()
}

fn carry(pair: &mut Pair, flow: &mut Flow, numbers: std::ops::Range<u32>) {
    let node = pair.a.node.clone();
    for number in numbers {
        assert_eq!(flow.publish(&node, &message(number)).delivered, 1);
        assert!(flow.take() == message(number), "message {number}");
    }
}

/// A flow between two processes of which both have a wire at this path.
fn begun(path: &Path) -> (Pair, Flow) {
    let mut pair = Pair::new();
    let wire = path.to_str().map(str::to_owned);
    (pair.a.wire, pair.b.wire) = (wire.clone(), wire);
    let options = SubscriberOptions::default().policy(PortPolicy::Block { timeout_ms: 60_000 });
    let mut flow = pair.flow(&options, agreed(32), direct);
    let node = pair.a.node.clone();
    flow.publish(&node, &message(0));
    flow.go(&mut pair.a);
    assert!(flow.take() == message(0));
    (pair, flow)
}

#[test]
fn a_flow_goes_by_the_wire_and_on_by_udp_when_that_ends() {
    let Some(_network) = own_network() else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let path = folder.path().join("lo");
    let served = Served::start(&path, "lo");
    let (mut pair, mut flow) = begun(&path);
    assert_eq!(pair.a.carried, [(Carrier::Xdp, String::new())]);
    let before = by_udp();
    carry(&mut pair, &mut flow, 1..1000);
    let datagrams = by_udp() - before;
    // Long runs, and what is sent after a pause on a machine that is overloaded.
    assert!(
        datagrams < 1000,
        "{datagrams} of more than 2000 datagrams came by UDP"
    );
    served.end();
    carry(&mut pair, &mut flow, 1000..1500);
    let start = Instant::now();
    while pair.a.carried.len() < 2 {
        pair.a.look();
        assert!(start.elapsed() < BOUND, "{:?}", pair.a.carried);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(pair.a.carried[1].0, Carrier::Udp);
    assert!(
        pair.a.carried[1].1.contains("ended"),
        "{:?}",
        pair.a.carried
    );
    carry(&mut pair, &mut flow, 1500..1600);
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    assert_eq!(flow.subscriber.statistics().messages, 1600);
}

#[test]
fn a_subscriber_that_sleeps_is_woken_by_the_wire() {
    let Some(_network) = own_network() else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let path = folder.path().join("lo");
    let _served = Served::start(&path, "lo");
    let (pair, flow) = begun(&path);
    let node = pair.a.node.clone();
    let (mut publisher, mut subscriber) = (flow.publisher, flow.subscriber);
    std::thread::scope(|scope| {
        let taking = scope.spawn(move || {
            for number in 1..30 {
                let taken = subscriber.take(BOUND).expect("sound").expect("comes");
                assert!(taken.to_vec() == message(number), "message {number}");
            }
        });
        for number in 1..30 {
            // So that it sleeps.
            std::thread::sleep(Duration::from_millis(3));
            let bytes = message(number);
            let mut lease = node.lease(bytes.len()).expect("a slot");
            lease.write(0, &bytes);
            publisher.publish(lease, bytes.len()).expect("published");
        }
        taking.join().expect("no panic");
    });
}

#[test]
fn where_nobody_serves_the_interface_a_flow_goes_by_udp_and_says_why() {
    let folder = TempDir::new().expect("made");
    let path = folder.path().join("none");
    let (mut pair, mut flow) = begun(&path);
    carry(&mut pair, &mut flow, 1..60);
    let [(carrier, reason)] = &pair.a.carried[..] else {
        panic!("{:?}", pair.a.carried);
    };
    assert_eq!(*carrier, Carrier::Udp);
    assert!(reason.contains("none"), "{reason}");
}
