//! Receivers that ask: for nonsense, without end, from elsewhere, and one of a thousand.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hythe_media::send::repair::{Repair, Resend};
use hythe_media::send::session::{SendOptions, Step};
use hythe_media::wire::destinations::DestinationId;
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_media::wire::health::Change;
use hythe_node::{TrustPeers, monotonic_ns};
use hythe_rtp::Identity;
use hythe_rtp::loss::nack::Limits;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

use crate::scene::{Counting, Scene, Session};

/// Ends tests that have failed.
const BOUND: Duration = Duration::from_secs(120);
const SEED: u64 = 5;
const LIMITS: Limits = Limits {
    share_per_mille: 100,
    burst_bytes: 5000,
    resends_max: 200,
    round_trip_ns: 0,
};

/// A receiver by hand.
struct Asker {
    rtp: UdpSocket,
    rtcp: UdpSocket,
}

impl Asker {
    fn new() -> Self {
        let pair = (0..1000).find_map(|_| {
            let rtp = UdpSocket::bind("127.0.0.1:0").ok()?;
            let port = rtp.local_addr().ok()?.port();
            let rtcp = UdpSocket::bind(("127.0.0.1", port.checked_add(1)?)).ok()?;
            port.is_multiple_of(2).then_some((rtp, rtcp))
        });
        let (rtp, rtcp) = pair.unwrap();
        rtp.set_nonblocking(true).unwrap();
        if set_socket_recv_buffer_size_force(&rtp, 4 << 20).is_err() {
            set_socket_recv_buffer_size(&rtp, 4 << 20).unwrap();
        }
        Self { rtp, rtcp }
    }

    fn address(&self) -> SocketAddr {
        self.rtp.local_addr().unwrap()
    }

    /// Numbers of the packets of a payload type that came.
    fn numbers(&self, payload_type: u8) -> Vec<u16> {
        let mut numbers = Vec::new();
        let mut packet = [0; 2048];
        while let Ok(bytes) = self.rtp.recv(&mut packet) {
            assert!(bytes >= 12);
            if packet[1] & 0x7f == payload_type {
                numbers.push(u16::from_be_bytes([packet[2], packet[3]]));
            }
        }
        numbers
    }
}

/// A request for a number and the 16 behind it.
fn request(number: u16) -> Vec<u8> {
    let mut rtcp = vec![0x80, 201, 0, 1, 9, 9, 9, 9, 0x81, 205, 0, 3, 9, 9, 9, 9];
    rtcp.extend(Identity::seeded(SEED).ssrc.to_be_bytes());
    rtcp.extend(number.to_be_bytes());
    rtcp.extend([0xff, 0xff]);
    rtcp
}

fn session(scene: &Scene, units: u32) -> Session {
    let resend = Resend {
        limits: LIMITS,
        ..Resend::default()
    };
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let options = SendOptions {
        repair: Repair {
            resend: Some(resend),
            parity: None,
        },
        ..SendOptions::new(Identity::seeded(SEED), trust)
    };
    scene.session(Counting::units(units, 1, 1000), options)
}

fn add(session: &mut Session, to: SocketAddr) -> DestinationId {
    let options = DestinationOptions::default();
    session.destinations().add(to, &options).unwrap()
}

/// Where a destination takes RTCP.
fn rtcp_of(session: &mut Session, id: DestinationId) -> SocketAddr {
    let destination = session.destinations().by_id(id).unwrap();
    destination.rtcp_socket().local_addr().unwrap()
}

/// Sends to the end and a little longer, and lets somebody act after each step. What changed about
/// destinations.
fn run(session: &mut Session, mut act: impl FnMut(&Session)) -> Vec<Change> {
    let begun = Instant::now();
    let mut changes = Vec::new();
    loop {
        assert!(begun.elapsed() < BOUND, "{:?}", session.statistics());
        match session
            .step(&mut |event| changes.push(event.change))
            .unwrap()
        {
            Step::Ended => break,
            Step::Wait(until_ns) => assert!(!session.wait(until_ns, None).unwrap()),
            Step::Again => {}
        }
        act(session);
    }
    let until_ns = monotonic_ns() + 100_000_000;
    session
        .linger(until_ns, None, &mut |event| changes.push(event.change))
        .unwrap();
    changes
}

#[test]
fn flood_of_requests_gets_its_share_and_the_stream_goes_on() {
    let Some(scene) = Scene::new("flood") else {
        return;
    };
    let mut session = session(&scene, 500);
    let (greedy, modest) = (Asker::new(), Asker::new());
    let id = add(&mut session, greedy.address());
    let other = add(&mut session, modest.address());
    let to = rtcp_of(&mut session, id);
    let begun = Instant::now();
    let mut round = 0_u16;
    run(&mut session, |session| {
        // The last that left, nonsense, and something in between.
        let last = Identity::seeded(SEED)
            .sequence
            .wrapping_add(session.statistics().packets as u16);
        greedy
            .rtcp
            .send_to(&request(last.wrapping_sub(17)), to)
            .unwrap();
        greedy
            .rtcp
            .send_to(&request(round.wrapping_mul(997)), to)
            .unwrap();
        let nonsense = [round as u8; 100];
        greedy
            .rtcp
            .send_to(&nonsense[..usize::from(round % 100)], to)
            .unwrap();
        round = round.wrapping_add(1);
    });
    let elapsed = begun.elapsed().as_secs_f64();
    let counts = session.resends(id).unwrap();
    // A tenth of half a megabyte per second; twice that, because the machine may stand still and
    // packets come together.
    let share = 5000.0 + 2.0 * 50_600.0 * elapsed;
    assert!(
        counts.packets > 5 && (counts.bytes as f64) < share,
        "{counts:?}"
    );
    assert!(counts.refused.over_budget > 0, "{counts:?}");
    let refused = counts.refused.never_sent + counts.refused.gone;
    assert!(refused > 0, "{counts:?}");
    let statistics = session.statistics();
    assert_eq!((statistics.packets, statistics.delivered), (500, 1000));
    assert_eq!(statistics.resent, counts.packets);
    assert!(statistics.malformed_feedback > 0 && statistics.requests_refused > 0);
    assert_eq!(greedy.numbers(98).len() as u64, counts.packets);
    // Who asks for nothing gets nothing, and everything in order.
    assert!(session.resends(other).is_none());
    let first = Identity::seeded(SEED).sequence;
    let expected: Vec<_> = (0..500).map(|index| first.wrapping_add(index)).collect();
    assert_eq!(modest.numbers(33), expected);
    assert!(modest.numbers(98).is_empty());
}

#[test]
fn who_asks_from_elsewhere_is_not_heard() {
    let Some(scene) = Scene::new("elsewhere") else {
        return;
    };
    let mut session = session(&scene, 100);
    let asker = Asker::new();
    let id = add(&mut session, asker.address());
    let to = rtcp_of(&mut session, id);
    let strangers = ["127.0.0.2:0", "127.0.0.1:0"].map(|host| UdpSocket::bind(host).unwrap());
    run(&mut session, |session| {
        let last = Identity::seeded(SEED)
            .sequence
            .wrapping_add(session.statistics().packets as u16);
        for stranger in &strangers {
            stranger
                .send_to(&request(last.wrapping_sub(17)), to)
                .unwrap();
        }
    });
    assert_eq!(
        (session.statistics().resent, asker.numbers(98).len()),
        (0, 0)
    );
    assert!(session.resends(id).is_none());
}

#[test]
fn members_of_a_group_ask_from_wherever_they_are() {
    let Some(scene) = Scene::new("group") else {
        return;
    };
    let mut session = session(&scene, 100);
    let mut options = DestinationOptions::default();
    options.multicast_interface = Some("lo".into());
    let group = "239.255.77.6:5004".parse().unwrap();
    let id = match session.destinations().add(group, &options) {
        Ok(id) => id,
        Err(error) => return println!("skipped: no group on the loopback interface: {error}"),
    };
    let port = rtcp_of(&mut session, id).port();
    let member = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut farewell = vec![0x80, 201, 0, 1, 9, 9, 9, 9];
    farewell.extend([0x81, 203, 0, 1, 9, 9, 9, 9]);
    let changes = run(&mut session, |session| {
        let last = Identity::seeded(SEED)
            .sequence
            .wrapping_add(session.statistics().packets as u16);
        for rtcp in [&request(last.wrapping_sub(17)), &farewell] {
            member.send_to(rtcp, ("127.0.0.1", port)).unwrap();
        }
    });
    let counts = session.resends(id).unwrap();
    assert!(counts.packets > 0 && counts.packets == session.statistics().resent);
    assert!(!changes.contains(&Change::Left), "others are still there");
}

#[test]
fn one_of_a_thousand_asks() {
    let Some(scene) = Scene::new("thousand") else {
        return;
    };
    let mut session = session(&scene, 30);
    let asker = Asker::new();
    // All the others are one socket with many addresses.
    let others = Asker {
        rtp: UdpSocket::bind("0.0.0.0:0").unwrap(),
        rtcp: UdpSocket::bind("0.0.0.0:0").unwrap(),
    };
    let rtcp_port = others.rtcp.local_addr().unwrap().port();
    let options = |index: u16| {
        let mut options = DestinationOptions::default();
        options.rtcp = Some(SocketAddr::new(host(index), rtcp_port));
        options
    };
    let port = others.address().port();
    for index in 0..999 {
        let to = SocketAddr::new(host(index), port);
        session.destinations().add(to, &options(index)).unwrap();
    }
    let id = add(&mut session, asker.address());
    let to = rtcp_of(&mut session, id);
    let first = Identity::seeded(SEED).sequence;
    let mut has_asked = false;
    run(&mut session, |session| {
        if session.statistics().packets >= 20 && !has_asked {
            has_asked = true;
            let mut rtcp = request(first.wrapping_add(7));
            rtcp.truncate(rtcp.len() - 2);
            rtcp.extend([0, 1]);
            asker.rtcp.send_to(&rtcp, to).unwrap();
        }
    });
    assert!(has_asked);
    let counts = session.resends(id).unwrap();
    assert_eq!(
        (counts.packets, counts.refused.total()),
        (2, 0),
        "{counts:?}"
    );
    assert_eq!(asker.numbers(98).len(), 2);
    assert_eq!(session.statistics().resent, 2);
}

fn host(index: u16) -> std::net::IpAddr {
    let [high, low] = index.to_be_bytes();
    [127, 0, 1 + high, low].into()
}

#[test]
fn end_is_shown_to_who_may_ask_but_played_once() {
    let Some(scene) = Scene::new("end") else {
        return;
    };
    for (payload_type, repeats) in [(Some(98), true), (None, false)] {
        let resend = Resend {
            payload_type,
            wait: Some(Duration::from_millis(100)),
            ..Resend::default()
        };
        let trust = TrustPeers::i_trust_every_writer_of_this_pool();
        let options = SendOptions {
            repair: Repair {
                resend: Some(resend),
                parity: None,
            },
            ..SendOptions::new(Identity::seeded(SEED), trust)
        };
        let mut session = scene.session(Counting::units(5, 1, 1000), options);
        let asker = Asker::new();
        add(&mut session, asker.address());
        run(&mut session, |_| {});
        let played = asker.numbers(33).len();
        session
            .finish(Duration::from_millis(1), None, &mut |event| {
                panic!("{event}")
            })
            .unwrap();
        // After 10, 30 and 70 ms, unless the machine stood still.
        let mut packet = [0; 2048];
        let mut again = Vec::new();
        while let Ok(bytes) = asker.rtp.recv(&mut packet) {
            assert_eq!((packet[1] & 0x7f, bytes), (98, 12 + 2 + 1000));
            again.push(u16::from_be_bytes([packet[12], packet[13]]));
        }
        let last = Identity::seeded(SEED).sequence.wrapping_add(4);
        assert_eq!(played, 5);
        assert_eq!(!again.is_empty(), repeats, "{again:?}");
        assert!(again.iter().all(|number| *number == last), "{again:?}");
        // Three goodbyes, each behind a report.
        asker.rtcp.set_nonblocking(true).unwrap();
        let mut goodbyes = 0;
        while let Ok(bytes) = asker.rtcp.recv(&mut packet) {
            goodbyes += packet[..bytes]
                .windows(2)
                .filter(|pair| *pair == [0x81, 203])
                .count();
        }
        assert_eq!(goodbyes, 3);
    }
}

#[test]
fn reports_are_read_and_a_goodbye_is_told_once() {
    let Some(scene) = Scene::new("goodbye") else {
        return;
    };
    let mut session = session(&scene, 50);
    let asker = Asker::new();
    let id = add(&mut session, asker.address());
    let to = rtcp_of(&mut session, id);
    let mut report = vec![0x81, 201, 0, 7, 9, 9, 9, 9];
    report.extend(Identity::seeded(SEED).ssrc.to_be_bytes());
    report.extend([64, 0, 0, 5]); // a quarter, five in all
    report.extend([0, 0, 1, 0, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0]);
    report.extend([0x81, 203, 0, 1, 9, 9, 9, 9]);
    let changes = run(&mut session, |_| {
        asker.rtcp.send_to(&report, to).unwrap();
    });
    let left = changes.iter().filter(|change| **change == Change::Left);
    assert_eq!(left.count(), 1, "{changes:?}");
    let received = session.received(id).unwrap();
    assert!(received.reports > 1);
    assert_eq!(
        (received.last.fraction_lost, received.last.cumulative_lost),
        (64, 5)
    );
    assert_eq!((received.last.jitter, received.round_trip_ns), (33, None));
    assert_eq!(session.statistics().malformed_feedback, 0);
}
