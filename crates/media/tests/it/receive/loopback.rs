//! Sessions over loopback: joined datagrams, groups, ends.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use hythe_media::receive::session::{End, Session, Until, now_ns};
use hythe_media::receive::socket::{Binding, Sockets};
use hythe_media::receive::statistics::Statistics;
use hythe_media::receive::stream::Settings;
use hythe_rtp::Identity;
use hythe_rtp::rtcp::{Counts, Reports};
use hythe_sys::socket_option::{SocketOption, set_socket_option};
use hythe_testing::let_time_pass;
use rustix::net::sockopt;

use crate::passing::{Kept, Passing, packet, stream};

/// Ends a test that failed.
const LIMIT: Duration = Duration::from_secs(120);

type Receiver = Session<Passing, Kept>;

fn session(binding: &Binding) -> Receiver {
    let sockets = Sockets::open(binding).unwrap();
    let settings = Settings::default();
    let until = Until {
        goodbye: true,
        idle: Some(LIMIT),
    };
    Session::new(sockets, stream(settings, now_ns()), until)
}

fn on(host: &str) -> Binding {
    Binding::new(SocketAddr::new(host.parse().unwrap(), 0))
}

fn rtcp_of(mut address: SocketAddr) -> SocketAddr {
    address.set_port(address.port() + 1);
    address
}

fn say_goodbye(sender: &UdpSocket, identity: &Identity, to: SocketAddr) {
    let counts = Counts {
        unix_ns: 1_000_000_000,
        timestamp: 0,
        packets: 1,
        bytes: 1,
    };
    let mut reports = Reports::new(identity).unwrap();
    sender
        .send_to(reports.goodbye(counts).unwrap(), rtcp_of(to))
        .unwrap();
}

/// Runs a session to its end while `send` sends.
fn run(mut receiver: Receiver, send: impl FnOnce() + Send) -> (End, Statistics, Kept) {
    std::thread::scope(|scope| {
        scope.spawn(send);
        let (end, statistics) = receiver.run(None).unwrap();
        let kept = std::mem::take(receiver.stream_mut().sink_mut());
        (end, statistics, kept)
    })
}

#[test]
fn every_byte_of_joined_datagrams_arrives_and_is_cut_rightly() {
    for joins in [true, false] {
        let binding = Binding {
            joins,
            ..on("127.0.0.1")
        };
        let receiver = session(&binding);
        if receiver.sockets().joins() != joins {
            println!("skipped: no UDP_GRO here");
            continue;
        }
        let to = receiver.sockets().address();
        let identity = Identity::seeded(1);
        let mut sent = Vec::new();
        let mut batches = Vec::new();
        let mut sequence = 65_500_u16;
        for round in 0..100_u32 {
            let mut batch = Vec::new();
            // Up to 40 packets, the last one shorter, in batches of up to 56 KB.
            let count = 1 + round % 40;
            for index in 0..count {
                let bytes = if index + 1 == count {
                    1 + round as usize * 13
                } else {
                    1388
                };
                let payload: Vec<u8> = (0..bytes)
                    .map(|at| (at as u32 ^ round) as u8 & 0x7f)
                    .collect();
                batch.extend(packet(identity.ssrc, sequence, &payload));
                sent.extend(payload);
                sequence = sequence.wrapping_add(1);
            }
            batches.push(batch);
        }
        let (end, statistics, kept) = run(receiver, || {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            set_socket_option(&sender, SocketOption::UdpSegment, 1400).unwrap();
            for batch in &batches {
                sender.send_to(batch, to).unwrap();
                let_time_pass(Duration::from_millis(1), "a sender's pace");
            }
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            say_goodbye(&sender, &identity, to);
        });
        assert_eq!((end, kept.is_finished), (End::Goodbye, true));
        assert!(kept.bytes == sent, "{statistics:?}");
        assert_eq!(
            statistics.packets,
            (0..100).map(|round| 1 + round % 40).sum::<u64>()
        );
        assert_eq!(
            (
                statistics.lost,
                statistics.kernel_drops,
                statistics.malformed
            ),
            (0, 0, 0)
        );
    }
}

/// A socket of `host` whose packets to groups go over the loopback interface.
fn group_sender(host: &str, group: IpAddr) -> std::io::Result<UdpSocket> {
    let sender = UdpSocket::bind((host, 0))?;
    match group {
        IpAddr::V4(_) => sockopt::set_ip_multicast_if(&sender, &[127, 0, 0, 1].into())?,
        IpAddr::V6(_) => sockopt::set_ipv6_multicast_if(&sender, 1)?,
    }
    Ok(sender)
}

/// Sends three packets to a group from each of `senders`, then a goodbye from each: one of the
/// first would make space for the second.
fn send_to_group(group: SocketAddr, senders: &[(&str, u32)]) {
    let senders = senders.iter().map(|(host, ssrc)| {
        let sender = group_sender(host, group.ip()).unwrap();
        for sequence in [1, 2, 3] {
            let payload = [sequence as u8, *ssrc as u8];
            sender
                .send_to(&packet(*ssrc, sequence, &payload), group)
                .unwrap();
        }
        (sender, *ssrc)
    });
    for (sender, ssrc) in senders.collect::<Vec<_>>() {
        let identity = Identity {
            ssrc,
            ..Identity::seeded(1)
        };
        say_goodbye(&sender, &identity, group);
    }
}

#[test]
fn receivers_join_groups_and_select_source() {
    for (group, host, others) in [
        ("239.255.77.5", "127.0.0.1", "127.0.0.9"),
        ("ff11::77:5", "::1", "::1"),
    ] {
        let binding = Binding {
            interface: Some("lo".into()),
            ..on(group)
        };
        // Loopback interfaces have no way to groups of IPv6 unless somebody gave them one.
        let group = binding.address.ip();
        let tried = group_sender(host, group).and_then(|sender| sender.send_to(&[], (group, 9)));
        if let Err(error) = tried {
            println!("skipped: {group} cannot be sent to from {host}: {error}");
            session(&binding);
            continue;
        }
        let first = session(&binding);
        let address = first.sockets().address();
        let second = session(&Binding {
            address,
            source: Some(host.parse().unwrap()),
            ..binding.clone()
        });
        // Somebody else is in front; only the second receiver does not hear of it.
        let senders: &[_] = if host == others {
            &[(host, 7)]
        } else {
            &[(others, 8), (host, 7)]
        };
        let (end, statistics, kept) = run(first, || send_to_group(address, senders));
        assert_eq!((end, kept.bytes.len()), (End::Goodbye, 6), "{statistics:?}");
        let (end, statistics, kept) = run(second, || ());
        assert_eq!(
            (end, &kept.bytes[..]),
            (End::Goodbye, &[1, 7, 2, 7, 3, 7][..])
        );
        assert_eq!((statistics.packets, statistics.foreign), (3, 0));
    }
}

#[test]
fn session_ends_when_idle_and_when_told_and_keeps_what_it_has() {
    let (stop, stopper) = rustix::pipe::pipe().unwrap();
    for is_told in [true, false] {
        let sockets = Sockets::open(&on("127.0.0.1")).unwrap();
        let to = sockets.address();
        let idle = if is_told {
            LIMIT
        } else {
            Duration::from_millis(100)
        };
        let until = Until {
            goodbye: false,
            idle: Some(idle),
        };
        let settings = Settings {
            delay_ns: u64::MAX,
            ..Settings::default()
        };
        let mut receiver = Session::new(sockets, stream(settings, now_ns()), until);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let identity = Identity::seeded(2);
        for sequence in [1, 2, 4] {
            sender
                .send_to(&packet(identity.ssrc, sequence, &[sequence as u8]), to)
                .unwrap();
        }
        say_goodbye(&sender, &identity, to);
        if is_told {
            while receiver.statistics().unwrap().packets < 3 {
                assert_eq!(receiver.turn(None, LIMIT).unwrap(), None);
            }
            rustix::io::write(&stopper, &[1]).unwrap();
        }
        let (end, statistics) = receiver.run(is_told.then(|| stop.as_fd())).unwrap();
        assert_eq!(end, if is_told { End::Stopped } else { End::Idle });
        assert_eq!(receiver.stream().sink().bytes, [1, 2, 4]);
        assert_eq!(statistics.lost, 1);
    }
}

#[test]
fn receiver_counts_drops_of_kernel() {
    let binding = Binding {
        receive_buffer_bytes: 4096,
        joins: false,
        ..on("127.0.0.1")
    };
    let receiver = session(&binding);
    let to = receiver.sockets().address();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let identity = Identity::seeded(3);
    for sequence in 0..100 {
        sender
            .send_to(&packet(identity.ssrc, sequence, &[0; 1000]), to)
            .unwrap();
    }
    say_goodbye(&sender, &identity, to);
    let (_, statistics, _) = run(receiver, || ());
    assert!(statistics.kernel_drops > 0);
    assert_eq!(statistics.packets + u64::from(statistics.kernel_drops), 100);
}
