//! Each method alone, over the loopback interface.

use std::time::Instant;

use hythe_media::wire::destination::Destination;
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_media::wire::fallback::{MethodReason, PROBE_AGAIN};
use hythe_media::wire::health::{Change, State};
use hythe_media::wire::method::Method;
use hythe_media::wire::packets::{Header, Packets};

use hythe_sys::socket_option::{SocketOption, set_socket_option};

use super::support::{Prebuilt, expect, expect_nothing, forced, receiver, send_all};

/// Loopback addresses of both families, as far as this machine has them.
fn hosts() -> Vec<&'static str> {
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        return vec!["127.0.0.1", "::1"];
    }
    eprintln!("SKIPPED: this machine has no IPv6");
    vec!["127.0.0.1"]
}

/// Sizes of the packets of some groups: one, few, more than a call takes; equal, with a short end,
/// of all sizes.
fn groups() -> Vec<Vec<u16>> {
    vec![
        vec![1400],
        vec![12],
        vec![1400; 3],
        vec![172; 200],
        vec![1400; 200],
        vec![1400, 1400, 300, 1400, 1400, 1400, 12],
        (12..212).collect(),
        (0..100).map(|index| 1400 - 7 * index).collect(),
        vec![9000; 20],
    ]
}

#[test]
fn every_method_delivers_every_byte() {
    for host in hosts() {
        for method in Method::BEST_FIRST {
            for sizes in groups() {
                // Places in a page: at its beginning, and such that packets cross it.
                for offset in [0, 256, 4095] {
                    let prebuilt = Prebuilt::new(&sizes, offset);
                    let (socket, address) = receiver(host);
                    let mut destination = Destination::open(address, &forced(method)).unwrap();
                    let events = send_all(&mut destination, &prebuilt.packets());
                    assert_eq!(events, []);
                    expect(
                        &socket,
                        (0..sizes.len()).map(|index| prebuilt.packet(index)),
                    );
                    let statistics = destination.statistics();
                    assert_eq!(
                        (statistics.packets, statistics.lost),
                        (sizes.len() as u64, 0)
                    );
                    let bytes: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
                    assert_eq!(statistics.bytes, bytes);
                }
            }
        }
    }
}

#[test]
fn headers_differ_and_payloads_are_shared() {
    for host in hosts() {
        for method in Method::BEST_FIRST {
            for sizes in groups() {
                let prebuilt = Prebuilt::new(&sizes, 256);
                let headers: Vec<Header> =
                    (0..sizes.len()).map(|index| [index as u8; 12]).collect();
                let packets = prebuilt.packets().with_headers(&headers).unwrap();
                let (socket, address) = receiver(host);
                let mut destination = Destination::open(address, &forced(method)).unwrap();
                send_all(&mut destination, &packets);
                let expected: Vec<Vec<u8>> = (0..sizes.len())
                    .map(|index| [&headers[index], &prebuilt.packet(index)[12..]].concat())
                    .collect();
                expect(&socket, expected.iter().map(Vec::as_slice));
            }
        }
    }
}

#[test]
fn packets_with_holes_between_them_arrive_without_the_holes() {
    let prebuilt = Prebuilt::equal(90);
    let places: Vec<_> = prebuilt.places.iter().step_by(3).copied().collect();
    let packets = Packets::lasting(prebuilt.memory(), &places).unwrap();
    for method in Method::BEST_FIRST {
        let (socket, address) = receiver("127.0.0.1");
        let mut destination = Destination::open(address, &forced(method)).unwrap();
        send_all(&mut destination, &packets);
        expect(
            &socket,
            (0..90).step_by(3).map(|index| prebuilt.packet(index)),
        );
    }
}

#[test]
fn run_is_one_call_and_the_best_method_is_the_choice() {
    let calls = |method: Option<Method>| {
        let prebuilt = Prebuilt::equal(44);
        let (_socket, address) = receiver("127.0.0.1");
        let mut options = DestinationOptions::default();
        options.method = method;
        let mut destination = Destination::open(address, &options).unwrap();
        send_all(&mut destination, &prebuilt.packets());
        let statistics = destination.statistics();
        (statistics.method, statistics.calls)
    };
    assert_eq!(calls(None), (Method::SendfileGso, 1));
    assert_eq!(calls(Some(Method::MappedGso)), (Method::MappedGso, 1));
    assert_eq!(calls(Some(Method::Sendmmsg)), (Method::Sendmmsg, 1));
    assert_eq!(calls(Some(Method::Sendto)), (Method::Sendto, 44));
}

#[test]
fn pages_that_are_written_again_are_copied() {
    let prebuilt = Prebuilt::equal(10);
    let packets = Packets::passing(prebuilt.memory(), &prebuilt.places).unwrap();
    let (socket, address) = receiver("127.0.0.1");
    // Even where it is asked for: what is on its way must not change.
    let mut destination = Destination::open(address, &forced(Method::SendfileGso)).unwrap();
    send_all(&mut destination, &packets);
    assert_eq!(destination.statistics().method, Method::MappedGso);
    expect(&socket, (0..10).map(|index| prebuilt.packet(index)));
}

#[test]
fn packet_larger_than_any_path_is_counted_and_the_others_go() {
    for host in hosts() {
        for method in [None, Some(Method::MappedGso), Some(Method::Sendto)] {
            let prebuilt = Prebuilt::new(&[1400, 1400, 65_530, 1400], 0);
            let (socket, address) = receiver(host);
            let mut options = DestinationOptions::default();
            options.method = method;
            let mut destination = Destination::open(address, &options).unwrap();
            let events = send_all(&mut destination, &prebuilt.packets());
            let statistics = destination.statistics();
            assert_eq!(
                (statistics.packets, statistics.too_large),
                (3, 1),
                "{statistics:?}"
            );
            assert_eq!(statistics.lost, 1);
            assert!(
                matches!(events[..], [event] if matches!(event.change, Change::TooLarge { bytes: 65_530, .. })),
                "{events:?}"
            );
            expect(&socket, [0, 1, 3].map(|index| prebuilt.packet(index)));
        }
    }
}

#[test]
fn unsendable_file_makes_method_fall_back_once() {
    let prebuilt = Prebuilt::equal(30);
    let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
    let mut memory = prebuilt.memory();
    memory.file = Some(std::os::fd::AsFd::as_fd(&pipe));
    let packets = Packets::lasting(memory, &prebuilt.places).unwrap();
    let (socket, address) = receiver("127.0.0.1");
    let mut destination = Destination::open(address, &DestinationOptions::default()).unwrap();
    let events = send_all(&mut destination, &packets);
    assert_eq!(events.len(), 1);
    assert!(
        events[0]
            .to_string()
            .contains("sending with gso (sendfile-gso was refused"),
        "{}",
        events[0]
    );
    assert_eq!(send_all(&mut destination, &packets), []);
    // The refused one, and one for each group.
    assert_eq!(destination.statistics().calls, 3);
    let expected = (0..60).map(|index| prebuilt.packet(index % 30));
    expect(&socket, expected);
}

#[test]
fn refused_segmentation_is_probed_again_much_later() {
    let prebuilt = Prebuilt::equal(30);
    let (socket, address) = receiver("127.0.0.1");
    let mut destination = Destination::open(address, &DestinationOptions::default()).unwrap();
    set_socket_option(destination.rtp_socket(), SocketOption::NoChecksum, 1).unwrap();
    let now = Instant::now();
    let mut events = Vec::new();
    for group in 0..5 {
        destination.send(&prebuilt.packets(), now, &mut events);
        // Both ways that segment were tried once; then each group is one call.
        assert_eq!(destination.statistics().calls, 3 + group);
    }
    assert_eq!(events.len(), 1, "{events:?}");
    let expected = "sending with sendmmsg (sendfile-gso was refused: Invalid argument";
    assert!(events[0].to_string().contains(expected), "{}", events[0]);
    // Another device, perhaps, and it segments.
    set_socket_option(destination.rtp_socket(), SocketOption::NoChecksum, 0).unwrap();
    destination.send(&prebuilt.packets(), now + PROBE_AGAIN, &mut events);
    assert_eq!(destination.statistics().method, Method::SendfileGso);
    assert_eq!(destination.statistics().calls, 8);
    assert_eq!(events.len(), 2, "{events:?}");
    expect(
        &socket,
        (0..6 * 30).map(|index| prebuilt.packet(index % 30)),
    );
}

#[test]
fn forced_method_that_is_refused_is_told_and_nothing_goes() {
    let prebuilt = Prebuilt::equal(30);
    let (socket, address) = receiver("127.0.0.1");
    let mut destination = Destination::open(address, &forced(Method::MappedGso)).unwrap();
    set_socket_option(destination.rtp_socket(), SocketOption::NoChecksum, 1).unwrap();
    let events = send_all(&mut destination, &prebuilt.packets());
    assert_eq!(events.len(), 1, "{events:?}");
    let statistics = destination.statistics();
    assert_eq!((statistics.packets, statistics.lost), (0, 30));
    assert_eq!(statistics.method_reason, MethodReason::Forced);
    expect_nothing(&socket);
}

#[test]
fn dead_receiver_is_reported_once_and_delays_no_packet() {
    for host in hosts() {
        let (socket, address) = receiver(host);
        drop(socket);
        let prebuilt = Prebuilt::equal(100);
        let mut destination = Destination::open(address, &DestinationOptions::default()).unwrap();
        let mut events = Vec::new();
        for _ in 0..20 {
            destination.send(&prebuilt.packets(), Instant::now(), &mut events);
        }
        let statistics = destination.statistics();
        assert_eq!(statistics.packets + statistics.lost, 2000);
        assert!(statistics.refused >= 19, "{statistics:?}");
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].change, Change::State(State::Refused));
        // It comes back: the next packets arrive, although the first call is the answer to the last
        // ones.
        let socket = std::net::UdpSocket::bind(address).unwrap();
        let few = Prebuilt::equal(3);
        send_all(&mut destination, &few.packets());
        socket
            .set_read_timeout(Some(super::support::BOUND))
            .unwrap();
        expect(&socket, (0..3).map(|index| few.packet(index)));
        let later = Instant::now() + hythe_media::wire::health::QUIET;
        events.clear();
        destination.send(&few.packets(), later, &mut events);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].change, Change::State(State::Reachable));
        assert_eq!(events[0].to_string(), format!("{address}: reachable again"));
    }
}

#[test]
fn empty_group_is_nothing() {
    let prebuilt = Prebuilt::new(&[], 0);
    let (socket, address) = receiver("127.0.0.1");
    let mut destination = Destination::open(address, &DestinationOptions::default()).unwrap();
    assert_eq!(send_all(&mut destination, &prebuilt.packets()), []);
    assert_eq!(destination.statistics().calls, 0);
    expect_nothing(&socket);
}

#[test]
fn reports_go_to_the_port_behind() {
    let port = hythe_testing::reserve_ports(2);
    let ports = [port, port + 1];
    let [rtp, rtcp] = ports.map(|port| std::net::UdpSocket::bind(("127.0.0.1", port)).unwrap());
    let address = rtp.local_addr().unwrap();
    rtcp.set_read_timeout(Some(super::support::BOUND)).unwrap();
    let mut destination = Destination::open(address, &DestinationOptions::default()).unwrap();
    assert!(destination.send_report(b"a report"));
    let mut buffer = [0; 100];
    let (bytes, from) = rtcp.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..bytes], b"a report");
    rtcp.send_to(b"an answer", from).unwrap();
    let answers = destination.rtcp_socket();
    answers.set_nonblocking(false).unwrap();
    answers
        .set_read_timeout(Some(super::support::BOUND))
        .unwrap();
    let bytes = answers.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..bytes], b"an answer");
    assert_eq!(destination.statistics().reports, 1);
    expect_nothing(&rtp);
}

#[test]
fn names_are_read_as_they_are_written() {
    for method in Method::BEST_FIRST {
        assert_eq!(method.to_string().parse(), Ok(method));
    }
    for wrong in ["", "GSO", "zerocopy", "sendfile"] {
        let error = wrong.parse::<Method>().unwrap_err().to_string();
        assert!(
            error.contains("sendfile-gso, gso, sendmmsg or sendto"),
            "{error}"
        );
    }
}
