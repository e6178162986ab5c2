//! The server's state machine of RFC 2326, appendix A.2, one stream at a time and all together;
//! time-outs; whose session it is.

use hythe_rtp::rtsp::{Action, Limits};

use super::catalogue::SECOND_NS;
use super::fixture::{HERE, ServiceFixture};

const URL: &str = "rtsp://h/voice/stream=0";
const UNICAST: &str = "Transport: RTP/AVP;unicast;client_port=5000-5001";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Init,
    Ready,
    Playing,
}
use State::{Init, Playing, Ready};

/// A fixture whose one stream is in that state.
fn at(state: State) -> (ServiceFixture, String) {
    let mut fixture = ServiceFixture::new(Limits::default());
    let session = fixture.set_up("voice", 0, 5000, None);
    match state {
        Init => assert_eq!(fixture.ask("TEARDOWN", URL, &[&session]).status, 200),
        Ready => {}
        Playing => assert_eq!(fixture.ask("PLAY", URL, &[&session]).status, 200),
    }
    (fixture, session)
}

/// Found out by what only that state answers.
fn state(fixture: &mut ServiceFixture, session: &str) -> State {
    match fixture.ask("PAUSE", URL, &[session]).status {
        454 => Init,
        455 => Ready,
        200 => Playing,
        status => panic!("{status}"),
    }
}

#[test]
fn every_transition_of_the_table() {
    for (before, method, status, after) in [
        (Init, "SETUP", 200, Ready),
        (Init, "TEARDOWN", 454, Init),
        (Init, "PLAY", 454, Init),
        (Init, "PAUSE", 454, Init),
        (Ready, "SETUP", 200, Ready),
        (Ready, "TEARDOWN", 200, Init),
        (Ready, "PLAY", 200, Playing),
        (Ready, "PAUSE", 455, Ready),
        (Ready, "RECORD", 405, Ready),
        (Playing, "SETUP", 455, Playing),
        (Playing, "TEARDOWN", 200, Init),
        (Playing, "PLAY", 200, Playing),
        (Playing, "PAUSE", 200, Ready),
        (Playing, "RECORD", 405, Playing),
    ] {
        let (mut fixture, mut session) = at(before);
        let headers = match (before, method) {
            (Init, "SETUP") => vec![UNICAST],
            (_, "SETUP") => vec![UNICAST, &session],
            _ => vec![&session[..]],
        };
        let answer = fixture.ask(method, URL, &headers);
        assert_eq!(
            answer.status, status,
            "{before:?} {method}: {}",
            answer.text
        );
        if (before, method) == (Init, "SETUP") {
            session = format!("Session: {}", answer.session());
        }
        let expected: &[&str] = match (before, method, status) {
            (Ready, "PLAY", _) => &["Start"],
            (Playing, "PAUSE", _) => &["Pause"],
            (Playing, "TEARDOWN", _) => &["Stop"],
            _ => &[],
        };
        let names: Vec<&str> = answer.actions.iter().map(name).collect();
        assert_eq!(names, expected, "{before:?} {method}");
        assert_eq!(state(&mut fixture, &session), after, "{before:?} {method}");
    }
}

fn name(action: &Action) -> &'static str {
    match action {
        Action::Start(_) => "Start",
        Action::Pause { .. } => "Pause",
        Action::Stop { .. } => "Stop",
    }
}

#[test]
fn pause_is_left_by_play_and_ended_by_teardown() {
    let (mut fixture, session) = at(Playing);
    assert_eq!(fixture.ask("PAUSE", URL, &[&session]).actions.len(), 1);
    let answer = fixture.ask("PLAY", URL, &[&session]);
    assert!(matches!(&answer.actions[..], [Action::Start(start)] if start.from_ns.is_none()));
    fixture.ask("PAUSE", URL, &[&session]);
    // A new way for a paused stream: same source, other port.
    let moved = "Transport: RTP/AVP;unicast;client_port=7000-7001";
    assert_eq!(fixture.ask("SETUP", URL, &[moved, &session]).status, 200);
    let again = fixture.ask("PLAY", URL, &[&session]);
    let ([Action::Start(old)], [Action::Start(new)]) = (&answer.actions[..], &again.actions[..])
    else {
        panic!("{:?} {:?}", answer.actions, again.actions);
    };
    assert_eq!((new.destination.port(), new.ssrc), (7000, old.ssrc));
    fixture.ask("PAUSE", URL, &[&session]);
    let answer = fixture.ask("TEARDOWN", URL, &[&session]);
    assert_eq!(
        answer.actions.iter().map(name).collect::<Vec<_>>(),
        ["Stop"]
    );
}

#[test]
fn play_while_playing_is_a_keep_alive_or_a_move() {
    let (mut fixture, session) = at(Playing);
    let answer = fixture.ask("PLAY", URL, &[&session]);
    assert_eq!(
        (&answer.actions[..], answer.header("RTP-Info")),
        (&[][..], None)
    );
    let answer = fixture.ask("PLAY", URL, &[&session, "Range: npt=5-"]);
    let moved = Some(5 * SECOND_NS);
    assert!(matches!(&answer.actions[..], [Action::Start(start)] if start.from_ns == moved));
}

#[test]
fn stream_that_ended_can_be_played_again() {
    let (mut fixture, session) = at(Playing);
    let id = fixture.ask("GET_PARAMETER", URL, &[&session]).session();
    fixture.service.ended(id, 0);
    let answer = fixture.ask("PLAY", URL, &[&session]);
    assert_eq!(
        answer.actions.iter().map(name).collect::<Vec<_>>(),
        ["Start"]
    );
}

#[test]
fn streams_come_and_go_one_by_one() {
    let mut fixture = ServiceFixture::new(Limits::default());
    let session = fixture.set_up("film", 0, 5000, None);
    assert_eq!(
        fixture
            .ask("PLAY", "rtsp://h/film", &[&session])
            .actions
            .len(),
        1
    );
    // Another one joins while the first plays.
    fixture.set_up("film", 1, 5002, Some(&session));
    assert_eq!(
        fixture
            .ask("PLAY", "rtsp://h/film", &[&session])
            .actions
            .len(),
        1
    );
    let answer = fixture.ask("TEARDOWN", "rtsp://h/film/stream=0", &[&session]);
    assert!(matches!(
        answer.actions[..],
        [Action::Stop { stream: 0, .. }]
    ));
    assert_eq!(
        fixture
            .ask("PAUSE", "rtsp://h/film/stream=0", &[&session])
            .status,
        455
    );
    let answer = fixture.ask("PAUSE", "rtsp://h/film", &[&session]);
    assert!(matches!(
        answer.actions[..],
        [Action::Pause { stream: 1, .. }]
    ));
    let answer = fixture.ask("TEARDOWN", "rtsp://h/film/", &[&session]);
    assert!(matches!(
        answer.actions[..],
        [Action::Stop { stream: 1, .. }]
    ));
    assert_eq!(fixture.ask("OPTIONS", "*", &[&session]).status, 454);
}

#[test]
fn session_whose_client_vanished_ends() {
    for method in ["OPTIONS", "GET_PARAMETER", "SET_PARAMETER", "PLAY"] {
        let (mut fixture, session) = at(Playing);
        fixture.service.close(fixture.connection);
        assert_eq!(fixture.tick_at(60 * SECOND_NS - 1).actions, []);
        // The client comes back on another connection, in time.
        fixture.connection = fixture.connect("192.0.2.1:4001");
        assert_eq!(fixture.ask(method, URL, &[&session]).status, 200);
        assert_eq!(fixture.tick_at(120 * SECOND_NS - 2).actions, []);
        let expired = fixture.tick_at(120 * SECOND_NS - 1);
        assert_eq!(
            expired.actions.iter().map(name).collect::<Vec<_>>(),
            ["Stop"]
        );
        assert_eq!(fixture.counters().lost_sessions, 1);
        assert_eq!(fixture.ask(method, URL, &[&session]).status, 454);
        assert_eq!(fixture.tick_at(999 * SECOND_NS).actions, []);
    }
}

#[test]
fn reports_of_the_receiver_are_signs_of_life() {
    let (mut fixture, session) = at(Playing);
    let id = fixture.ask("OPTIONS", URL, &[&session]).session();
    fixture.service.alive(id, 59 * SECOND_NS);
    assert_eq!(fixture.tick_at(100 * SECOND_NS).actions, []);
    assert_eq!(fixture.tick_at(119 * SECOND_NS).actions.len(), 1);
}

#[test]
fn nobody_else_may_use_a_session() {
    let (mut fixture, session) = at(Playing);
    fixture.connection = fixture.connect("192.0.2.2:4000");
    for method in ["PAUSE", "TEARDOWN", "PLAY", "GET_PARAMETER", "OPTIONS"] {
        let answer = fixture.ask(method, URL, &[&session]);
        assert_eq!(
            (answer.status, &answer.actions[..]),
            (454, &[][..]),
            "{method}"
        );
    }
    assert_eq!(fixture.ask("SETUP", URL, &[UNICAST, &session]).status, 454);
    assert_eq!(fixture.counters().foreign_sessions, 6);
    // The same address through a socket that takes both families is the same client.
    fixture.connection = fixture.connect("[::ffff:192.0.2.1]:4000");
    assert_eq!(fixture.ask("PAUSE", URL, &[&session]).status, 200);
}

#[test]
fn media_is_sent_to_who_asks_and_to_nobody_else() {
    let mut fixture = ServiceFixture::new(Limits::default());
    fixture.connection = fixture.connect("[2001:db8::7]:4000");
    for destination in ["2001:db8::8", "192.0.2.1", "ff02::1", "localhost"] {
        let transport = format!("{UNICAST};destination={destination}");
        let answer = fixture.ask("SETUP", URL, &[&transport]);
        let line = answer.text.lines().next().unwrap();
        assert!(
            line.starts_with("RTSP/1.0 461 Unsupported Transport: media is sent to"),
            "{line}"
        );
    }
    assert_eq!(fixture.counters().foreign_destinations, 4);
    let transport = format!("{UNICAST};destination=2001:db8::7");
    let session = fixture.ask("SETUP", URL, &[&transport]).session();
    let answer = fixture.ask("PLAY", URL, &[&format!("Session: {session}")]);
    let expected = "[2001:db8::7]:5000".parse().unwrap();
    assert!(matches!(&answer.actions[..], [Action::Start(start)] if start.destination == expected));
}

#[test]
fn two_clients_watch_one_source_without_disturbing_each_other() {
    let mut fixture = ServiceFixture::new(Limits::default());
    let one = fixture.set_up("live", 0, 5000, None);
    let first = fixture.connection;
    let second = fixture.connect("192.0.2.2:4000");
    fixture.connection = second;
    let two = fixture.set_up("live", 0, 5000, None);
    assert_ne!(one, two);
    let answer = fixture.ask("PLAY", "rtsp://h/live", &[&two]);
    let expected = "192.0.2.2:5000".parse().unwrap();
    assert!(matches!(&answer.actions[..], [Action::Start(start)] if start.destination == expected));
    fixture.connection = first;
    assert_eq!(
        fixture.ask("PLAY", "rtsp://h/live", &[&one]).actions.len(),
        1
    );
    assert_eq!(
        fixture
            .ask("TEARDOWN", "rtsp://h/live", &[&one])
            .actions
            .len(),
        1
    );
    fixture.connection = second;
    assert_eq!(
        fixture
            .ask("TEARDOWN", "rtsp://h/live", &[&two])
            .actions
            .len(),
        1
    );
}

#[test]
fn shutting_down_stops_what_was_started() {
    let (mut fixture, _) = at(Playing);
    fixture.set_up("film", 0, 6000, None); // never played
    let other = fixture
        .service
        .open("192.0.2.3:1".parse().unwrap(), HERE.parse().unwrap(), 0);
    assert!(other.is_ok());
    assert_eq!(
        fixture
            .service
            .shut_down()
            .iter()
            .map(name)
            .collect::<Vec<_>>(),
        ["Stop"]
    );
    assert_eq!(fixture.service.shut_down(), []);
}
