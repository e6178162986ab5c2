//! Wireshark's analyser reads requests for lost packets (RFC 4585) and what is sent again for them
//! (RFC 4588), and each is what it claims to be.
//!
//! Captured between the sender and a way that loses packets: everything that is sent is there.

use std::collections::HashMap;
use std::time::Duration;

use crate::media_players::tools::fixture_of_root;
use crate::media_players::wire::{Capture, Listening, NEEDED, fields, finds_nothing};
use crate::relay::Relay;
use crate::support::streams::{self, IDLE, MediaFixture, TS, document};
use crate::way::Way;

/// One packet of the transport stream in each, so that there are many; by a method whose packets
/// pass the loopback interface uncut.
const OPTIONS: [&str; 6] = [
    "--repair-window",
    "500",
    "--packet-bytes",
    "188",
    "--method",
    "sendmmsg",
];

fn capture(fixture: &MediaFixture) -> Capture {
    let input = fixture.make(&TS);
    let port = streams::port();
    let sdp = fixture.describe(&input, &OPTIONS, port);
    let out = fixture.file(&format!("{port}.out"));
    let arguments = ["media", "recv", &sdp, "--out", &out, "--json"];
    let receiver = fixture.root.start(&[&arguments, &IDLE[..]].concat());
    streams::wait_until_listening(port);
    let way = Way {
        loss: 0.05,
        delay: Duration::from_millis(5),
        seed: 11,
    };
    let relay = Relay::start(([127, 0, 0, 1], port).into(), way);
    let listening = Listening::to(fixture, relay.address().port());
    let sent = fixture.send_with(&input, relay.address().port(), &OPTIONS);
    let received = document(&receiver.end());
    assert!(
        received["recovered_by_resending"].as_u64() > Some(5),
        "{received}"
    );
    listening.end(sent["packets"].as_u64().expect("a number"))
}

fn number(text: &str) -> u16 {
    text.parse().expect("a number of 16 bits")
}

#[test]
fn analyser_reads_requests_and_what_is_sent_again() {
    let what = "tshark reads requests and retransmissions";
    let Some(fixture) = fixture_of_root(&NEEDED, "capturing", what) else {
        return;
    };
    let capture = capture(&fixture);
    finds_nothing(&capture, "", "_ws.malformed||_ws.expert", what);
    let names = [
        "rtp.seq",
        "rtp.ssrc",
        "rtp.timestamp",
        "rtp.marker",
        "rtp.payload",
    ];
    // Transport streams are read further than the payload, unless their type is told to mean
    // nothing.
    let whole = "--disable-protocol mp2t";
    let media = fields(&capture, whole, "rtp.p_type==33", &names);
    assert_eq!(media.len() as u64, capture.packets);
    let by_number: HashMap<u16, &Vec<String>> =
        media.iter().map(|row| (number(&row[0]), row)).collect();
    let again = fields(&capture, whole, "rtp.p_type==98", &names);
    assert!(again.len() > 5, "{again:?}");
    for pair in again.windows(2) {
        assert_eq!(number(&pair[1][0]), number(&pair[0][0]).wrapping_add(1));
    }
    for row in &again {
        // The original's number in front of its payload (RFC 4588, section 4).
        let (original, payload) = row[4].split_at(4);
        let original = u16::from_str_radix(original, 16).expect("two bytes");
        let first = by_number[&original];
        assert_eq!(
            (&row[2], &row[3], payload),
            (&first[2], &first[3], &first[4][..])
        );
        assert_ne!(row[1], first[1], "a source of its own");
    }
    let names = ["rtcp.pt", "rtcp.ssrc.identifier", "rtcp.rtpfb.nack_pid"];
    let requests = fields(&capture, "", "rtcp.rtpfb.fmt==1", &names);
    assert!(!requests.is_empty());
    for request in &requests {
        assert_eq!(request[0], "201,202,205", "a report, a name, a request");
        assert!(request[1].contains(&media[0][1]), "{request:?}");
        for asked in request[2].split(',') {
            assert!(by_number.contains_key(&number(asked)), "{request:?}");
        }
    }
}
