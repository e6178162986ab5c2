//! The exchange with servers that keep the rules, however their answers are cut.

use std::net::TcpListener;
use std::time::Duration;

use hythe_media::rtsp::client::Client;

use super::script::{
    Act, BASE, SDP, Server, TRANSPORT, answer, at_once, described, ok, played, set_up,
};

const TIME_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn stream_is_described_set_up_played_and_torn_down() {
    let server = Server::of(played([answer(ok("", ""))]));
    let mut client = server.client(TIME_LIMIT);
    let streams = client.describe().unwrap();
    let stream = streams[0].stream.as_ref().unwrap();
    let delivery = client.set_up(stream, 6000).unwrap();
    assert_eq!(delivery.rtcp, Some("127.0.0.1:7001".parse().unwrap()));
    assert_eq!((delivery.ssrc, delivery.host), (Some(42), client.host()));
    drop(client.play().unwrap());
    let url = server.url.clone();
    let requests = server.requests();
    let first: Vec<&str> = requests
        .iter()
        .map(|request| request.lines().next().unwrap())
        .collect();
    assert_eq!(
        first,
        [
            &format!("DESCRIBE {url} RTSP/1.0")[..],
            &format!("SETUP {url}/track1 RTSP/1.0"),
            &format!("PLAY {url} RTSP/1.0"),
            &format!("TEARDOWN {url} RTSP/1.0"),
        ]
    );
    assert!(requests[1].contains("client_port=6000-6001"));
    assert!(!requests[1].contains("Session:"), "{}", requests[1]);
    assert!(requests[2].contains("Session: abc\r\n"));
}

#[test]
fn several_streams_are_set_up_in_one_session_and_played_at_once() {
    let transport = |port: u16| {
        let header = format!("Session: abc\r\nTransport: RTP/AVP;unicast;server_port={port}\r\n");
        answer(ok(&header, ""))
    };
    let script = [
        answer(described()),
        transport(7000),
        transport(7002),
        answer(ok("", "")),
        answer(ok("", "")),
    ];
    let server = Server::of(script.concat());
    let mut client = server.client(TIME_LIMIT);
    let listed = client.describe().unwrap();
    for (one, port) in listed.iter().zip([6000, 6002]) {
        let stream = one.stream.as_ref().unwrap();
        let delivery = client.set_up(stream, port).unwrap();
        assert_eq!(delivery.rtcp.unwrap().port(), port + 1001);
    }
    drop(client.play().unwrap());
    let url = server.url.clone();
    let requests = server.requests();
    assert!(requests[2].starts_with(&format!("SETUP {url}/track2 ")));
    assert!(requests[2].contains("Session: abc\r\n"), "{}", requests[2]);
    let played = requests
        .iter()
        .filter(|request| request.starts_with("PLAY "));
    assert_eq!((played.count(), requests.len()), (1, 5));
}

#[test]
fn urls_of_another_host_are_asked_of_this_one() {
    let cases = [
        (
            "Content-Base: rtsp://10.0.0.9:554/inner/\r\n",
            "t",
            "/inner/t",
        ),
        ("Content-Base: RTSP://camera.local/\r\n", "t", "/t"),
        ("Content-Base: /inner/\r\n", "t", "/inner/t"),
        ("Content-Base: 127.0.0.1:8554/film/\r\n", "t", "/film/t"),
        ("Content-Base: http://192.0.2.7/\r\n", "t", "/film/t"),
        ("Content-Base: rtsp://h/ RTSP/1.0\r\n", "t", "/film/t"),
        ("Content-Location: film/\r\n", "t", "/film/t"),
        (
            "",
            "rtsp://10.0.0.9/inner/t?channel=1",
            "/inner/t?channel=1",
        ),
        ("", "/inner/t", "/film/inner/t"),
        ("", "*", "/film"),
    ];
    at_once(cases, |(header, control, path)| {
        let body = SDP.replace("a=control:track1", &format!("a=control:{control}"));
        let server = Server::of([answer(ok(header, &body)), answer(set_up())].concat());
        let mut client = server.client(TIME_LIMIT);
        let listed = client.describe().unwrap();
        client
            .set_up(listed[0].stream.as_ref().unwrap(), 6000)
            .unwrap();
        drop(client);
        let host = server.url.trim_end_matches("/film").to_owned();
        let requests = server.requests();
        let expected = format!("SETUP {host}{path} RTSP/1.0");
        assert_eq!(requests[1].lines().next(), Some(&expected[..]), "{header}");
    });
}

#[test]
fn profile_with_feedback_is_asked_for_where_it_is_described() {
    let body = SDP.replace("RTP/AVP 0", "RTP/AVPF 0");
    let transport = TRANSPORT.replace("RTP/AVP", "RTP/AVPF");
    let script = [
        answer(ok(BASE, &body)),
        answer(ok(&format!("Session: abc\r\n{transport}"), "")),
    ];
    let server = Server::of(script.concat());
    let mut client = server.client(TIME_LIMIT);
    let listed = client.describe().unwrap();
    client
        .set_up(listed[0].stream.as_ref().unwrap(), 6000)
        .unwrap();
    drop(client);
    let requests = server.requests();
    assert!(
        requests[1].contains("Transport: RTP/AVPF;unicast"),
        "{}",
        requests[1]
    );
}

#[test]
fn answers_may_come_byte_by_byte_or_behind_other_things() {
    let apart = Duration::ZERO;
    let script = vec![
        Act::Hear,
        Act::Drip(described().into_bytes(), apart),
        Act::Hear,
        // Packets that nobody asked for, a request, an answer that announces another, one to an
        // earlier request.
        Act::Say(b"$\x00\x00\x04abcd\r\n$\x01\x00\x00".to_vec()),
        Act::Say(b"OPTIONS * RTSP/1.0\r\nCSeq: 77\r\nContent-Length: 2\r\n\r\nab".to_vec()),
        Act::Say(b"RTSP/1.0 100 Continue\r\nCSeq: NUMBER\r\n\r\n".to_vec()),
        Act::Say(b"RTSP/1.0 404 Not Found\r\nCSeq: 1\r\n\r\n".to_vec()),
        Act::Drip(set_up().into_bytes(), apart),
        Act::Hear,
        // Without a number, as servers answer what they could not read; and the rest behind it.
        Act::Say(b"RTSP/1.0 200 OK\r\n\r\nRTSP/1.0 200".to_vec()),
    ];
    let server = Server::of(script);
    let mut client = server.client(TIME_LIMIT);
    let listed = client.describe().unwrap();
    let delivery = client
        .set_up(listed[0].stream.as_ref().unwrap(), 6000)
        .unwrap();
    assert_eq!(delivery.ssrc, Some(42));
    let passed = client.passed_over();
    assert_eq!((passed.frames, passed.requests, passed.answers), (2, 1, 2));
    drop(client.play().unwrap());
    let said = server.requests();
    // The server's own request has its answer once the session is played.
    let (replies, requests): (Vec<_>, Vec<_>) = said
        .iter()
        .partition(|said| said.starts_with("RTSP/1.0 200 OK\r\nCSeq: 77\r\n"));
    assert_eq!((replies.len(), requests.len()), (1, 4), "{said:?}");
}

#[test]
fn session_that_is_not_played_is_torn_down_too() {
    let script = [answer(described()), answer(set_up()), answer(ok("", ""))];
    let server = Server::of(script.concat());
    let mut client = server.client(TIME_LIMIT);
    let listed = client.describe().unwrap();
    let stream = listed[0].stream.as_ref().unwrap();
    client.set_up(stream, 6000).unwrap();
    drop(client);
    assert!(server.requests()[2].starts_with("TEARDOWN "));
}

#[test]
fn every_address_of_a_name_is_tried() {
    // `localhost` may be ::1 first, where nobody listens.
    let Ok(listener) = TcpListener::bind("127.0.0.1:0") else {
        return println!("SKIPPED: this machine has no 127.0.0.1");
    };
    let port = listener.local_addr().unwrap().port();
    let client = Client::connect(&format!("rtsp://localhost:{port}/film")).unwrap();
    assert!(client.host().is_loopback());
}

#[test]
fn what_a_person_wrote_is_sent_as_a_url() {
    let server = Server::of(answer(ok("", SDP)));
    let url = format!("{}/a b\u{e9}\r\nX: y#part", server.url);
    let mut client = Client::connect(&url).unwrap();
    client.describe().unwrap();
    drop(client);
    let requests = server.requests();
    let first = requests[0].lines().next().unwrap();
    assert!(
        first.ends_with("/film/a%20b%C3%A9X:%20y RTSP/1.0"),
        "{first}"
    );
}

#[test]
fn reports_go_where_the_server_says_or_nowhere() {
    let cases = [
        (TRANSPORT, Some(7001)),
        (
            "Transport: rtp/avp/udp;UNICAST;Server_Port=\"7000-7005\"\r\n",
            Some(7005),
        ),
        (
            "Transport: RTP/AVPF;unicast;server_port=7000\r\n",
            Some(7001),
        ),
        (
            "Transport: RTP/AVP;unicast;source=192.0.2.9;destination=192.0.2.8;ssrc=x\r\n",
            None,
        ),
    ];
    at_once(cases, |(header, rtcp)| {
        let header = format!("Session: abc\r\n{header}");
        let server = Server::of([answer(described()), answer(ok(&header, ""))].concat());
        let mut client = server.client(TIME_LIMIT);
        let listed = client.describe().unwrap();
        let delivery = client.set_up(listed[0].stream.as_ref().unwrap(), 6000);
        let delivery = delivery.unwrap();
        // Never anybody else than who answered, whatever it says.
        assert!(delivery.host == client.host());
        assert_eq!(
            delivery.rtcp.map(|rtcp| (rtcp.ip(), rtcp.port())),
            rtcp.map(|port| (client.host(), port))
        );
        drop(client);
        server.requests();
    });
}
