//! A server that says anything, as seen by the client's side of the talk: no panic, bounded
//! buffers, no word of it in a request that could add a header, no host but its own to send to.
//!
//! Shared by a seeded test and by the fuzz target `rtsp_answers`, which choose the bytes. Bytes
//! from 0x80 on stand for words of the protocol, so that answers are found without a dictionary.

use std::net::SocketAddr;

use hythe_rtp::rtsp::client::{Answer, Delivery, Dialogue, PassedOver};
use hythe_rtp::sdp::{Listed, StreamDescription};

/// Here the next request is sent; what comes before it is what the last one brings.
pub(crate) const NEXT: u8 = 0xff;
const PEER: &str = "192.0.2.1:554";
/// Streams that are set up, at most.
const STREAMS: usize = 3;
/// A message and what comes with its last byte.
const BUFFERED_MAX: usize = (16 << 10) + (1 << 20) + PIECE_MAX;
const PIECE_MAX: usize = 16 << 10;

/// `NUMBER` stands for the number of the last request.
pub(crate) const WORDS: &[&str] = &[
    // Whole answers, because nothing behind a session is found without one.
    "RTSP/1.0 200 OK\r\nCSeq: NUMBER\r\nContent-Base: rtsp://192.0.2.1/film/\r\nContent-Length: 117\r\n\r\n\
     v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\na=control:1\r\nm=video 0 RTP/AVP 33\r\n",
    "RTSP/1.0 200 OK\r\nCSeq: NUMBER\r\nSession: abc;timeout=60\r\n\
     Transport: RTP/AVP;unicast;client_port=6000-6001;server_port=7000-7001;ssrc=0000002A\r\n\r\n",
    "RTSP/1.0 200 OK\r\nCSeq: NUMBER\r\n\r\n",
    "RTSP/1.0 501 Not Implemented\r\nCSeq: NUMBER\r\n\r\n",
    // And their parts.
    "RTSP/1.0 200 OK\r\n",
    "RTSP/1.0 302 Moved\r\nLocation: ",
    "RTSP/1.0 100 Continue\r\n",
    "RTSP/1.0 ",
    "OPTIONS * RTSP/1.0\r\n",
    "$\x00\x00\x04abcd",
    "CSeq: NUMBER\r\n",
    "CSeq: ",
    "Session: abc\r\n",
    "Session: ",
    ";timeout=",
    "Transport: ",
    "RTP/AVP;unicast",
    "RTP/AVPF/UDP;unicast",
    ";client_port=6000-6001",
    ";server_port=",
    ";interleaved=0-1",
    ";destination=239.1.2.3",
    ";source=192.0.2.9",
    ";ssrc=",
    ";multicast",
    "Content-Length: ",
    "Content-Length: 117\r\n",
    "Content-Base: ",
    "Content-Type: application/sdp\r\n",
    "WWW-Authenticate: Digest realm=\"",
    "rtsp://192.0.2.9/",
    "\r\n",
    "\r\n\r\n",
    "v=0\r\n",
    "o=- 1 1 IN IP4 192.0.2.1\r\ns=x\r\n",
    "c=IN IP4 0.0.0.0\r\nt=0 0\r\n",
    "m=audio 0 RTP/AVP 0",
    "m=video 0 RTP/AVPF 96 97\r\na=rtpmap:96 H264/90000\r\na=rtcp-fb:96 nack\r\n",
    "a=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\n",
    "a=control:",
    "a=control:*\r\n",
    "4294967296",
    "65536-0",
    "-1",
];

/// What is asked for in turn.
#[derive(Clone, Copy, Debug)]
enum Step {
    Describe,
    SetUp(usize),
    Play,
    KeepAlive,
    TearDown,
}

/// What came of a run, to be compared with that of the same bytes in other pieces.
#[derive(Debug, Default, PartialEq)]
struct Transcript {
    requests: Vec<Vec<u8>>,
    answers: Vec<Result<Option<Answer>, String>>,
    listed: Vec<Result<Vec<Listed>, String>>,
    deliveries: Vec<Result<Delivery, String>>,
    passed: PassedOver,
}

/// Plays `bytes`, whole and by single bytes: where a network cuts them makes no difference.
pub(crate) fn play(bytes: &[u8]) {
    let whole = talk(bytes, PIECE_MAX);
    let cut = talk(bytes, 1);
    assert_eq!(whole.requests, cut.requests);
    assert_eq!(whole.listed, cut.listed);
    assert_eq!(whole.deliveries, cut.deliveries);
    assert_eq!(whole.answers.len(), cut.answers.len());
    for (whole, cut) in whole.answers.iter().zip(&cut.answers) {
        // What an error shows of the bytes depends on how many there were.
        assert_eq!(whole.as_ref().ok(), cut.as_ref().ok());
    }
    assert_eq!(whole.passed, cut.passed);
}

fn talk(bytes: &[u8], piece: usize) -> Transcript {
    let peer: SocketAddr = PEER.parse().expect("an address");
    let mut dialogue = Dialogue::new("rtsp://192.0.2.1/film", peer);
    let mut transcript = Transcript::default();
    let mut streams: Vec<StreamDescription> = Vec::new();
    let (mut step, mut came) = (Step::Describe, 0);
    let mut waiting: Vec<u8> = Vec::new();
    for (number, part) in (1..).zip(bytes.split(|byte| *byte == NEXT)) {
        let request = request(&mut dialogue, step, &streams);
        check_request(&request, number);
        transcript.requests.push(request);
        let part = spell(part, number);
        came += part.len() as u64;
        waiting.extend(part);
        let mut answer = dialogue.take(&[]);
        let mut taken = 0;
        for piece in waiting.chunks(piece) {
            if !matches!(answer, Ok(None)) {
                break; // the rest has come when the next request is made
            }
            answer = dialogue.take(piece);
            taken += piece.len();
        }
        let (bytes, shown) = dialogue.unfinished();
        assert!(bytes <= BUFFERED_MAX);
        check_shown(&shown);
        waiting.drain(..taken);
        step = match &answer {
            Ok(Some(answer)) => took(&mut dialogue, step, answer, &mut streams, &mut transcript),
            Ok(None) => step,
            Err(reason) => {
                check_shown(reason);
                dialogue.forget(); // a new connection, of which nothing came
                waiting.clear();
                step
            }
        };
        transcript.answers.push(answer);
    }
    transcript.passed = dialogue.passed_over();
    assert!(transcript.passed.bytes <= came);
    transcript
}

fn request(dialogue: &mut Dialogue, step: Step, streams: &[StreamDescription]) -> Vec<u8> {
    match step {
        Step::Describe => dialogue.describe(),
        Step::SetUp(index) => dialogue.set_up(&streams[index], 6000),
        Step::Play => dialogue.play(),
        Step::KeepAlive => dialogue.keep_alive().1,
        Step::TearDown => dialogue.tear_down(),
    }
}

/// What is asked for next.
fn took(
    dialogue: &mut Dialogue,
    step: Step,
    answer: &Answer,
    streams: &mut Vec<StreamDescription>,
    transcript: &mut Transcript,
) -> Step {
    if !answer.is_ok() {
        check_shown(&answer.refusal());
        dialogue.knows_no_parameters();
        return match step {
            Step::KeepAlive => Step::TearDown,
            same => same,
        };
    }
    match step {
        Step::Describe => {
            let listed = dialogue.described(answer);
            match &listed {
                Ok(listed) => {
                    let understood = listed.iter().filter_map(|one| one.stream.clone().ok());
                    streams.extend(understood.take(STREAMS));
                    listed.iter().for_each(|one| check_shown(&one.to_string()));
                }
                Err(reason) => check_shown(reason),
            }
            transcript.listed.push(listed);
            if streams.is_empty() {
                return Step::Describe;
            }
            Step::SetUp(0)
        }
        Step::SetUp(index) => {
            let delivery = dialogue.is_set_up(answer, 6000);
            let is_good = check_delivery(&delivery);
            transcript.deliveries.push(delivery);
            match index + 1 {
                _ if !is_good => step,
                next if next < streams.len() => Step::SetUp(next),
                _ => Step::Play,
            }
        }
        Step::Play => Step::KeepAlive,
        Step::KeepAlive => Step::KeepAlive,
        Step::TearDown => {
            streams.clear();
            Step::Describe
        }
    }
}

fn check_delivery(delivery: &Result<Delivery, String>) -> bool {
    match delivery {
        Ok(delivery) => {
            let peer: SocketAddr = PEER.parse().expect("an address");
            assert_eq!(delivery.host, peer.ip());
            let rtcp = delivery.rtcp;
            assert!(rtcp.is_none_or(|rtcp| rtcp.ip() == peer.ip() && rtcp.port() > 0));
            true
        }
        Err(reason) => {
            check_shown(reason);
            false
        }
    }
}

/// A request is one, of the headers that we write and no others, and of bounded length.
fn check_request(request: &[u8], number: u32) {
    let text = str::from_utf8(request).expect("requests are text");
    assert!(text.len() < 3000, "{} bytes", text.len());
    let lines: Vec<&str> = text.split("\r\n").collect();
    let (first, headers) = lines.split_first().expect("a line");
    assert_eq!(first.split(' ').count(), 3, "{first}");
    assert!(first.ends_with(" RTSP/1.0"), "{first}");
    let [headers @ .., "", ""] = headers else {
        panic!("{text}");
    };
    assert!(headers.contains(&&format!("CSeq: {number}")[..]), "{text}");
    let names = headers.iter().map(|line| line.split(':').next());
    let known = [
        "CSeq",
        "User-Agent",
        "Session",
        "Accept",
        "Transport",
        "Range",
        "Public",
    ];
    assert!(names.flatten().all(|name| known.contains(&name)), "{text}");
    assert!(headers.len() <= 5, "{text}");
    let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    assert!(
        lines.iter().all(|line| line.bytes().all(printable)),
        "{text}"
    );
}

/// What people are shown is short, and moves no cursor.
fn check_shown(text: &str) {
    assert!(
        text.len() < 3000 && !text.contains(char::is_control),
        "{text:?}"
    );
}

/// Writes words out.
fn spell(bytes: &[u8], number: u32) -> Vec<u8> {
    let mut text = Vec::new();
    for byte in bytes {
        let word = byte.checked_sub(0x80);
        match word.and_then(|index| WORDS.get(usize::from(index))) {
            Some(word) => text.extend(word.replace("NUMBER", &number.to_string()).bytes()),
            None => text.push(*byte),
        }
    }
    text
}
