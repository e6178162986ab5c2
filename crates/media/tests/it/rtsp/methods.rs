//! Each method: what it answers, what it refuses, what it has the owner do.

use hythe_rtp::rtsp::{Action, Limits, Start, Started};

use super::catalogue::SECOND_NS;
use super::fixture::{STARTED, ServiceFixture};

const UNICAST: &str = "Transport: RTP/AVP;unicast;client_port=5000-5001";

fn fixture() -> ServiceFixture {
    ServiceFixture::new(Limits::default())
}

#[test]
fn options_names_the_methods() {
    for url in ["*", "rtsp://h/voice", "rtsp://h/nothing"] {
        let answer = fixture().ask("OPTIONS", url, &[]);
        let expected =
            "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";
        assert_eq!(
            (answer.status, answer.header("Public")),
            (200, Some(expected))
        );
    }
}

#[test]
fn describe_answers_with_the_description() {
    for url in ["rtsp://h:554/voice", "rtsp://h:554/voice/"] {
        let answer = fixture().ask("DESCRIBE", url, &["Accept: application/sdp"]);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("Content-Type"), Some("application/sdp"));
        assert_eq!(answer.header("Content-Base"), Some("rtsp://h:554/voice/"));
        let (_, body) = answer.text.split_once("\r\n\r\n").unwrap();
        let length = answer.header("Content-Length").unwrap();
        assert_eq!(length, body.len().to_string());
        assert!(body.contains("\r\na=range:npt=0.000-10.000\r\n"), "{body}");
        assert!(body.contains("IN IP4 192.0.2.9\r\n"), "{body}");
        assert!(body.ends_with("a=rtpmap:0 PCMU/8000\r\na=control:stream=0\r\n"));
    }
}

#[test]
fn describe_refuses_what_is_not_there_or_not_understood() {
    for (url, accept, status) in [
        ("rtsp://h/nothing", "*/*", 404),
        ("rtsp://h/", "*/*", 404),
        ("rtsp://h/../voice", "*/*", 404),
        ("rtsp://h/voice/stream=0", "*/*", 405),
        ("*", "*/*", 405),
        ("http://h/voice", "*/*", 400),
        ("rtsp://h/voice", "application/rtsl, application/mheg", 406),
        ("rtsp://h/voice", "application/sdp;q=0.0", 406),
        ("rtsp://h/voice", "", 406),
        (
            "rtsp://h/voice",
            "text/plain, application/SDP;level=1;q=0.5",
            200,
        ),
        ("rtsp://h/voice", "application/*", 200),
        ("rtsp://h/voice", "*/*;q=0.1", 200),
    ] {
        let accept = format!("Accept: {accept}");
        let answer = fixture().ask("DESCRIBE", url, &[&accept]);
        assert_eq!(answer.status, status, "{url} {accept}");
        assert_eq!(answer.header("Allow").is_some(), status == 405);
    }
    assert_eq!(fixture().ask("DESCRIBE", "rtsp://h/voice", &[]).status, 200);
}

#[test]
fn setup_agrees_on_ports() {
    let mut fixture = fixture();
    let answer = fixture.ask("SETUP", "rtsp://h/voice/stream=0", &[UNICAST]);
    assert_eq!(answer.status, 200, "{}", answer.text);
    let session = answer.header("Session").unwrap();
    let (id, timeout) = session.split_once(';').unwrap();
    assert_eq!((id.len(), timeout), (16, "timeout=60"));
    let transport = answer.header("Transport").unwrap();
    let expected = "RTP/AVP;unicast;client_port=5000-5001;server_port=6970-6971;ssrc=";
    assert!(transport.starts_with(expected), "{transport}");
    assert_eq!(answer.actions, []);
    assert_eq!(fixture.counters().sessions, 1);
    // A presentation of one stream may be meant by its own URL.
    assert_eq!(
        fixture.ask("SETUP", "rtsp://h/voice", &[UNICAST]).status,
        200
    );
    let live = fixture.ask("SETUP", "rtsp://h/live", &[UNICAST]);
    assert!(live.header("Transport").unwrap().ends_with("ssrc=12345678"));
}

#[test]
fn setup_refuses() {
    let tcp = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1";
    for (url, headers, status) in [
        ("rtsp://h/nothing/stream=0", &[UNICAST][..], 404),
        ("rtsp://h/voice/stream=1", &[UNICAST], 404),
        ("rtsp://h/film", &[UNICAST], 459),
        ("*", &[UNICAST], 405),
        ("rtsp://h/voice", &[], 400),
        ("rtsp://h/voice", &["Transport:"], 400),
        ("rtsp://h/voice", &[tcp], 461),
        ("rtsp://h/voice", &["Transport: RTP/AVP;multicast"], 461),
        (
            "rtsp://h/voice",
            &[UNICAST, "Session: 0000000000000000"],
            454,
        ),
        ("rtsp://h/voice", &[UNICAST, "Session: x"], 454),
        ("rtsp://h/voice", &[UNICAST, "Session:"], 454),
        ("rtsp://h/voice", &[UNICAST, "Require: funky"], 551),
    ] {
        let mut fixture = fixture();
        let answer = fixture.ask("SETUP", url, headers);
        assert_eq!(answer.status, status, "{url} {headers:?}");
        assert_eq!(
            (
                fixture.counters().sessions,
                fixture.counters().refused_requests
            ),
            (0, 1)
        );
    }
}

#[test]
fn session_is_of_one_presentation() {
    let mut fixture = fixture();
    let session = fixture.set_up("film", 0, 5000, None);
    fixture.set_up("film", 1, 5002, Some(&session));
    let answer = fixture.ask("SETUP", "rtsp://h/voice", &[UNICAST, &session]);
    assert_eq!(answer.status, 459);
    let answer = fixture.ask("PLAY", "rtsp://h/voice", &[&session]);
    assert_eq!(answer.status, 459);
    assert_eq!(fixture.counters().sessions, 1);
}

#[test]
fn play_starts_every_stream_at_its_destination() {
    let mut fixture = fixture();
    let session = fixture.set_up("film", 0, 5000, None);
    fixture.set_up("film", 1, 5002, Some(&session));
    fixture.starts = Ok(Started {
        sequence: 65_535,
        timestamp: u32::MAX,
        from_ns: Some(2 * SECOND_NS),
    });
    let answer = fixture.ask(
        "PLAY",
        "rtsp://h/film/",
        &[&session, "Range: npt=2-8.5", "Scale: 2"],
    );
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("Range"), Some("npt=2.000-8.500"));
    assert_eq!(answer.header("Scale"), Some("1.0"));
    let expected = "url=rtsp://h/film/stream=0;seq=65535;rtptime=4294967295,\
                    url=rtsp://h/film/stream=1;seq=65535;rtptime=4294967295";
    assert_eq!(answer.header("RTP-Info"), Some(expected));
    for (index, action) in answer.actions.iter().enumerate() {
        let Action::Start(start) = action else {
            panic!("{action:?}");
        };
        let port = 5000 + 2 * index as u16;
        let expected = Start {
            session: answer.session(),
            path: "film".to_owned(),
            stream: index,
            destination: ([192, 0, 2, 1], port).into(),
            rtcp_destination: ([192, 0, 2, 1], port + 1).into(),
            ttl: None,
            ssrc: start.ssrc,
            from_ns: Some(2 * SECOND_NS),
            until_ns: Some(8_500_000_000),
        };
        assert_eq!(*start, expected);
    }
    assert_eq!(answer.actions.len(), 2);
}

#[test]
fn play_of_one_stream_leaves_the_others() {
    let mut fixture = fixture();
    let session = fixture.set_up("film", 0, 5000, None);
    fixture.set_up("film", 1, 5002, Some(&session));
    let answer = fixture.ask("PLAY", "rtsp://h/film/stream=1", &[&session]);
    let info = answer.header("RTP-Info").unwrap();
    assert_eq!(info, "url=rtsp://h/film/stream=1;seq=7;rtptime=70");
    assert!(matches!(&answer.actions[..], [Action::Start(start)] if start.stream == 1));
    // The aggregate starts what does not play yet.
    let answer = fixture.ask("PLAY", "rtsp://h/film", &[&session]);
    assert!(matches!(&answer.actions[..], [Action::Start(start)] if start.stream == 0));
}

#[test]
fn play_refuses() {
    for (url, headers, status) in [
        ("rtsp://h/film", &[][..], 454),
        ("rtsp://h/film", &["Session: 1234567812345678"], 454),
        ("rtsp://h/film/stream=1", &["SESSION"], 455),
        ("rtsp://h/film/stream=7", &["SESSION"], 455),
        ("rtsp://h/film", &["SESSION", "Range: npt=10-"], 457),
        ("rtsp://h/film", &["SESSION", "Range: npt=5-4"], 457),
        ("rtsp://h/film", &["SESSION", "Range: soon"], 400),
        ("rtsp://h/film", &["SESSION", "Range: smpte=0:10:00-"], 501),
        ("*", &["SESSION"], 405),
    ] {
        let mut fixture = fixture();
        let session = fixture.set_up("film", 0, 5000, None);
        let fill = |header: &&'static str| {
            if *header == "SESSION" {
                session.clone()
            } else {
                (*header).to_owned()
            }
        };
        let filled: Vec<String> = headers.iter().map(fill).collect();
        let filled: Vec<&str> = filled.iter().map(|header| &header[..]).collect();
        let answer = fixture.ask("PLAY", url, &filled);
        assert_eq!(
            (answer.status, &answer.actions[..]),
            (status, &[][..]),
            "{url} {headers:?}"
        );
    }
}

#[test]
fn live_media_is_played_from_now_on() {
    let mut fixture = fixture();
    let session = fixture.set_up("live", 0, 5000, None);
    let answer = fixture.ask("PLAY", "rtsp://h/live", &[&session, "Range: npt=5-"]);
    assert_eq!(answer.status, 457);
    fixture.starts = Ok(Started {
        from_ns: None,
        ..STARTED
    });
    let answer = fixture.ask("PLAY", "rtsp://h/live", &[&session, "Range: npt=0.000-"]);
    assert_eq!(
        (answer.status, answer.header("Range")),
        (200, Some("npt=now-"))
    );
    assert!(
        matches!(&answer.actions[..], [Action::Start(start)] if start.from_ns.is_none() && start.ssrc == 0x1234_5678)
    );
    let answer = fixture.ask("PAUSE", "rtsp://h/live", &[&session]);
    assert_eq!(answer.status, 405);
    assert!(!answer.header("Allow").unwrap().contains("PAUSE"));
}

#[test]
fn group_is_where_its_owner_says() {
    let mut fixture = fixture();
    let answer = fixture.ask("SETUP", "rtsp://h/live", &["Transport: RTP/AVP;multicast"]);
    let expected = "RTP/AVP;multicast;destination=239.1.2.3;port=5004-5005;ttl=3";
    assert_eq!(answer.header("Transport"), Some(expected));
    let session = format!("Session: {}", answer.session());
    let answer = fixture.ask("PLAY", "rtsp://h/live", &[&session]);
    let [Action::Start(start)] = &answer.actions[..] else {
        panic!("{:?}", answer.actions);
    };
    assert_eq!(start.destination, ([239, 1, 2, 3], 5004).into());
    assert_eq!(start.rtcp_destination, ([239, 1, 2, 3], 5005).into());
    assert_eq!(start.ttl, Some(3));
}

#[test]
fn start_that_fails_is_answered_with_the_reason_and_undone() {
    let mut fixture = fixture();
    let session = fixture.set_up("film", 0, 5000, None);
    fixture.starts = Err("the disk\r\nis gone".to_owned());
    let answer = fixture.ask("PLAY", "rtsp://h/film", &[&session]);
    let line = answer.text.lines().next().unwrap();
    assert_eq!(line, "RTSP/1.0 503 Service Unavailable: the disk  is gone");
    assert_eq!(fixture.counters().failed_starts, 1);
    // Nothing plays, nothing was started: nothing to pause or stop.
    assert_eq!(
        fixture.ask("PAUSE", "rtsp://h/film", &[&session]).status,
        455
    );
    let answer = fixture.ask("TEARDOWN", "rtsp://h/film", &[&session]);
    assert_eq!((answer.status, &answer.actions[..]), (200, &[][..]));
}

#[test]
fn start_that_fails_beside_others_pauses_those() {
    let mut fixture = fixture();
    let session = fixture.set_up("film", 0, 5000, None);
    fixture.set_up("film", 1, 5002, Some(&session));
    let request = format!("PLAY rtsp://h/film RTSP/1.0\r\nCSeq: 9\r\n{session}\r\n\r\n");
    fixture
        .service
        .receive(fixture.connection, request.as_bytes(), 0);
    let outcome = fixture
        .service
        .next(fixture.connection, 0, &fixture.catalogue)
        .unwrap();
    let [Action::Start(first), Action::Start(_)] = &outcome.actions[..] else {
        panic!("{:?}", outcome.actions);
    };
    let id = first.session;
    let results = [Ok(STARTED), Err("no".to_owned())];
    let reply = fixture.service.reply(outcome, &results);
    assert!(reply.bytes.starts_with(b"RTSP/1.0 503"));
    let pause = Action::Pause {
        session: id,
        stream: 0,
    };
    assert_eq!(reply.actions, [pause]);
    let answer = fixture.ask("TEARDOWN", "rtsp://h/film", &[&session]);
    let stop = Action::Stop {
        session: id,
        stream: 0,
    };
    assert_eq!(answer.actions, [stop]);
}

#[test]
fn parameters_keep_alive_and_are_not_known() {
    let mut fixture = fixture();
    let session = fixture.set_up("voice", 0, 5000, None);
    for method in ["GET_PARAMETER", "SET_PARAMETER"] {
        assert_eq!(
            fixture.ask(method, "rtsp://h/voice", &[&session]).status,
            200
        );
        assert_eq!(fixture.ask(method, "*", &[]).status, 200);
        let request = format!(
            "{method} rtsp://h/voice RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 6\r\n\r\njitter"
        );
        assert_eq!(fixture.send(request.as_bytes())[0].status, 451);
        let gone = fixture.ask(method, "rtsp://h/voice", &["Session: 1"]);
        assert_eq!(gone.status, 454);
    }
}

#[test]
fn what_is_not_served_is_refused_by_name() {
    for (method, status) in [
        ("RECORD", 405),
        ("ANNOUNCE", 405),
        ("REDIRECT", 405),
        ("PLAY_NOTIFY", 501),
        ("GET", 501),
        ("options", 501),
    ] {
        let answer = fixture().ask(method, "rtsp://h/voice", &[]);
        assert_eq!(answer.status, status, "{method}");
        assert_eq!(answer.header("Allow").is_some(), status == 405);
    }
    let mut fixture = fixture();
    let answer = fixture.ask("OPTIONS", "*", &["Require: implicit-play, x"]);
    assert_eq!(
        (answer.status, answer.header("Unsupported")),
        (551, Some("implicit-play, x"))
    );
    let answers = fixture.send(b"OPTIONS * RTSP/1.0\r\n\r\n");
    assert_eq!((answers[0].status, answers[0].header("CSeq")), (400, None));
    // That was no malformed message: the connection goes on.
    assert_eq!(fixture.ask("OPTIONS", "*", &[]).status, 200);
}

#[test]
fn another_version_is_refused_for_good() {
    let mut fixture = fixture();
    let answers =
        fixture.send(b"OPTIONS * RTSP/2.0\r\nCSeq: 5\r\n\r\nOPTIONS * RTSP/1.0\r\nCSeq: 6\r\n\r\n");
    assert_eq!(answers.len(), 1);
    assert_eq!(
        (answers[0].status, answers[0].header("CSeq")),
        (505, Some("5"))
    );
    assert_eq!(fixture.service.free_capacity(fixture.connection), 0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut fixture = fixture();
    let request = |number| format!("OPTIONS * RTSP/1.0\r\nCSeq: {number}\r\n\r\n");
    let text: String = (0..2000).map(request).collect();
    let answers = fixture.send(text.as_bytes());
    assert_eq!(answers.len(), 2000);
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.header("CSeq"), Some(&number.to_string()[..]));
    }
}
