//! Processes receive and send past the kernel's protocols, by sockets that the service gave them.

use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::links::{self, BOUND, FAR, NEAR, Network, udp};
use crate::served::{Served, connected, send, take, wire};
use hythe_memory::{Access, Mapped, Memory as _, Ordering};
use hythe_sys::interface::set_queue_count;
use hythe_testing::{eventually, stays};
use hythe_wire::{Sent, Wire};
use hythe_xdp::{Attachment, Program, interface_index, sealed};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{sockopt, xdp::XDP_PGOFF_RX_RING};
use tempfile::TempDir;

/// As many as an interface has.
const FLOWS: usize = 16;

#[test]
fn both_ends_bypass_kernel_beyond_chunk_count() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let (near, far) = connected(&network);
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let here = Served::start(folder.path(), "near");
    let (mut one, mut other) = (wire(&here, &near), wire(&there, &far));
    assert_eq!(one.descriptors().len(), 1);
    // Nobody is known yet.
    assert!(!one.is_fresh(1));
    assert_eq!(one.send(1, &[IoSlice::new(b"x")]), Sent::NotNow);
    near.send(b"by the kernel").expect("sent");
    assert_eq!(take(&mut other), b"by the kernel");
    send(&mut other, b"known");
    assert_eq!(take(&mut one), b"known");
    for round in 0..3000_u32 {
        let bytes = vec![round as u8; round as usize * 7 % 1400];
        send(&mut one, &bytes);
        assert!(take(&mut other) == bytes, "round {round}");
        send(&mut other, &bytes);
        assert!(take(&mut one) == bytes, "round {round}, back");
    }
    assert_eq!(one.statistics().sent, 3000);
    assert_eq!(one.statistics().received, 3001);
    assert_eq!(one.statistics().strange, 0);
    // Known for a while only.
    assert!(one.is_fresh(1) && !one.is_fresh(10_000_000_000));
    // Longer than a chunk is not for here.
    assert_eq!(one.send(1, &[IoSlice::new(&[0; 4000])]), Sent::NotNow);
}

#[test]
fn process_that_reads_nothing_keeps_no_chunk_from_others() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let mut idle = wire(&there, &far);
    // It takes all chunks, and more is lost.
    let start = Instant::now();
    while idle.dropped().fill_ring_empty == 0 {
        near.send(&[7; 100]).expect("sent");
        assert!(start.elapsed() < BOUND, "{:?}", idle.dropped());
    }
    let time = Duration::from_millis(500);
    stays("nobody else wants them", time, || !idle.look_for_end());
    let (other_near, other_far) = connected(&network);
    let mut other = wire(&there, &other_far);
    let (begun, mut into) = (Instant::now(), [0; 100]);
    let got = loop {
        other_near.send(b"comes").expect("sent");
        if let Some(bytes) = other.receive(1, &mut into) {
            break into[..bytes].to_vec();
        }
        assert!(begun.elapsed() < BOUND, "no chunk came back");
        std::thread::yield_now();
    };
    assert_eq!(got, b"comes");
    eprintln!("chunks were back after {:?}", begun.elapsed());
    // It is told, and what comes for it goes the usual way.
    eventually("the end is seen", || idle.look_for_end());
    near.send(b"usual").expect("sent");
    far.recv(&mut into).expect("comes");
    assert!(!other.look_for_end());
}

#[test]
fn end_of_a_service_is_seen_and_all_goes_the_usual_way() {
    let Some(network) = Network::new(2) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let mut there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let mut wire = wire(&there, &far);
    assert_eq!(wire.descriptors().len(), 2, "one for each queue");
    assert!(!wire.look_for_end());
    near.send(b"here").expect("sent");
    assert_eq!(take(&mut wire), b"here");
    there.end().expect("was there").expect("ended well");
    // A child of another test may have its sockets for a moment.
    eventually("the end is seen", || wire.look_for_end());
    assert!(!wire.is_fresh(1));
    let mut into = [0; 100];
    near.send(b"there").expect("sent");
    let bytes = far.recv(&mut into).expect("comes");
    assert_eq!(&into[..bytes], b"there");
    assert!(!there.path.exists());
    // Another takes over when the sockets of the old one are gone.
    drop(wire);
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let mut wire = self::wire(&there, &far);
    near.send(b"anew").expect("sent");
    assert_eq!(take(&mut wire), b"anew");
}

#[test]
fn sockets_are_for_what_comes_to_ones_own_and_no_other() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let refused = |socket: &UdpSocket| {
        let error = Wire::connect(&there.path, socket, None, BOUND).expect_err("refused");
        error.to_string()
    };
    assert!(refused(&near).contains("another network"));
    let _granted = wire(&there, &far);
    assert!(refused(&far).contains("already"));
    // Only to one that is connected there is one end.
    refused(&network.at_far(|| udp(FAR)));
    let v6 = network.at_far(|| UdpSocket::bind("[::1]:0").expect("bound"));
    v6.connect(v6.local_addr().expect("bound")).expect("set");
    assert!(refused(&v6).contains("IPv4"));
    let nobody = Wire::connect(&folder.path().join("none"), &far, None, BOUND);
    nobody.expect_err("nobody serves there");
}

#[test]
fn port_of_flow_is_given_to_no_other() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let mut wire = wire(&there, &far);
    let port = far.local_addr().expect("bound");
    let taken = || network.at_far(|| UdpSocket::bind(port).ok());
    // Whoever took the place of a socket that was closed would lose what comes for it.
    drop(far);
    assert!(taken().is_none());
    near.send(b"comes").expect("sent");
    assert_eq!(take(&mut wire), b"comes");
    assert!(!wire.look_for_end());
    drop(wire);
    eventually("the packet is taken", || taken().is_some());
    // Of one that is connected to another end the flow is over.
    let (near, far) = connected(&network);
    let mut wire = self::wire(&there, &far);
    let other = udp(NEAR).local_addr().expect("bound");
    far.connect(other).expect("set");
    eventually("the end is seen", || wire.look_for_end());
    drop(near);
}

#[test]
fn silent_connections_keep_no_cpu_busy() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let (_near, far) = connected(&network);
    let _wire = wire(&there, &far);
    eventually("the service sleeps", || {
        // More than are taken at a time.
        let idle: Vec<_> = (0..2 * FLOWS + 4).map(|_| there.connect()).collect();
        let before = there.sleeps();
        let is_connected = || {
            let mut polled = [PollFd::new(&idle[0], PollFlags::IN)];
            !hythe_sys::wait::ready(&mut polled, Duration::from_millis(1))[0]
        };
        // Those who ask nothing are let go after a while: then the next are looked at.
        while is_connected() && there.sleeps() - before < 20 {}
        there.sleeps() - before >= 20 && is_connected()
    });
}

#[test]
fn broken_ring_ends_only_its_own_flow() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let there = network.at_far(|| Served::start(folder.path(), "far"));
    let pairs: Vec<_> = (0..FLOWS).map(|_| connected(&network)).collect();
    let mut wires: Vec<Wire> = pairs.iter().map(|pair| wire(&there, &pair.1)).collect();
    let mut liar = wires.remove(0);
    let socket = liar.descriptors()[0];
    let consumer = sockopt::xdp_mmap_offsets(socket).expect("it is one").rx;
    let ring = Mapped::file(socket, XDP_PGOFF_RX_RING, 4096, Access::Write).expect("mapped");
    // As if it had given back more than there is.
    ring.store(consumer.consumer as usize, 1 << 20, Ordering::Relaxed);
    eventually("the end is seen", || liar.look_for_end());
    // All others are taken: this one has its place.
    let (near, far) = connected(&network);
    let mut last = None;
    eventually("a connection is granted", || {
        last = Wire::connect(&there.path, &far, None, BOUND).ok();
        last.is_some()
    });
    let mut last = last.expect("granted");
    drop((liar, ring));
    let ends = pairs[1..].iter().map(|pair| &pair.0).chain([&near]);
    for (near, wire) in ends.zip(wires.iter_mut().chain([&mut last])) {
        for _ in 0..3 {
            near.send(b"comes").expect("sent");
            assert_eq!(take(wire), b"comes");
        }
        assert!(!wire.look_for_end());
    }
}

/// Gives the far end so many queues, as `ethtool -L` does.
fn set_queues(network: &Network, count: u32) {
    network.at_far(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("bound");
        set_queue_count(&socket, "far", count).expect("set");
    });
}

#[test]
fn queues_that_are_added_are_served_soon() {
    let Some(network) = Network::new(3) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    set_queues(&network, 1);
    let mut there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let mut wire = wire(&there, &far);
    assert_eq!(wire.descriptors().len(), 1);
    near.send(b"here").expect("sent");
    assert_eq!(take(&mut wire), b"here");
    // The same socket under another name: who has that reaches it for as long as it listens.
    let old = folder.path().join("old");
    std::fs::hard_link(&there.path, &old).expect("linked");
    set_queues(&network, 3);
    // For a process it is as if the service had ended, and nothing is lost.
    eventually("the end is seen", || wire.look_for_end());
    near.send(b"there").expect("sent");
    let mut into = [0; 100];
    let bytes = far.recv(&mut into).expect("comes");
    assert_eq!(&into[..bytes], b"there");
    // While it holds sockets nobody can have others; then there is one for each queue.
    assert!(!there.path.exists());
    drop(wire);
    let slots = sealed("slots", 4096).expect("memory");
    let early = Wire::connect(&old, &far, Some((slots.as_fd(), 4096)), BOUND);
    assert!(
        early.is_err() || there.path.exists(),
        "before it serves them"
    );
    drop(early);
    eventually("the service listens", || there.path.exists());
    let mut wire = None;
    eventually("a connection is granted", || {
        // That of the one above may not have ended.
        wire = Wire::connect(&there.path, &far, None, BOUND).ok();
        wire.is_some()
    });
    let mut wire = wire.expect("granted");
    assert_eq!(wire.descriptors().len(), 3, "one for each queue");
    near.send(b"anew").expect("sent");
    assert_eq!(take(&mut wire), b"anew");
    // Whichever queue their packets come by: the kernel spreads flows over them.
    for _ in 0..12 {
        let (near, far) = connected(&network);
        let mut wire = self::wire(&there, &far);
        near.send(b"by any").expect("sent");
        assert_eq!(take(&mut wire), b"by any");
    }
    there.end().expect("was there").expect("ended well");
}

#[test]
fn interface_that_goes_ends_its_service() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let mut there = network.at_far(|| Served::start(folder.path(), "far"));
    let (near, far) = connected(&network);
    let mut wire = wire(&there, &far);
    near.send(b"here").expect("sent");
    assert_eq!(take(&mut wire), b"here");
    network.at_far(|| links::ip("link set far down"));
    send(&mut wire, b"into the void");
    network.at_far(|| links::ip("link set far name other"));
    network.at_far(|| links::ip("link set other up"));
    network.at_far(|| links::ip("link delete other"));
    let thread = there.thread.take().expect("runs");
    let error = thread.join().expect("no panic").expect_err("gone");
    assert!(error.to_string().contains("far is gone"), "{error}");
    eventually("the end is seen", || wire.look_for_end());
}

/// What the kernel shows of an interface.
fn shown(interface: &str) -> String {
    let output = Command::new("ip")
        .args(["-details", "link", "show", "dev", interface])
        .output()
        .expect("iproute2");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn xdp_program_is_attached_for_flows_and_alone() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let mut there = network.at_far(|| Served::start(folder.path(), "far"));
    let is_on = || network.at_far(|| shown("far").contains("xdpgeneric"));
    assert!(!is_on(), "nobody uses it");
    let (near, far) = connected(&network);
    let one = wire(&there, &far);
    assert!(is_on() && !one.was_on());
    // With a tool that knows nothing of it.
    network.at_far(|| {
        let off = ["link", "set", "dev", "far", "xdpgeneric", "off"];
        let status = Command::new("ip").args(off).status().expect("iproute2");
        assert!(!status.success(), "the kernel keeps it");
    });
    let (_other_near, other_far) = connected(&network);
    let other = wire(&there, &other_far);
    assert!(other.was_on() && other.has_others());
    drop((one, other));
    // It stays for a moment, for nobody: the service sees by and by that both have left.
    let (_last_near, last_far) = connected(&network);
    eventually("a connection is granted", || {
        let last = Wire::connect(&there.path, &last_far, None, BOUND);
        last.is_ok_and(|last| !last.has_others())
    });
    eventually("the program leaves the interface", || !is_on());
    // Somebody else's program has taken the place.
    let foreign = network.at_far(|| {
        let interface = interface_index("far").expect("there");
        Program::attach(interface, (1, 1), &[Attachment::Generic]).expect("attached")
    });
    let error = Wire::connect(&there.path, &far, None, BOUND).expect_err("refused");
    assert!(error.to_string().contains("a program on it"), "{error}");
    drop(foreign);
    // The kernel takes it off some time after its last user.
    eventually("the program leaves the interface", || !is_on());
    // Served still, and by the kernel meanwhile.
    let mut again = wire(&there, &far);
    near.send(b"again").expect("sent");
    assert_eq!(take(&mut again), b"again");
    drop(again);
    eventually("the program leaves the interface", || !is_on());
    network.at_far(|| links::ip("link delete far"));
    let thread = there.thread.take().expect("runs");
    let error = thread.join().expect("no panic").expect_err("gone");
    assert!(error.to_string().contains("far is gone"), "{error}");
}
