//! What players really send, byte for byte but for names and numbers.

use hythe_rtp::rtsp::{Action, Limits};
use hythe_rtp::sdp::Retransmission;

use super::fixture::{Answer, ServiceFixture};

/// Asks as a player does; `SESSION` stands for the id of the last SETUP's answer.
fn converse(messages: &[&str]) -> (ServiceFixture, Vec<Answer>) {
    let mut fixture = ServiceFixture::new(Limits::default());
    let mut answers: Vec<Answer> = Vec::new();
    for message in messages {
        let session = answers.iter().rev().find_map(|answer| {
            let header = answer.header("Session")?;
            // live555 reads up to a semicolon, and no spaces.
            assert!(!header.contains(' '), "{header}");
            header.split(';').next()
        });
        let message = message.replace("SESSION", session.unwrap_or_default());
        let mut got = fixture.send(message.as_bytes());
        assert_eq!(got.len(), 1, "{message}");
        let answer = got.pop().unwrap();
        assert_eq!(answer.status, 200, "{message}\n{}", answer.text);
        answers.push(answer);
    }
    (fixture, answers)
}

/// One start, one stop, and nothing left.
fn assert_played(mut fixture: ServiceFixture, answers: &[Answer]) {
    let actions: Vec<&Action> = answers.iter().flat_map(|answer| &answer.actions).collect();
    assert!(
        matches!(actions.first(), Some(Action::Start(_))),
        "{actions:?}"
    );
    assert!(
        matches!(actions.last(), Some(Action::Stop { .. })),
        "{actions:?}"
    );
    assert_eq!(fixture.service.shut_down(), []);
    assert_eq!(fixture.counters().sessions, 1);
}

#[test]
fn ffmpeg() {
    let (fixture, answers) = converse(&[
        "OPTIONS rtsp://127.0.0.1:8554/voice RTSP/1.0\r\nCSeq: 1\r\nUser-Agent: Lavf59.27.100\r\n\r\n",
        "DESCRIBE rtsp://127.0.0.1:8554/voice RTSP/1.0\r\nAccept: application/sdp\r\nCSeq: 2\r\n\
         User-Agent: Lavf59.27.100\r\n\r\n",
        "SETUP rtsp://127.0.0.1:8554/voice/stream=0 RTSP/1.0\r\n\
         Transport: RTP/AVP/UDP;unicast;client_port=26704-26705\r\nCSeq: 3\r\n\
         User-Agent: Lavf59.27.100\r\n\r\n",
        "PLAY rtsp://127.0.0.1:8554/voice/ RTSP/1.0\r\nRange: npt=0.000-\r\nCSeq: 4\r\n\
         User-Agent: Lavf59.27.100\r\nSession: SESSION\r\n\r\n",
        "GET_PARAMETER rtsp://127.0.0.1:8554/voice/ RTSP/1.0\r\nCSeq: 5\r\n\
         User-Agent: Lavf59.27.100\r\nSession: SESSION\r\n\r\n",
        "PAUSE rtsp://127.0.0.1:8554/voice/ RTSP/1.0\r\nCSeq: 6\r\nUser-Agent: Lavf59.27.100\r\n\
         Session: SESSION\r\n\r\n",
        "PLAY rtsp://127.0.0.1:8554/voice/ RTSP/1.0\r\nRange: npt=3.000-\r\nCSeq: 7\r\n\
         User-Agent: Lavf59.27.100\r\nSession: SESSION\r\n\r\n",
        "TEARDOWN rtsp://127.0.0.1:8554/voice/ RTSP/1.0\r\nCSeq: 8\r\nUser-Agent: Lavf59.27.100\r\n\
         Session: SESSION\r\n\r\n",
    ]);
    let transport = answers[2].header("Transport").unwrap();
    assert!(transport.starts_with("RTP/AVP/UDP;unicast;client_port=26704-26705;server_port="));
    assert_played(fixture, &answers);
}

#[test]
fn gstreamer() {
    let (fixture, answers) = converse(&[
        "OPTIONS rtsp://127.0.0.1:8554/film RTSP/1.0\r\nCSeq: 1\r\nUser-Agent: GStreamer/1.22.0\r\n\r\n",
        "DESCRIBE rtsp://127.0.0.1:8554/film RTSP/1.0\r\nAccept: application/sdp\r\nCSeq: 2\r\n\
         User-Agent: GStreamer/1.22.0\r\n\r\n",
        "SETUP rtsp://127.0.0.1:8554/film/stream=0 RTSP/1.0\r\n\
         Transport: RTP/AVP;unicast;client_port=46338-46339,RTP/AVP;multicast,\
         RTP/AVP/TCP;unicast;interleaved=0-1\r\nAccept-Ranges: npt, smpte, clock\r\nCSeq: 3\r\n\
         User-Agent: GStreamer/1.22.0\r\n\r\n",
        "SETUP rtsp://127.0.0.1:8554/film/stream=1 RTSP/1.0\r\n\
         Transport: RTP/AVP;unicast;client_port=51216-51217\r\nCSeq: 4\r\n\
         User-Agent: GStreamer/1.22.0\r\nSession: SESSION\r\n\r\n",
        "PLAY rtsp://127.0.0.1:8554/film/ RTSP/1.0\r\nRange: npt=0-\r\nCSeq: 5\r\n\
         User-Agent: GStreamer/1.22.0\r\nSession: SESSION\r\n\r\n",
        "GET_PARAMETER rtsp://127.0.0.1:8554/film/ RTSP/1.0\r\nCSeq: 6\r\n\
         User-Agent: GStreamer/1.22.0\r\nSession: SESSION\r\nContent-Length: 0\r\n\r\n",
        "TEARDOWN rtsp://127.0.0.1:8554/film/ RTSP/1.0\r\nCSeq: 7\r\nUser-Agent: GStreamer/1.22.0\r\n\
         Session: SESSION\r\n\r\n",
    ]);
    let info = answers[4].header("RTP-Info").unwrap();
    // It looks its streams up by these.
    assert!(
        info.contains("url=rtsp://127.0.0.1:8554/film/stream=1;"),
        "{info}"
    );
    assert_eq!(answers[4].actions.len(), 2);
    assert_played(fixture, &answers);
}

#[test]
fn vlc() {
    const AGENT: &str = "User-Agent: LibVLC/3.0.18 (LIVE555 Streaming Media v2016.11.28)";
    let describe = |number| {
        format!(
            "DESCRIBE rtsp://127.0.0.1:8554/voice RTSP/1.0\r\nCSeq: {number}\r\n{AGENT}\r\n\
             Accept: application/sdp\r\n\r\n"
        )
    };
    let after_set_up = |method, number, headers| {
        format!(
            "{method} rtsp://127.0.0.1:8554/voice/ RTSP/1.0\r\nCSeq: {number}\r\n{AGENT}\r\n\
             Session: SESSION\r\n{headers}\r\n"
        )
    };
    let options =
        format!("OPTIONS rtsp://127.0.0.1:8554/voice RTSP/1.0\r\nCSeq: 2\r\n{AGENT}\r\n\r\n");
    let set_up = format!(
        "SETUP rtsp://127.0.0.1:8554/voice/stream=0 RTSP/1.0\r\nCSeq: 5\r\n{AGENT}\r\n\
         Transport: RTP/AVP;unicast;client_port=49680-49681\r\n\r\n"
    );
    let messages = [
        options,
        describe(3),
        describe(4),
        set_up,
        after_set_up("PLAY", 6, "Range: npt=0.000-\r\n"),
        after_set_up("GET_PARAMETER", 7, ""),
        after_set_up("TEARDOWN", 8, ""),
    ];
    let messages: Vec<&str> = messages.iter().map(|message| &message[..]).collect();
    let (fixture, answers) = converse(&messages);
    let body = |answer: &Answer| answer.text.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(&answers[1]), body(&answers[2]));
    assert_played(fixture, &answers);
}

/// live555 takes no other profile than RTP/AVP from a description; everybody else is offered the
/// one with feedback.
#[test]
fn vlc_is_offered_what_it_takes() {
    let mut fixture = ServiceFixture::new(Limits::default());
    let film = fixture.catalogue.0.get_mut("film").unwrap();
    for stream in &mut film.streams {
        stream.takes_nack = true;
        stream.retransmission = Some(Retransmission {
            payload_type: 98,
            time_ms: None,
        });
    }
    let mut described_to = |agent: &str| {
        let request = format!(
            "DESCRIBE rtsp://127.0.0.1:8554/film RTSP/1.0\r\nCSeq: 1\r\nUser-Agent: {agent}\r\n\r\n"
        );
        fixture.send(request.as_bytes()).pop().unwrap().text
    };
    let text = described_to("LibVLC/3.0.24 (LIVE555 Streaming Media v2026.10.17)");
    assert!(text.contains("m=video 0 RTP/AVP 96\r\n"), "{text}");
    assert!(!text.contains("nack") && !text.contains("rtx"), "{text}");
    let text = described_to("GStreamer/1.22.0");
    assert!(text.contains("m=video 0 RTP/AVPF 96 98\r\n"), "{text}");
}
