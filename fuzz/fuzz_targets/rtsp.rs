//! RTSP clients that send anything: no panic, bounded buffers, and the owner of the media is told
//! nothing that does not follow.
//!
//! `cargo +nightly fuzz run rtsp`. Bytes from 0x80 on stand for words of the protocol, so that
//! requests are found without a dictionary.

#![no_main]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::rtsp::{
    Action, Catalogue, ConnectionId, Group, Limits, Presentation, Service, Started, Stream,
};
use hythe_rtp::sdp::Retransmission;

/// Begins what arrives later, by another way.
const LATER: u8 = 0xff;
const WORDS: &[&str] = &[
    // Whole requests, because nothing behind a session is found without one.
    "SETUP rtsp://h/a/stream=0 RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP;unicast;client_port=5000-5001\r\n\r\n",
    "SETUP rtsp://h/a/stream=1 RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP;unicast;client_port=5002-5003\r\nSession: SESSION\r\n\r\n",
    "SETUP rtsp://h/b RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP;multicast\r\n\r\n",
    "PLAY rtsp://h/a RTSP/1.0\r\nCSeq: 1\r\nSession: SESSION\r\n\r\n",
    "PLAY rtsp://h/a/stream=1 RTSP/1.0\r\nCSeq: 1\r\nSession: SESSION\r\nRange: npt=2-\r\n\r\n",
    "PAUSE rtsp://h/a RTSP/1.0\r\nCSeq: 1\r\nSession: SESSION\r\n\r\n",
    "TEARDOWN rtsp://h/a/stream=0 RTSP/1.0\r\nCSeq: 1\r\nSession: SESSION\r\n\r\n",
    "Session: SESSION\r\n",
    // And their parts.
    "SETUP ",
    "PLAY ",
    "PAUSE ",
    "TEARDOWN ",
    "DESCRIBE ",
    "OPTIONS ",
    "GET_PARAMETER ",
    "rtsp://h/a",
    "rtsp://h/b",
    "/stream=0",
    "/stream=1",
    " RTSP/1.0\r\nCSeq: 1\r\n",
    "Session: ",
    "Transport: ",
    "RTP/AVPF",
    "RTP/AVP",
    ";unicast",
    ";multicast",
    ";client_port=5000-5001",
    ";destination=",
    "192.0.2.1",
    ";mode=\"",
    "Range: npt=",
    "Range: ",
    "Accept: ",
    "Content-Length: ",
    "Require: ",
    "\r\n",
    "\r\n\r\n",
    "application/sdp",
    ";q=0",
    "%2e%2e",
    "/TCP;interleaved=0-1",
];

struct Two;

impl Catalogue for Two {
    fn describe(&self, path: &str) -> Option<Presentation> {
        assert!(!path.split('/').any(|part| part == ".."));
        assert!(!path.chars().any(char::is_control));
        let is_live = match path {
            "a" => false,
            "b" => true,
            _ => return None,
        };
        let stream = || Stream {
            format: StreamFormat {
                encoding: Encoding::Pcmu,
                payload_type: 0,
                clock_hz: 8000,
                channels: 1,
                parameters: String::new(),
            },
            server_port: 6000,
            ssrc: is_live.then_some(1),
            takes_nack: !is_live,
            retransmission: (!is_live).then_some(Retransmission {
                payload_type: 98,
                time_ms: Some(200),
            }),
            group: is_live.then(|| Group {
                address: SocketAddr::from(([239, 0, 0, 1], 5004)),
                ttl: 1,
            }),
        };
        Some(Presentation {
            streams: if is_live {
                vec![stream()]
            } else {
                vec![stream(), stream()]
            },
            duration_ns: (!is_live).then_some(10_000_000_000),
            can_seek: !is_live,
            can_pause: !is_live,
        })
    }
}

/// What the owner plays: destinations by session and stream.
#[derive(Default)]
struct Ledger(BTreeMap<(u64, usize), bool>);

impl Ledger {
    fn take(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Start(start) => {
                    let ip = start.destination.ip();
                    assert!(ip.is_multicast() || ip.to_string().starts_with("192.0.2."));
                    assert_eq!(start.destination.port() % 2, 0);
                    self.0.insert((start.session.0, start.stream), true);
                }
                Action::Pause { session, stream } => {
                    assert_eq!(self.0.insert((session.0, *stream), false), Some(true));
                }
                Action::Stop { session, stream } => {
                    assert!(self.0.remove(&(session.0, *stream)).is_some());
                }
            }
        }
    }
}

/// Writes words out; `SESSION` in them stands for the last session that a client was told.
fn spell(bytes: &[u8], session: &str) -> Vec<u8> {
    let mut text = Vec::new();
    for byte in bytes {
        let word = byte
            .checked_sub(0x80)
            .and_then(|index| WORDS.get(usize::from(index)));
        match word {
            Some(word) => text.extend_from_slice(word.replace("SESSION", session).as_bytes()),
            None => text.push(*byte),
        }
    }
    text
}

/// Hands `bytes` over, answers what is whole, and returns the session that an answer named.
fn send(
    service: &mut Service,
    id: ConnectionId,
    bytes: &[u8],
    now_ns: u64,
    ledger: &mut Ledger,
) -> Option<String> {
    let mut session = None;
    let bytes_max = service.free_capacity(id).min(bytes.len());
    service.receive(id, &bytes[..bytes_max], now_ns);
    while let Some(outcome) = service.next(id, now_ns, &Two) {
        let started = Started {
            sequence: 1,
            timestamp: 2,
            from_ns: Some(0),
        };
        // Now and then the owner cannot.
        let starts = outcome
            .actions
            .iter()
            .filter(|action| matches!(action, Action::Start(_)))
            .count();
        let fails = now_ns % 7 == 3;
        let results: Vec<_> = (0..starts)
            .map(|index| {
                if fails && index + 1 == starts {
                    Err("no".to_owned())
                } else {
                    Ok(started)
                }
            })
            .collect();
        let mut results_left = results.iter();
        let done: Vec<Action> = outcome
            .actions
            .iter()
            .filter(|action| {
                !matches!(action, Action::Start(_))
                    || results_left.next().is_some_and(Result::is_ok)
            })
            .cloned()
            .collect();
        ledger.take(&done);
        let reply = service.reply(outcome, &results);
        ledger.take(&reply.actions);
        let text = String::from_utf8(reply.bytes).expect("answers are text");
        assert!(text.starts_with("RTSP/1.0 ") && text.contains("\r\n\r\n"));
        let named = text.lines().find_map(|line| line.strip_prefix("Session: "));
        session = named
            .map(|id| id.split(';').next().unwrap_or_default().to_owned())
            .or(session);
    }
    session
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let limits = Limits {
        message_bytes: 1024,
        headers: 16,
        sessions: 4,
        sessions_per_address: 3,
        ..Limits::default()
    };
    let mut number = 0_u64;
    let mut service = Service::new(
        limits,
        Box::new(move || {
            number += 1;
            Some(number)
        }),
    );
    let (mut ledger, mut session, mut now_ns) = (Ledger::default(), String::new(), 0);
    let here = SocketAddr::from(([192, 0, 2, 9], 554));
    let mut id = None;
    for part in bytes.split(|byte| *byte == LATER) {
        let connection = match id.filter(|id| service.free_capacity(*id) > 0) {
            Some(id) => id,
            None => {
                let peer = SocketAddr::from(([192, 0, 2, 1 + (now_ns % 2) as u8], 4000));
                service
                    .open(peer, here, now_ns)
                    .expect("there is free capacity for one")
            }
        };
        let text = spell(part, &session);
        session = send(&mut service, connection, &text, now_ns, &mut ledger).unwrap_or(session);
        now_ns += u64::from(part.first().copied().unwrap_or(1)) * 100_000_001;
        let expired = service.tick(now_ns);
        ledger.take(&expired.actions);
        if service.free_capacity(connection) == 0 {
            service.close(connection);
        }
        id = Some(connection);
    }
    ledger.take(&service.shut_down());
    assert!(ledger.0.is_empty(), "streams that nobody stops");
});
