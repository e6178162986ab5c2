//! Wireshark's analyser reads what we send and what we answer: no malformed packet, no complaint,
//! nothing missing.
//!
//! Captured as root on the loopback interface, where a datagram that is to be cut up passes uncut:
//! these streams leave packet by packet. Packets that are sent again are in `retransmissions.rs`.

use std::thread;

use crate::media_players::tools::{fixture_of_root, run, start};
use crate::support::streams::{self, MediaFixture, Sample, document};
use crate::support::{Running, eventually};

pub(crate) const NEEDED: [(&str, &str); 2] = [("tshark", "--version"), ("dumpcap", "--version")];

/// A stream that is captured.
struct Carried {
    sample: Sample,
    /// How its payload is read, where RFC 3551 does not say it.
    payload: &'static str,
    options: &'static [&'static str],
}

const STREAMS: [Carried; 8] = [
    Carried {
        sample: streams::TS,
        payload: "",
        options: &["--method", "sendmmsg"],
    },
    Carried {
        sample: streams::L16,
        payload: "",
        options: &["--method", "sendto"],
    },
    // Long enough for the receiver to report (RFC 3550, section 6.2: within 3.1 s).
    Carried {
        sample: streams::PCMU,
        payload: "",
        options: &["--method", "sendfile-gso", "--burst", "1", "--loop", "5"],
    },
    Carried {
        sample: streams::PCMA,
        payload: "",
        options: &["--method", "gso", "--burst", "1"],
    },
    Carried {
        sample: streams::MPEG_AUDIO,
        payload: "",
        options: &["--method", "sendmmsg"],
    },
    Carried {
        sample: streams::OPUS,
        payload: "-d rtp.pt==97,opus",
        options: &["--method", "sendmmsg"],
    },
    Carried {
        sample: streams::H264_MOVIE,
        payload: "-d rtp.pt==96,h264",
        options: &["--method", "gso", "--burst", "1"],
    },
    Carried {
        sample: streams::H265_MOVIE,
        payload: "-d rtp.pt==96,h265",
        options: &["--method", "sendmmsg"],
    },
];

/// What was captured of a stream.
pub(crate) struct Capture {
    /// The file, and how its ports are read.
    read: String,
    pub(crate) packets: u64,
}

/// What is captured of one port and the next, and read as RTP and RTCP.
pub(crate) struct Listening {
    dumpcap: Running,
    read: String,
}

impl Listening {
    pub(crate) fn to(fixture: &MediaFixture, port: u16) -> Self {
        let (file, rtcp) = (fixture.file(&format!("{port}.pcap")), port + 1);
        // By number, so that the filter has no blanks of its own.
        let filter = format!("-f udp[2:2]=={port}||udp[2:2]=={rtcp}||udp[0:2]=={rtcp}");
        let dumpcap = start("dumpcap", &format!("-q -i lo {filter} -w {file}"));
        let captured = || std::fs::metadata(&file).map_or(0, |found| found.len());
        eventually("dumpcap captures (it needs root)", || captured() > 0);
        let read = format!("-r {file} -d udp.port=={port},rtp -d udp.port=={rtcp},rtcp");
        Self { dumpcap, read }
    }

    /// Ends when our goodbye is captured, behind `packets` of a stream.
    pub(crate) fn end(self, packets: u64) -> Capture {
        let read = self.read;
        // What the kernel hands over comes in batches; our goodbye is the last that is sure to
        // come.
        eventually("the goodbye is captured", || {
            let mut listed = start(
                "tshark",
                &format!("{read} -Y rtcp.pt==203 -T fields -e frame.number"),
            );
            let _ = listed.child.wait();
            !listed.end().output.is_empty()
        });
        self.dumpcap.interrupt();
        self.dumpcap.end();
        Capture { read, packets }
    }
}

fn capture(fixture: &MediaFixture, carried: &Carried) -> Capture {
    let input = fixture.make(&carried.sample);
    let port = streams::port();
    let options = [carried.sample.options, carried.options].concat();
    let sdp = fixture.describe(&input, &options, port);
    let listening = Listening::to(fixture, port);
    let receiver = fixture.receiver(&sdp, port, &fixture.file(&format!("{port}.out")));
    let sent = fixture.send_with(&input, port, &options);
    let received = document(&receiver.end());
    assert_eq!(sent["packets"], received["packets"], "{received}");
    listening.end(sent["packets"].as_u64().expect("a number"))
}

/// The fields of every packet that passes `filter`.
pub(crate) fn fields(
    capture: &Capture,
    how: &str,
    filter: &str,
    names: &[&str],
) -> Vec<Vec<String>> {
    let names: Vec<String> = names.iter().map(|name| format!("-e {name}")).collect();
    let arguments = format!(
        "{} {how} -Y {filter} -T fields {}",
        capture.read,
        names.join(" ")
    );
    let text = run("tshark", &arguments).text();
    let rows = text.lines();
    rows.map(|row| row.split('\t').map(str::to_owned).collect())
        .collect()
}

/// What the analyser says of every packet to or from a port that traceroute uses.
const TRACEROUTE: &str = "Possible traceroute";

/// No packet passes `filter`.
pub(crate) fn finds_nothing(capture: &Capture, how: &str, filter: &str, name: &str) {
    let what = ["frame.number", "frame.protocols", "_ws.expert.message"];
    let mut found = fields(capture, how, filter, &what);
    // By nothing but its port, which the kernel chose.
    found.retain(|fields| !fields.iter().any(|field| field.starts_with(TRACEROUTE)));
    assert!(found.is_empty(), "{name}: {found:?}");
}

fn is_sound(fixture: &MediaFixture, carried: &Carried) {
    let name = carried.sample.name;
    let capture = capture(fixture, carried);
    // Of its own dissectors for pictures the analyser complains that they are not complete; what
    // they cannot read counts all the same.
    finds_nothing(&capture, "", "_ws.malformed||_ws.expert", name);
    finds_nothing(&capture, carried.payload, "_ws.malformed", name);

    let names = ["rtp.version", "rtp.seq", "rtp.ssrc", "rtp.timestamp"];
    let rtp = fields(&capture, "", "rtp", &names);
    assert_eq!(rtp.len() as u64, capture.packets, "{name}");
    for pair in rtp.windows(2) {
        let sequence = |row: &[String]| row[1].parse::<u16>().expect("a number");
        assert_eq!(
            sequence(&pair[1]),
            sequence(&pair[0]).wrapping_add(1),
            "{name}"
        );
        assert_eq!((&pair[0][0][..], &pair[0][2]), ("2", &pair[1][2]), "{name}");
    }
    if !carried.payload.is_empty() {
        let kind = carried.payload.rsplit(',').next().expect("a name");
        let read = fields(&capture, carried.payload, kind, &["frame.number"]);
        assert!(!read.is_empty(), "{name} was not read as {kind}");
    }
    reports_are_sound(&capture, carried, &rtp[0][2]);
}

/// We begin with a report, end with a goodbye, and both name the stream.
fn reports_are_sound(capture: &Capture, carried: &Carried, source: &str) {
    let name = carried.sample.name;
    let names = [
        "rtcp.pt",
        "rtcp.senderssrc",
        "rtcp.sdes.text",
        "rtcp.sender.packetcount",
    ];
    let sent = fields(capture, "", "rtcp.pt==200", &names);
    let [first, .., last] = &sent[..] else {
        panic!("{name}: {sent:?}");
    };
    assert_eq!(
        (&first[0][..], &last[0][..]),
        ("200,202", "200,202,203"),
        "{name}"
    );
    for report in &sent {
        assert!(
            report[1].starts_with(source) && !report[2].is_empty(),
            "{report:?}"
        );
    }
    assert_eq!(last[3], capture.packets.to_string(), "{name}");
    if carried.options.contains(&"--loop") {
        let heard = fields(
            capture,
            "",
            "rtcp.pt==201",
            &["rtcp.pt", "rtcp.ssrc.identifier"],
        );
        assert!(!heard.is_empty(), "{name}: the receiver reports");
        assert!(heard.iter().any(|row| row[1].contains(source)), "{heard:?}");
    }
}

#[test]
fn analyser_finds_nothing_wrong() {
    let what = "tshark reads what we send and answer";
    let Some(fixture) = fixture_of_root(&NEEDED, "capturing", what) else {
        return;
    };
    thread::scope(|scope| {
        for carried in &STREAMS {
            let fixture = &fixture;
            scope.spawn(move || is_sound(fixture, carried));
        }
    });
}
