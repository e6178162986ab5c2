//! Servers that mean harm: each is an error that names the server and what was wrong, within a
//! bounded time.
//!
//! A client whose waits start anew with each byte would see the end of what these servers say, and
//! another error, or none.

use std::time::Duration;

use hythe_media::MediaError;
use hythe_media::rtsp::client::Playing;

use super::script::{Act, BASE, Server, TRANSPORT, answer, at_once, described, ok, set_up, told};

const TIME_LIMIT: Duration = Duration::from_secs(60);
/// With servers that are to be given up.
const SHORT: Duration = Duration::from_secs(1);

/// Describes, sets the first stream up, and plays.
fn watch(server: &Server, time_limit: Duration) -> Result<Playing, MediaError> {
    let mut client = server.client(time_limit);
    let listed = client.describe()?;
    client.set_up(listed[0].stream.as_ref().unwrap(), 6000)?;
    client.play()
}

/// What comes of a server that answers DESCRIBE, SETUP and PLAY so.
fn refused(script: Vec<Act>, time_limit: Duration) -> String {
    let server = Server::of(script);
    let refused = told(watch(&server, time_limit), &server.url);
    server.requests();
    refused
}

#[test]
fn nonsense_is_named_with_its_value() {
    for (text, reason) in [
        (
            "RTSP/1.0 404 Not Found\r\n\r\n",
            "DESCRIBE: RTSP/1.0 404 Not Found",
        ),
        ("RTSP/1.0 404 \u{1b}[2J\r\n\r\n", "control characters"),
        ("HTTP/1.1 200 OK\r\n\r\n", "no RTSP: `HTTP/1.1 200 OK"),
        ("\u{16}\u{3}\u{1}", "no RTSP: `\\u{16}"),
        (
            "RTSP/1.0 200 OK\r\nContent-Length: 99999999\r\n\r\n",
            "Content-Length is 99999999",
        ),
        (
            "RTSP/1.0 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
            "no number: `18446744073709551615`",
        ),
        (
            "RTSP/1.0 200 OK\r\nContent-Length: -1\r\n\r\n",
            "no number: `-1`",
        ),
        (
            "RTSP/1.0 200 OK\r\nCSeq: 99\r\n\r\n",
            "request `99` (CSeq), not 1",
        ),
        (
            "RTSP/1.0 200 OK\r\nCSeq: -1\r\n\r\n",
            "request `-1` (CSeq), not 1",
        ),
        (
            "RTSP/1.0 200 OK\r\nCSeq: 4294967297\r\n\r\n",
            "request `4294967297` (CSeq), not 1",
        ),
        (
            "RTSP/1.0 302 Moved\r\nLocation: rtsp://192.0.2.7/x\r\n\r\n",
            "on to `rtsp://192.0.2.7/x`",
        ),
        (
            "RTSP/1.0 401 No\r\nWWW-Authenticate: Digest realm=\"a\"\r\n\r\n",
            "password (`Digest realm=\"a\"`)",
        ),
        (
            "RTSP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n",
            "as `text/html`",
        ),
        ("RTSP/1.0 200 OK\r\n\r\n", "its description: "),
    ] {
        let told = refused(answer(text), TIME_LIMIT);
        assert!(told.contains(reason), "{told}");
    }
}

#[test]
fn descriptions_of_nothing_are_refused() {
    // Each in front of what would be good.
    for (headers, body, reason) in [
        (BASE, "v=0\r\n", "its description: it describes no stream"),
        (BASE, "v=7\r\n", "its description: Invalid version"),
    ] {
        let told = refused(answer(ok(headers, body)), TIME_LIMIT);
        assert!(told.contains(reason), "{told}");
    }
}

#[test]
fn what_does_not_end_is_left() {
    let head = "RTSP/1.0 200 OK\r\nCSeq: NUMBER\r\n";
    let packet = format!("$\0\u{1}\0{}", "a".repeat(256));
    for (begin, again, times, reason) in [
        ("", "x", 1 << 20, "do not end within 16384 bytes: `xxxx"),
        (
            head,
            "A: b\r\n",
            1 << 18,
            "do not end within 16384 bytes: `RTSP/1.0 200 OK",
        ),
        ("", "\r\n", 1 << 20, "bytes that answer nothing"),
        ("", &packet, 1 << 16, "bytes that answer nothing"),
        (
            "",
            "RTSP/1.0 100 Continue\r\n\r\n",
            1 << 18,
            "bytes that answer nothing",
        ),
        (
            "",
            "RTSP/1.0 200 OK\r\nCSeq: 0\r\n\r\n",
            1 << 18,
            "bytes that answer nothing",
        ),
        (
            "",
            "OPTIONS * RTSP/1.0\r\n\r\n",
            1 << 18,
            "bytes that answer nothing",
        ),
    ] {
        let script = vec![
            Act::Hear,
            Act::Say(begin.into()),
            Act::Repeat(again.into(), times),
        ];
        let told = refused(script, TIME_LIMIT);
        assert!(told.contains(reason), "{told}");
    }
}

#[test]
fn client_leaves_server_that_answers_too_late() {
    let apart = Duration::from_millis(20);
    let long = |text: &str| text.as_bytes().repeat(400);
    let cases = [
        (vec![], "did not answer within 1.0 s; 0 bytes"),
        // A byte now and then, for many times as long: of a head, a body, a packet, and of nothing.
        (
            vec![Act::Drip(long("x"), apart)],
            "did not answer within 1.0 s; ",
        ),
        (
            vec![
                Act::Say(b"RTSP/1.0 200 OK\r\nContent-Length: 400\r\n\r\n".to_vec()),
                Act::Drip(long("y"), apart),
            ],
            "bytes of an answer came: `RTSP/1.0 200 OK",
        ),
        (
            vec![
                Act::Say(b"$\0\x7f\x7f".to_vec()),
                Act::Drip(long("z"), apart),
            ],
            "bytes of an answer came: `$",
        ),
        (
            vec![Act::Drip(long("\n"), apart)],
            "did not answer within 1.0 s; 0 bytes",
        ),
        // All but the last byte.
        (
            vec![Act::Say(described().trim_end_matches('\n').into())],
            "did not answer within 1.0 s; ",
        ),
    ];
    at_once(cases, |(acts, reason)| {
        let script = [vec![Act::Hear], acts].concat();
        let told = refused(script, SHORT);
        assert!(
            told.contains("DESCRIBE: ") && told.contains(reason),
            "{told}"
        );
    });
}

#[test]
fn whoever_closes_is_named_in_every_state() {
    let begin = [described(), set_up(), ok("", "")];
    at_once(
        ["DESCRIBE", "SETUP", "PLAY"].into_iter().enumerate(),
        |(good, method)| {
            let before: Vec<Act> = begin[..good]
                .iter()
                .flat_map(|text| answer(&text[..]))
                .collect();
            let half = begin[good][..20].to_owned();
            for (acts, reason) in [
                (vec![Act::Close], "closed the connection without an answer"),
                (
                    vec![Act::Hear, Act::Close],
                    "closed the connection without an answer",
                ),
                (
                    vec![Act::Hear, Act::Say(half.into()), Act::Close],
                    "closed the connection behind 20 bytes of an answer: `RTSP/1.0 200 OK\\r\\nCSe",
                ),
            ] {
                let told = refused([before.clone(), acts].concat(), TIME_LIMIT);
                // Closed with a request unread, it is a reset.
                let is_reset = told.contains("reset by peer") || told.contains("Broken pipe");
                assert!(
                    told.contains(method) && (told.contains(reason) || is_reset),
                    "{told}"
                );
            }
        },
    );
}

#[test]
fn transports_and_sessions_that_were_not_asked_for_are_refused() {
    let long = format!("Session: {}\r\n{TRANSPORT}", "s".repeat(5000));
    let cases = [
        (TRANSPORT, "it gave no session"),
        ("Session: ;timeout=5\r\n", "it gave no session"),
        (&long, "a session of 5000 bytes: `ssss"),
        ("Session: a b\r\n", "a session of 3 bytes: `a b`"),
        ("Session: \u{e9}\r\n", "a session of 2 bytes: `\u{e9}`"),
        ("Session: abc\r\n", "transport ``: only RTP over UDP"),
        (
            "Session: abc\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n",
            "only RTP over UDP",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP/TCP;unicast\r\n",
            "only RTP over UDP",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP;unicast;interleaved=0-1\r\n",
            "unicast over UDP",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP;multicast;destination=239.1.2.3;port=6000-6001\r\n",
            "unicast over UDP",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP;unicast,RTP/AVP;multicast\r\n",
            "only RTP over UDP",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP;unicast;client_port=5000-5001\r\n",
            "port 6000 was asked for",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP;unicast;server_port=0-0\r\n",
            "no pair of ports: `0-0`",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP;unicast;server_port=7000-0\r\n",
            "no pair of ports: `7000-0`",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP;unicast;server_port=65535\r\n",
            "no pair of ports: `65535`",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP;unicast;server_port=-7000\r\n",
            "no pair of ports: `-7000`",
        ),
        (
            "Session: abc\r\nTransport: RTP/AVP;unicast;server_port=65536-65537\r\n",
            "no pair of ports: `65536-65537`",
        ),
    ];
    at_once(cases, |(headers, reason)| {
        let script = [answer(described()), answer(ok(headers, ""))].concat();
        let told = refused(script, TIME_LIMIT);
        assert!(told.contains("SETUP: ") && told.contains(reason), "{told}");
    });
}

#[test]
fn session_does_not_change_under_way() {
    let other = ok(&format!("Session: other\r\n{TRANSPORT}"), "");
    let server = Server::of(
        [
            answer(described()),
            answer(set_up()),
            answer(other),
            answer(ok("", "")),
        ]
        .concat(),
    );
    let mut client = server.client(TIME_LIMIT);
    let listed = client.describe().unwrap();
    let stream = listed[0].stream.as_ref().unwrap();
    client.set_up(stream, 6000).unwrap();
    let told = told(client.set_up(stream, 6000), &server.url);
    assert!(
        told.contains("session `other`, but this is `abc`"),
        "{told}"
    );
    drop(client);
    // The one that was made is ended.
    assert!(server.requests()[3].contains("Session: abc\r\n"));
}

#[test]
fn streams_whose_url_is_none_are_not_understood_and_others_are() {
    let begin = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n";
    let controls = [
        "a b",
        "x RTSP/1.0\tX: y",
        "\u{1b}[2J",
        &"u".repeat(3000),
        "rtsp://192.0.2.7/x",
        "*",
        "?q=1",
    ];
    let medias = controls.map(|control| format!("m=audio 0 RTP/AVP 0\r\na=control:{control}\r\n"));
    let server = Server::of(answer(ok(BASE, &(begin.to_owned() + &medias.concat()))));
    let listed = server.client(TIME_LIMIT).describe().unwrap();
    let url = server.url.clone();
    let other = url.replace("/film", "/x");
    let urls: Vec<Option<String>> = listed
        .iter()
        .map(|one| {
            let stream = one.stream.as_ref().ok()?;
            stream.attributes[0].1.clone()
        })
        .collect();
    let expected = [other, url.clone(), format!("{url}/?q=1")];
    assert_eq!(urls[..4], [None, None, None, None]);
    assert_eq!(urls[4..], expected.map(Some));
    for one in &listed {
        let shown = one.to_string();
        assert!(
            shown.len() < 300 && !shown.contains(char::is_control),
            "{shown}"
        );
    }
    assert!(
        listed[3]
            .to_string()
            .contains(&format!("its URL has {} bytes", url.len() + 3001)),
        "{}",
        listed[3]
    );
    server.requests();
}

#[test]
fn description_of_very_many_streams_is_refused() {
    let begin = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n";
    let many = begin.to_owned() + &"m=a 0 RTP/AVP 0\r\n".repeat(50_000);
    let told = refused(answer(ok(BASE, &many)), TIME_LIMIT);
    assert!(
        told.contains("describes 50000 streams; up to 128"),
        "{told}"
    );
}
