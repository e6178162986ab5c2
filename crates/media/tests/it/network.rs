//! Destinations behind networks that misbehave: small MTUs, interfaces that go down, queues that
//! are full, addresses that change.
//!
//! Each test that needs one has two network namespaces of its own, joined by a pair of interfaces,
//! which end with it. They need root and are skipped, loudly, without. One test runs at a time:
//! they start programs, and one uses up the descriptors.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hythe_media::wire::destination::Destination;
use hythe_media::wire::destinations::{DESTINATIONS_MAX, Destinations};
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_media::wire::fallback::MethodReason;
use hythe_media::wire::health::{Change, Event, QUIET, State};
use hythe_media::wire::method::Method;
use hythe_testing::Polling;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::links::{FAR, FAR_V6, NEAR, NEAR_V6, Network, ip, run};
use crate::wire::support::{BOUND, Prebuilt, expect, expect_nothing, forced, receiver, send_all};

const NO_WAIT: Duration = Duration::ZERO;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A receiver at the far end.
fn far_receiver(network: &Network, host: &str) -> (UdpSocket, SocketAddr) {
    network.far.run(|| receiver(host))
}

fn open(address: SocketAddr) -> Destination {
    Destination::open(address, &DestinationOptions::default()).expect("opened")
}

fn changes(events: &[Event]) -> Vec<Change> {
    events.iter().map(|event| event.change).collect()
}

#[test]
fn every_method_crosses_a_link() {
    let _alone = alone();
    let Some(network) = Network::new() else {
        return;
    };
    let prebuilt = Prebuilt::equal(200);
    for host in [FAR, FAR_V6] {
        for method in Method::BEST_FIRST {
            let (socket, address) = far_receiver(&network, host);
            let mut destination = Destination::open(address, &forced(method)).unwrap();
            assert_eq!(send_all(&mut destination, &prebuilt.packets()), []);
            expect(&socket, (0..200).map(|index| prebuilt.packet(index)));
        }
    }
}

#[test]
fn packets_beyond_the_mtu_go_singly_and_the_others_in_runs() {
    let _alone = alone();
    let Some(network) = Network::new() else {
        return;
    };
    ip("link set near mtu 1300");
    let (large, small) = (Prebuilt::equal(30), Prebuilt::new(&[1200; 30], 256));
    for host in [FAR, FAR_V6] {
        let (socket, address) = far_receiver(&network, host);
        let mut destination = open(address);
        let events = send_all(&mut destination, &large.packets());
        let told = Change::TooLarge {
            bytes: 1400,
            mtu_bytes: 1300,
        };
        assert_eq!(changes(&events), [told]);
        // One refused, and one that took them all; from then on one each.
        assert_eq!(destination.statistics().calls, 2);
        for _ in 0..3 {
            assert_eq!(send_all(&mut destination, &large.packets()), []);
            assert_eq!(destination.statistics().method, Method::Sendmmsg);
            assert_eq!(send_all(&mut destination, &small.packets()), []);
            assert_eq!(destination.statistics().method, Method::SendfileGso);
        }
        assert_eq!(destination.statistics().calls, 2 + 3 * 2);
        let one = |prebuilt: &Prebuilt| {
            (0..30)
                .map(|index| prebuilt.packet(index).to_vec())
                .collect::<Vec<_>>()
        };
        let mut expected = one(&large);
        for _ in 0..3 {
            expected.extend(one(&large));
            expected.extend(one(&small));
        }
        expect(&socket, expected.iter().map(Vec::as_slice));
    }
}

#[test]
fn interface_that_goes_down_and_returns() {
    let _alone = alone();
    let Some(network) = Network::new() else {
        return;
    };
    let (other, other_address) = receiver("127.0.0.1");
    let prebuilt = Prebuilt::equal(40);
    for host in [FAR, FAR_V6] {
        let (socket, address) = far_receiver(&network, host);
        let (mut away, mut here) = (open(address), open(other_address));
        let start = Instant::now();
        let mut events = Vec::new();
        let mut send = |at: Duration, events: &mut Vec<Event>| {
            for destination in [&mut away, &mut here] {
                assert_eq!(
                    destination.send(&prebuilt.packets(), start + at, events),
                    40
                );
            }
            expect(&other, (0..40).map(|index| prebuilt.packet(index)));
            away.statistics()
        };
        assert_eq!(send(NO_WAIT, &mut events).packets, 40);
        ip("link set near down");
        for ms in 0..10 {
            send(Duration::from_millis(ms), &mut events);
        }
        let statistics = send(NO_WAIT, &mut events);
        assert_eq!((statistics.packets, statistics.lost), (40, 11 * 40));
        let down = matches!(
            changes(&events)[..],
            [Change::State(
                State::Unreachable { .. } | State::InterfaceDown
            )]
        );
        assert!(down, "{events:?}");
        ip("link set near up");
        // Addresses of IPv6 go with the interface.
        ip(&format!("-6 addr replace {NEAR_V6}/64 dev near nodad"));
        // The far end has lost the carrier for a moment, and takes one to come back.
        network.far.run(|| ip("link set far up"));
        events.clear();
        let statistics = until_sent(&mut |late| send(Duration::from_secs(2) + late, &mut events));
        assert_eq!(statistics.method, Method::SendfileGso);
        send(Duration::from_secs(60) + QUIET, &mut events);
        assert_eq!(changes(&events), [Change::State(State::Reachable)]);
        // What leaves before the far end has its carrier again is lost there.
        let (begun, mut arrived) = (Instant::now(), 0);
        let mut polling = Polling::new("40 packets");
        received(&socket);
        while arrived < 40 {
            send(Duration::from_secs(120) + begun.elapsed(), &mut events);
            polling.pause_or_show(|| format!("{arrived} packets arrived"));
            arrived += received(&socket);
        }
    }
}

/// Sends until packets go, which is after some milliseconds.
fn until_sent(
    send: &mut dyn FnMut(Duration) -> hythe_media::wire::destination::DestinationStatistics,
) -> hythe_media::wire::destination::DestinationStatistics {
    let before = send(NO_WAIT).packets;
    let begun = Instant::now();
    let mut polling = Polling::new("a packet is sent");
    loop {
        let statistics = send(begun.elapsed());
        if statistics.packets > before {
            return statistics;
        }
        polling.pause_or_show(|| format!("{statistics:?}"));
    }
}

/// How many packets have arrived.
fn received(socket: &UdpSocket) -> usize {
    socket.set_nonblocking(true).expect("works");
    let mut buffer = [0; 2000];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
}

#[test]
fn own_address_that_changes_is_noticed_and_the_port_stays() {
    let _alone = alone();
    let Some(network) = Network::new() else {
        return;
    };
    let (socket, address) = far_receiver(&network, FAR);
    let mut destination = open(address);
    let prebuilt = Prebuilt::equal(3);
    send_all(&mut destination, &prebuilt.packets());
    let port = destination.rtp_socket().local_addr().unwrap().port();
    expect(&socket, (0..3).map(|index| prebuilt.packet(index)));
    ip(&format!("addr del {NEAR}/24 dev near"));
    ip("addr add 10.77.0.3/24 dev near");
    let start = Instant::now();
    let mut events = Vec::new();
    destination.send(&prebuilt.packets(), start, &mut events);
    assert_eq!(destination.statistics().lost, 3);
    let state = destination.statistics().state;
    assert!(matches!(state, State::Unreachable { .. }), "{state}");
    destination.send(
        &prebuilt.packets(),
        start + Duration::from_millis(1),
        &mut events,
    );
    destination.send(
        &prebuilt.packets(),
        start + Duration::from_secs(2),
        &mut events,
    );
    assert_eq!(destination.statistics().packets, 6);
    let own = destination.rtp_socket().local_addr().unwrap();
    assert_eq!(own, format!("10.77.0.3:{port}").parse().unwrap());
    expect(&socket, (0..3).map(|index| prebuilt.packet(index)));
    assert_eq!(events.len(), 1, "{events:?}");
}

#[test]
fn neighbour_that_does_not_answer_is_out_of_reach() {
    let _alone = alone();
    let Some(_network) = Network::new() else {
        return;
    };
    let mut destination = open("10.77.0.99:5004".parse().unwrap());
    let prebuilt = Prebuilt::equal(2);
    let mut events = Vec::new();
    let mut polling = Polling::new("an event");
    while events.is_empty() {
        destination.send(&prebuilt.packets(), Instant::now(), &mut events);
        polling.pause_or_show(|| format!("{:?}", destination.statistics()));
    }
    let change = events[0].change;
    assert!(
        matches!(change, Change::State(State::Unreachable { .. })),
        "{change:?}"
    );
}

#[test]
fn full_buffer_is_waited_for_once_and_the_others_go_on() {
    let _alone = alone();
    let Some(network) = Network::new() else {
        return;
    };
    // Packets wait here and stay on their sender's account: 8 kbit/s are less than one packet a
    // second.
    run(
        "tc",
        "qdisc add dev near root tbf rate 8kbit burst 1600 limit 10000000",
    );
    let (_unread, address) = far_receiver(&network, FAR);
    let (other, other_address) = receiver("127.0.0.1");
    let mut destinations = Destinations::new();
    let full = destinations
        .add(address, &DestinationOptions::default())
        .unwrap();
    destinations
        .add(other_address, &DestinationOptions::default())
        .unwrap();
    let prebuilt = Prebuilt::equal(44);
    let mut events = Vec::new();
    let send_timeout = Duration::from_millis(1);
    for _ in 0..40 {
        let outcome = destinations.send(&prebuilt.packets(), send_timeout);
        assert_eq!(outcome.packets + outcome.lost, 2 * 44);
        events.extend_from_slice(outcome.events);
        expect(&other, (0..44).map(|index| prebuilt.packet(index)));
    }
    assert_eq!(changes(&events), [Change::State(State::Full)]);
    let statistics = destinations.remove(full).unwrap();
    // The buffer, counted twice, takes some groups; what came later is lost.
    assert!(
        statistics.packets >= 44 && statistics.lost >= 44,
        "{statistics:?}"
    );
    assert_eq!(statistics.packets + statistics.lost, 40 * 44);
    assert!(statistics.overflows > 0);
}

#[test]
fn capacity_that_comes_in_time_is_waited_for() {
    let _alone = alone();
    let Some(network) = Network::new() else {
        return;
    };
    run(
        "tc",
        "qdisc add dev near root tbf rate 80mbit burst 70000 limit 10000000",
    );
    let (socket, address) = far_receiver(&network, FAR);
    let mut options = DestinationOptions::default();
    options.send_buffer_bytes = 1;
    let mut destinations = Destinations::new();
    let id = destinations.add(address, &options).unwrap();
    let prebuilt = Prebuilt::equal(200);
    let outcome = destinations.send(&prebuilt.packets(), BOUND);
    assert_eq!((outcome.packets, outcome.lost), (200, 0));
    assert_eq!(outcome.events, []);
    expect(&socket, (0..200).map(|index| prebuilt.packet(index)));
    assert!(destinations.remove(id).unwrap().overflows > 0);
}

#[test]
fn sender_counts_drops_of_interface() {
    let _alone = alone();
    let Some(network) = Network::new() else {
        return;
    };
    run(
        "tc",
        "qdisc add dev near root tbf rate 8kbit burst 1600 limit 3000",
    );
    let (_unread, address) = far_receiver(&network, FAR);
    let mut destination = Destination::open(address, &forced(Method::Sendmmsg)).unwrap();
    let prebuilt = Prebuilt::equal(50);
    let events = send_all(&mut destination, &prebuilt.packets());
    let statistics = destination.statistics();
    assert!(
        statistics.overflows > 0 && statistics.lost > 40,
        "{statistics:?}"
    );
    assert_eq!(statistics.packets + statistics.lost, 50);
    assert_eq!(changes(&events), [Change::State(State::Full)]);
}

#[test]
fn multicast_stays_on_the_host_or_crosses_the_link_as_asked() {
    let _alone = alone();
    let Some(network) = Network::new() else {
        return;
    };
    let group = Ipv4Addr::new(239, 255, 77, 6);
    let group_v6 = "ff05::4d4d".parse().unwrap();
    let (far, address) = far_receiver(&network, "0.0.0.0");
    far.join_multicast_v4(&group, &FAR.parse().unwrap())
        .unwrap();
    let (far_v6, address_v6) = far_receiver(&network, "::");
    let index = network.far.run(|| interface_index("far"));
    far_v6.join_multicast_v6(&group_v6, index).unwrap();
    let prebuilt = Prebuilt::equal(50);
    let to_v4 = SocketAddr::from((group, address.port()));
    let to_v6 = SocketAddr::from((group_v6, address_v6.port()));
    for (socket, to, hops, count) in [
        (&far, to_v4, 0, 0),
        (&far, to_v4, 1, 50),
        (&far_v6, to_v6, 0, 0),
        (&far_v6, to_v6, 1, 50),
    ] {
        let mut options = DestinationOptions::default();
        options.multicast_hops = hops;
        options.multicast_interface = Some("near".into());
        let mut destination = Destination::open(to, &options).unwrap();
        assert_eq!(send_all(&mut destination, &prebuilt.packets()), []);
        expect(socket, (0..count).map(|index| prebuilt.packet(index)));
    }
}

fn interface_index(name: &str) -> u32 {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("works");
    rustix::net::netdevice::name_to_index(socket, name).expect("an interface")
}

#[test]
fn multicast_comes_back_to_this_host_only_if_asked() {
    let _alone = alone();
    let Some(_network) = Network::new() else {
        return;
    };
    let group = Ipv4Addr::new(239, 255, 77, 5);
    let (socket, address) = receiver("0.0.0.0");
    socket
        .join_multicast_v4(&group, &NEAR.parse().unwrap())
        .unwrap();
    let prebuilt = Prebuilt::equal(5);
    for is_wanted in [false, true] {
        let mut options = DestinationOptions::default();
        options.multicast_interface = Some("near".into());
        options.multicast_loop = is_wanted;
        let to = (group, address.port()).into();
        let mut destination = Destination::open(to, &options).unwrap();
        send_all(&mut destination, &prebuilt.packets());
        if is_wanted {
            expect(&socket, (0..5).map(|index| prebuilt.packet(index)));
        } else {
            expect_nothing(&socket);
        }
    }
}

#[test]
fn thousand_destinations_each_get_every_packet() {
    let _alone = alone();
    let options = DestinationOptions::default();
    let mut destinations = Destinations::new();
    // Loopback has many addresses; sockets of receivers and ours need 3,000 descriptors.
    let receivers: Vec<UdpSocket> = (0..DESTINATIONS_MAX)
        .map(|_| {
            let (socket, address) = receiver("127.0.0.1");
            destinations.add(address, &options).unwrap();
            socket
        })
        .collect();
    let error = destinations
        .add("127.0.0.1:5004".parse().unwrap(), &options)
        .unwrap_err();
    assert!(error.to_string().contains("1,000"), "{error}");
    let prebuilt = Prebuilt::new(&[1400, 1400, 1400, 200, 172, 172], 256);
    for _ in 0..3 {
        let outcome = destinations.send(&prebuilt.packets(), NO_WAIT);
        assert_eq!((outcome.packets, outcome.lost), (6000, 0));
        assert_eq!(outcome.events, []);
        for socket in &receivers {
            expect(socket, (0..6).map(|index| prebuilt.packet(index)));
        }
    }
}

#[test]
fn more_descriptors_are_asked_for_when_there_are_none_left() {
    let _alone = alone();
    let limit = getrlimit(Resource::Nofile);
    let open_now = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let tight = Rlimit {
        current: Some(open_now + 10),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, tight).unwrap();
    let mut destinations = Destinations::new();
    let added: Result<Vec<_>, _> = (0..20)
        .map(|_| {
            destinations.add(
                "127.0.0.1:5004".parse().unwrap(),
                &DestinationOptions::default(),
            )
        })
        .collect();
    let raised = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(added.unwrap().len(), 20);
    assert_eq!(raised.current, limit.maximum);
}

/// What the kernel's packet scheduler spaces: packets of a class with 8 Mbit/s, handed over all at
/// once.
#[test]
fn class_of_the_interface_paces_what_its_priority_chooses() {
    const PACKETS: u32 = 100;
    /// Less than a packet with all its headers takes at 8 Mbit/s.
    const APART: Duration = Duration::from_millis(1);
    let _alone = alone();
    let Some(network) = Network::new() else {
        return;
    };
    for arguments in [
        "qdisc add dev near root handle 1: htb default 1",
        "class add dev near parent 1: classid 1:1 htb rate 10gbit",
        "class add dev near parent 1: classid 1:10 htb rate 8mbit burst 1500 cburst 1500",
    ] {
        run("tc", arguments);
    }
    let prebuilt = Prebuilt::equal(PACKETS as usize);
    let send_in_class = |priority| {
        let (socket, address) = far_receiver(&network, FAR);
        let mut options = forced(Method::Sendmmsg);
        options.priority = priority;
        let mut destination = Destination::open(address, &options).unwrap();
        let begun = Instant::now();
        assert_eq!(send_all(&mut destination, &prebuilt.packets()), []);
        expect(
            &socket,
            (0..PACKETS as usize).map(|index| prebuilt.packet(index)),
        );
        begun.elapsed()
    };
    send_in_class(None);
    assert_eq!(sent_in_class("1:10"), 0);
    assert!(sent_in_class("1:1") >= PACKETS, "by default");
    // From before the first: a reader that is late sees a longer time, never a shorter one.
    let taken = send_in_class(Some(0x0001_0010));
    assert_eq!(sent_in_class("1:10"), PACKETS);
    // The first packets pass at once, as the class allows.
    assert!(taken > APART * (PACKETS - 10), "{taken:?}");
}

/// How many packets have gone by a class of the interface `near`.
fn sent_in_class(class: &str) -> u32 {
    let arguments = ["-s", "class", "show", "dev", "near"];
    let output = Command::new("tc").args(arguments).output().expect("tc");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines();
    let mut of_class = lines.skip_while(|line| !line.starts_with(&format!("class htb {class} ")));
    let sent = of_class.nth(1).expect("a class and what it sent");
    let words: Vec<&str> = sent.split_whitespace().collect();
    let ["Sent", _, "bytes", packets, "pkt", ..] = words[..] else {
        panic!("{sent}");
    };
    packets.parse().expect("a number")
}

/// Before Linux 6.11, `UDP_SEGMENT` needs a device that writes checksums; EIO says that there is
/// none. The emulated board of `make test-media` has such a kernel, and an environment variable
/// says so.
#[test]
fn sender_remembers_device_without_segmentation() {
    let _alone = alone();
    let is_board = std::env::var_os("HYTHE_TEST_BOARD").is_some();
    if !is_board && Command::new("ethtool").arg("--version").output().is_err() {
        eprintln!(
            "SKIPPED: there is no ethtool to take a device's checksums away (apt-get install ethtool)"
        );
        return;
    }
    let Some(network) = Network::new() else {
        assert!(!is_board, "the board's tests run as root");
        return;
    };
    run("ethtool", "--offload near tx off");
    let prebuilt = Prebuilt::equal(40);
    for host in [FAR, FAR_V6] {
        let (socket, address) = far_receiver(&network, host);
        let mut destination = open(address);
        let events = send_all(&mut destination, &prebuilt.packets());
        let statistics = destination.statistics();
        if statistics.method.segments() && !is_board {
            eprintln!("SKIPPED: this kernel writes the checksums itself (Linux 6.11 or later)");
            return;
        }
        let reason = MethodReason::Refused {
            method: Method::SendfileGso,
            errno: Errno::IO,
        };
        let method = Method::Sendmmsg;
        assert_eq!(
            (statistics.method, statistics.method_reason),
            (method, reason)
        );
        assert_eq!(changes(&events), [Change::Method { method, reason }]);
        // Two ways were refused, the third took all.
        assert_eq!(statistics.calls, 3);
        expect(&socket, (0..40).map(|index| prebuilt.packet(index)));
        for more in 1..=20 {
            assert_eq!(send_all(&mut destination, &prebuilt.packets()), []);
            assert_eq!(destination.statistics().calls, 3 + more);
            expect(&socket, (0..40).map(|index| prebuilt.packet(index)));
        }
        assert_eq!(destination.statistics().lost, 0);
    }
}
