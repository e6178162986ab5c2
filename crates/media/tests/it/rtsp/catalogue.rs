//! What the tests play, and who is told to play it.

use std::collections::BTreeMap;

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::rtsp::{Catalogue, Group, Presentation, Stream};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
pub(crate) const SERVER_PORT: u16 = 6970;

/// Presentations by path.
#[derive(Clone)]
pub(crate) struct TestCatalogue(pub(crate) BTreeMap<String, Presentation>);

impl Catalogue for TestCatalogue {
    fn describe(&self, path: &str) -> Option<Presentation> {
        self.0.get(path).cloned()
    }
}

impl TestCatalogue {
    /// `voice` (one stream of ten seconds), `film` (two streams), `live` (no pause, no seeking, on
    /// a group, too).
    pub(crate) fn new() -> Self {
        let stored = |streams| Presentation {
            streams,
            duration_ns: Some(10 * SECOND_NS),
            can_seek: true,
            can_pause: true,
        };
        let voice = || stream(Encoding::Pcmu, 0, 8000, 1);
        let mut live = voice();
        live.ssrc = Some(0x1234_5678);
        live.group = Some(Group {
            address: "239.1.2.3:5004".parse().unwrap(),
            ttl: 3,
        });
        let live = Presentation {
            streams: vec![live],
            duration_ns: None,
            can_seek: false,
            can_pause: false,
        };
        let film = stored(vec![stream(Encoding::H264, 96, 90_000, 1), voice()]);
        let presentations = [
            ("voice", stored(vec![voice()])),
            ("film", film),
            ("live", live),
        ];
        Self(
            presentations
                .map(|(path, what)| (path.to_owned(), what))
                .into(),
        )
    }
}

pub(crate) fn stream(encoding: Encoding, payload_type: u8, clock_hz: u32, channels: u8) -> Stream {
    Stream {
        format: StreamFormat {
            encoding,
            payload_type,
            clock_hz,
            channels,
            parameters: String::new(),
        },
        server_port: SERVER_PORT,
        ssrc: None,
        takes_nack: false,
        retransmission: None,
        group: None,
    }
}
