//! Clients that mean harm: garbage, endless messages, floods of connections and sessions, slow
//! ones. Memory stays bounded.

use hythe_rtp::rtsp::{Action, ConnectionId, Full, Limits};

use hythe_testing::Dice;

use super::catalogue::SECOND_NS;
use super::fixture::{HERE, ServiceFixture};

#[test]
fn nothing_that_is_no_request_passes_or_costs_memory() {
    for (what, bytes) in [
        ("a line without an end", vec![b'a'; 100_000]),
        (
            "a header without an end",
            [&b"OPTIONS * RTSP/1.0\r\nX: "[..], &vec![b'y'; 100_000]].concat(),
        ),
        (
            "headers without an end",
            [&b"OPTIONS * RTSP/1.0\r\n"[..], &b"A: b\r\n".repeat(20_000)].concat(),
        ),
        (
            "too many headers",
            [
                &b"OPTIONS * RTSP/1.0\r\n"[..],
                &b"A: b\r\n".repeat(65),
                b"\r\n",
            ]
            .concat(),
        ),
        (
            "a body without an end",
            [
                &b"OPTIONS * RTSP/1.0\r\nContent-Length: 99999\r\n\r\n"[..],
                &[0; 100_000],
            ]
            .concat(),
        ),
        ("zeroes", vec![0; 100_000]),
        (
            "TLS",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        ),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec()),
        ("interleaved data", b"$\x00\x00\x04abcd".to_vec()),
    ] {
        let mut fixture = ServiceFixture::new(Limits::default());
        let answers = fixture.send(&bytes);
        assert_eq!(answers.len(), 1, "{what}");
        assert!(
            matches!(answers[0].status, 400 | 413),
            "{what}: {}",
            answers[0].text
        );
        assert_eq!(fixture.counters().malformed_messages, 1, "{what}");
        assert_eq!(
            fixture.service.free_capacity(fixture.connection),
            0,
            "{what}"
        );
        // It is said once, and what comes later is not looked at.
        assert!(
            fixture
                .send(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n")
                .is_empty()
        );
    }
}

#[test]
fn line_breaks_without_end_are_nothing() {
    let mut fixture = ServiceFixture::new(Limits::default());
    assert!(fixture.send(&b"\r\n".repeat(100_000)).is_empty());
    assert_eq!(
        fixture.service.free_capacity(fixture.connection),
        Limits::default().message_bytes
    );
    assert_eq!(fixture.ask("OPTIONS", "*", &[]).status, 200);
}

/// Requests made of parts that fit and parts that do not, split anywhere, with bytes changed at
/// random. Whatever comes: no panic, the limits hold, and the owner is told nothing that does not
/// follow from what it was told before.
#[test]
fn random_clients_keep_the_rules() {
    for seed in 1..=60 {
        let mut dice = Dice::new(seed);
        let limits = Limits {
            sessions_per_address: 5,
            sessions: 8,
            ..Limits::default()
        };
        let mut fixture = ServiceFixture::new(limits);
        let mut ledger = Ledger::default();
        let mut sessions = vec!["0123456789abcdef".to_owned()];
        for step in 0..200 {
            let text = message(&mut dice, &sessions);
            let mut bytes = text.into_bytes();
            if dice.below(10) == 0 {
                let at = dice.below(bytes.len());
                bytes[at] = dice.below(256) as u8;
            }
            let at = dice.below(bytes.len());
            let (front, back) = bytes.split_at(at);
            let mut answers = fixture.send(front);
            answers.extend(fixture.send(back));
            for answer in answers {
                ledger.take(&answer.actions);
                if answer.header("Session").is_some() {
                    sessions.push(answer.session().to_string());
                }
            }
            let expired = fixture.tick_at(fixture.now_ns + dice.below(5) as u64 * SECOND_NS);
            ledger.take(&expired.actions);
            if fixture.service.free_capacity(fixture.connection) == 0 {
                fixture.service.close(fixture.connection);
                fixture.connection = fixture.connect(["192.0.2.1:1", "192.0.2.2:1"][step % 2]);
            }
        }
        ledger.take(&fixture.service.shut_down());
        assert_eq!(ledger.0, [], "seed {seed}");
        assert!(
            fixture.counters().requests > 50,
            "seed {seed}: {:?}",
            fixture.counters()
        );
    }
}

fn message(dice: &mut Dice, sessions: &[String]) -> String {
    let method = *dice.pick(&[
        "OPTIONS",
        "DESCRIBE",
        "SETUP",
        "SETUP",
        "PLAY",
        "PLAY",
        "PAUSE",
        "TEARDOWN",
        "GET_PARAMETER",
        "X",
    ]);
    let url = *dice.pick(&[
        "rtsp://h/voice",
        "rtsp://h/film/",
        "rtsp://h/film/stream=0",
        "rtsp://h/film/stream=1",
        "rtsp://h/live/stream=0",
        "*",
        "x",
    ]);
    let mut text = format!(
        "{method} {url} {}\r\n",
        dice.pick(&[
            "RTSP/1.0", "RTSP/1.0", "RTSP/1.0", "RTSP/1.0", "RTSP/1.0", "RTSP/1.0", "RTSP/1.0",
            "RTSP/2.0"
        ])
    );
    if dice.below(20) > 0 {
        text.push_str("CSeq: 3\r\n");
    }
    if dice.below(3) > 0 {
        let session = &sessions[dice.below(sessions.len())];
        text.push_str(&format!("Session: {session}\r\n"));
    }
    for _ in 0..dice.below(3) {
        text.push_str(dice.pick::<&str>(&[
            "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n",
            "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n",
            "Transport: RTP/AVP;multicast\r\n",
            "Transport: \",;=-\r\n",
            "Range: npt=1-\r\n",
            "Range: npt=99-1.\r\n",
            "Accept: text/plain\r\n",
            "Content-Length: 4\r\n",
        ]));
    }
    text.push_str("\r\n");
    text
}

/// What the owner of the media believes: stream and whether it plays.
#[derive(Default)]
struct Ledger(Vec<(u64, usize, bool)>);

impl Ledger {
    fn take(&mut self, actions: &[Action]) {
        for action in actions {
            let (session, stream) = match action {
                Action::Start(start) => {
                    assert!(start.destination.port() >= 1024 && start.destination.port() % 2 == 0);
                    (start.session.0, start.stream)
                }
                Action::Pause { session, stream } | Action::Stop { session, stream } => {
                    (session.0, *stream)
                }
            };
            let known = self
                .0
                .iter()
                .position(|(a, b, _)| (*a, *b) == (session, stream));
            match (action, known) {
                (Action::Start(_), None) => self.0.push((session, stream, true)),
                (Action::Start(_), Some(at)) => self.0[at].2 = true,
                (Action::Pause { .. }, Some(at)) => {
                    assert!(self.0[at].2, "{action:?} of what does not play");
                    self.0[at].2 = false;
                }
                (_, Some(at)) => drop(self.0.remove(at)),
                (_, None) => panic!("{action:?} of what was not started"),
            }
        }
    }
}

#[test]
fn connections_are_limited_for_all_and_for_each() {
    let limits = Limits {
        connections: 4,
        connections_per_address: 2,
        ..Limits::default()
    };
    let mut fixture = ServiceFixture::new(limits); // has one of 192.0.2.1
    let mut open = |peer: &str| {
        fixture
            .service
            .open(peer.parse().unwrap(), HERE.parse().unwrap(), 0)
    };
    let second = open("192.0.2.1:2").unwrap();
    assert_eq!(open("192.0.2.1:3"), Err(Full::Address(2)));
    assert_eq!(open("[::ffff:192.0.2.1]:3"), Err(Full::Address(2)));
    assert!(open("[2001:db8::1]:1").is_ok());
    assert!(open("[2001:db8::ffff]:1").is_ok());
    assert_eq!(open("192.0.2.9:1"), Err(Full::Connections(4)));
    fixture.service.close(second);
    // Of the same /64.
    let mut open = |peer: &str| {
        fixture
            .service
            .open(peer.parse().unwrap(), HERE.parse().unwrap(), 0)
    };
    let refused = open("[2001:db8::2]:9").unwrap_err();
    assert_eq!(refused, Full::Address(2));
    let expected = "RTSP/1.0 503 Service Unavailable: this address has 2 connections already\r\n";
    assert!(refused.reply().starts_with(expected.as_bytes()));
    assert!(open("[2001:db8:0:1::2]:9").is_ok());
    let counters = fixture.counters();
    assert_eq!(
        (
            counters.refused_connections,
            counters.refused_connections_of_address
        ),
        (1, 3)
    );
    assert_eq!(counters.connections, 5);
}

#[test]
fn sessions_are_limited_for_all_and_for_each() {
    let limits = Limits {
        sessions: 3,
        sessions_per_address: 2,
        ..Limits::default()
    };
    let mut fixture = ServiceFixture::new(limits);
    let first = fixture.set_up("voice", 0, 5000, None);
    fixture.set_up("voice", 0, 5002, None);
    let transport = "Transport: RTP/AVP;unicast;client_port=5004-5005";
    let ask = |fixture: &mut ServiceFixture| {
        let answer = fixture.ask("SETUP", "rtsp://h/voice", &[transport]);
        answer.text.lines().next().unwrap().to_owned()
    };
    assert_eq!(
        ask(&mut fixture),
        "RTSP/1.0 503 Service Unavailable: this address has 2 sessions already"
    );
    fixture.connection = fixture.connect("192.0.2.2:1");
    fixture.set_up("voice", 0, 5000, None);
    assert_eq!(
        ask(&mut fixture),
        "RTSP/1.0 503 Service Unavailable: there are 3 sessions already"
    );
    let counters = fixture.counters();
    assert_eq!(
        (
            counters.refused_sessions,
            counters.refused_sessions_of_address
        ),
        (1, 1)
    );
    // An end makes space.
    fixture.connection = fixture.connect("192.0.2.1:2");
    assert_eq!(
        fixture.ask("TEARDOWN", "rtsp://h/voice", &[&first]).status,
        200
    );
    fixture.set_up("voice", 0, 5000, None);
}

#[test]
fn connections_that_keep_us_waiting_are_closed() {
    let mut fixture = ServiceFixture::new(Limits::default());
    let silent = fixture.connection;
    let ask = |fixture: &mut ServiceFixture, peer| {
        fixture.connection = fixture.connect(peer);
        fixture.ask("OPTIONS", "*", &[]);
        fixture.connection
    };
    // A slow loris sends a byte now and then, from the start or later.
    let loris = fixture.connect("192.0.2.1:2");
    let late_loris = ask(&mut fixture, "192.0.2.1:3");
    let idle = ask(&mut fixture, "192.0.2.1:4");
    let with_session = ask(&mut fixture, "192.0.2.1:5");
    fixture.set_up("voice", 0, 5000, None);
    let mut closed: Vec<(u64, ConnectionId)> = Vec::new();
    for second in 1..=200 {
        for connection in [loris, late_loris] {
            fixture
                .service
                .receive(connection, b"O", second * SECOND_NS);
            assert!(
                fixture
                    .service
                    .next(connection, fixture.now_ns, &fixture.catalogue)
                    .is_none()
            );
        }
        if second == 50 {
            fixture.service.alive(hythe_rtp::rtsp::SessionId(0), 0); // nobody's: nothing happens
        }
        let expired = fixture.tick_at(second * SECOND_NS);
        closed.extend(expired.connections.iter().map(|id| (second, *id)));
    }
    let counters = *fixture.counters();
    assert_eq!(
        closed,
        [
            (10, silent),
            (10, loris),
            (11, late_loris),
            (120, idle),
            (120, with_session)
        ]
    );
    assert_eq!(
        (
            counters.silent_connections,
            counters.slow_messages,
            counters.idle_connections
        ),
        (2, 1, 2)
    );
    // The session had ended before.
    assert_eq!(counters.lost_sessions, 1);
    assert_eq!(fixture.service.free_capacity(silent), 0);
    assert!(fixture.service.is_idle());
}
