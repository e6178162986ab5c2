//! `hythe media recv` and servers of RTSP that go away without a goodbye, or mean harm: it ends,
//! and says why.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::support::{BOUND, Root};

const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\n";

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rtsp://{}/tone", listener.local_addr().unwrap());
    (listener, url)
}

/// Hears a request, and answers it with 200.
fn answer(stream: &mut TcpStream, headers: &str, body: &str) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
    let length = body.len();
    let answer = format!("RTSP/1.0 200 OK\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
    stream.write_all(answer.as_bytes()).unwrap();
    String::from_utf8(request).unwrap()
}

/// A packet of 20 ms of telephone sound.
fn packet(payload_type: u8, number: u16) -> Vec<u8> {
    let mut packet = vec![0x80, payload_type];
    packet.extend(number.to_be_bytes());
    packet.extend((u32::from(number) * 160).to_be_bytes());
    packet.extend([1, 2, 3, 4]);
    packet.resize(12 + 160, number as u8);
    packet
}

/// Serves `packets` packets to one client, then closes the connection.
fn serve(listener: TcpListener, packets: u16) {
    play(listener, packets);
}

/// Serves `packets` packets, and returns the open connection, the RTP socket and the client's port.
fn play(listener: TcpListener, packets: u16) -> (TcpStream, UdpSocket, u16) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    let rtp = UdpSocket::bind("127.0.0.1:0").unwrap();
    answer(&mut stream, "", SDP);
    let transport = "Session: abc;timeout=1\r\nTransport: RTP/AVP;unicast\r\n";
    let request = answer(&mut stream, transport, "");
    let ports = request.split("client_port=").nth(1).unwrap();
    let port: u16 = ports.split('-').next().unwrap().parse().unwrap();
    answer(&mut stream, "", "");
    for number in 0..packets {
        rtp.send_to(&packet(0, number), ("127.0.0.1", port))
            .unwrap();
    }
    (stream, rtp, port)
}

#[test]
fn server_that_changes_what_it_sends_is_named() {
    const OVER: &[u8] = b"TEARDOWN rtsp://h/tone RTSP/1.0\r\nCSeq: 1\r\nSession: abc\r\n\
        Terminate-Reason: Server-Admin;user-msg=\"it carries something else\"\r\n\r\n";
    let tear_down = |listener| {
        let (mut stream, ..) = play(listener, 50);
        stream.write_all(OVER).unwrap();
        let mut reply = [0; 15];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"RTSP/1.0 200 OK");
        let _ = stream.read_to_end(&mut Vec::new());
    };
    let other_type = |listener| {
        let (mut stream, rtp, port) = play(listener, 50);
        // A packet every 20 ms, until the client ends the session.
        stream
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        for number in 50.. {
            // Nobody may listen any more.
            let _ = rtp.send_to(&packet(8, number), ("127.0.0.1", port));
            let mut request = [0; 1024];
            let came = stream.read(&mut request);
            match came {
                Ok(0) => return,
                Ok(_) if request.starts_with(b"TEARDOWN") => return,
                Ok(_) => stream.write_all(b"RTSP/1.0 200 OK\r\n\r\n").unwrap(),
                Err(_) => {} // nothing came within 20 ms
            }
        }
    };
    let cases: [(&(dyn Fn(TcpListener) + Sync), _, _); 2] = [
        (&tear_down, "teardown", "it carries something else"),
        (
            &other_type,
            "another payload type",
            "changed to payload type 8",
        ),
    ];
    let root = Root::new();
    for (serve, expected, why) in cases {
        let (listener, url) = listen();
        let out = root.path().join("heard.wav").display().to_string();
        let ended = thread::scope(|scope| {
            scope.spawn(|| serve(listener));
            root.run(&["media", "recv", &url, "--out", &out, "--json"])
        });
        assert_eq!(ended.code, Some(1), "{}", ended.errors);
        assert!(ended.errors.contains(why), "{}", ended.errors);
        let document: serde_json::Value = serde_json::from_slice(&ended.output).unwrap();
        assert_eq!(
            (&document["ended"], &document["packets"]),
            (&expected.into(), &50.into())
        );
        assert!(std::fs::metadata(&out).unwrap().len() >= 50 * 160);
    }
}

#[test]
fn stream_ends_whose_server_is_gone() {
    let root = Root::new();
    let (listener, url) = listen();
    let serving = thread::spawn(move || serve(listener, 50));
    let out = root.path().join("heard.wav").display().to_string();
    let ended = root.run(&["media", "recv", &url, "--out", &out, "--json"]);
    serving.join().unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let document = support::streams::document(&ended);
    assert_eq!(document["ended"], "lost");
    assert_eq!(
        (&document["packets"], &document["server"]["lost"]),
        (&50.into(), &true.into())
    );
    assert!(document["server"]["failed"].as_u64() >= Some(1));
    let told = format!("{url}: the session is lost; the last word was: GET_PARAMETER: ");
    assert!(ended.errors.contains(&told), "{}", ended.errors);
    assert!(std::fs::metadata(&out).unwrap().len() >= 50 * 160);
}

#[test]
fn stream_fails_that_never_came_from_a_server_that_is_gone() {
    let root = Root::new();
    let (listener, url) = listen();
    let serving = thread::spawn(move || serve(listener, 0));
    let out = root.path().join("heard").display().to_string();
    let ended = root.run(&["media", "recv", &url, "--stream", "all", "--out", &out]);
    serving.join().unwrap();
    ended.failed(
        1,
        &[
            &url,
            "before its session was lost",
            "is the server still there?",
        ],
    );
}

#[test]
fn what_a_server_says_is_repeated_without_what_a_terminal_obeys() {
    let root = Root::new();
    let (listener, url) = listen();
    let body = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=\u{1b}[2J 0 RTP/AVP 96\r\na=rtpmap:96 {}/8000\r\n",
        "x".repeat(50_000)
    );
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        answer(&mut stream, "", &body);
    });
    let out = root.path().join("heard.wav").display().to_string();
    let ended = root.run(&["media", "recv", &url, "--out", &out]);
    serving.join().unwrap();
    ended.failed(
        1,
        &["stream 1: \\u{1b}[2J, not understood: its encoding xxx"],
    );
    assert!(ended.errors.len() < 1000 && !ended.errors.contains('\u{1b}'));
}
