//! `hythe media send` and `recv` over a way that loses packets: what is repaired, what is not and
//! is named, and options that make no sense.
//!
//! Inputs are made by ffmpeg; skipped aloud where there is none, or no shared memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::relay::Relay;
use crate::support::Ended;
use crate::support::streams::{self, L16, MediaFixture, Sample, TS, assert_same, document};
use crate::way::Way;
use serde_json::Value;

/// One way at a time: they disturb each other.
static TURN: Mutex<()> = Mutex::new(());
/// Small packets, so that there are many.
const SMALL: [&str; 4] = ["--packet-bytes", "188", "--loop", "2"];
/// For a sender whose goodbye was lost; a busy machine may take some seconds to start one.
const IDLE: [&str; 2] = ["--idle", "20"];

/// What both ends said, and the file that came of it.
struct Outcome {
    sent: Value,
    received: Ended,
    file: Vec<u8>,
    lost_on_the_way: u64,
}

/// Sends a sample over a way that loses every twentieth packet.
fn cross(fixture: &MediaFixture, sample: &Sample, send: &[&str], receive: &[&str]) -> Outcome {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let input = fixture.make(sample);
    let options = [&SMALL[..], sample.options, send].concat();
    let port = streams::ports(3);
    let sdp = fixture.describe(&input, &options, port);
    let out = fixture.file(&format!("{port}.out"));
    let arguments = ["media", "recv", &sdp, "--out", &out];
    let receiver = fixture
        .root
        .start(&[&arguments, &IDLE[..], receive].concat());
    streams::wait_until_listening(port);
    let way = Way {
        loss: 0.05,
        delay: Duration::from_millis(20),
        seed: 7,
    };
    let relay = Relay::start(([127, 0, 0, 1], port).into(), way);
    let sent = fixture.send_with(&input, relay.address().port(), &options);
    let received = receiver.end();
    Outcome {
        sent,
        received,
        file: fs::read(out).unwrap(),
        lost_on_the_way: relay.end(),
    }
}

fn count(document: &Value, name: &str) -> u64 {
    let count = document[name].as_u64();
    count.unwrap_or_else(|| panic!("no count {name} in {document}"))
}

#[test]
fn what_was_lost_is_sent_again_and_nothing_is_missing() {
    let Some(fixture) = MediaFixture::new("sending without loss") else {
        return;
    };
    let source = fs::read(fixture.make(&TS)).unwrap().repeat(2);
    // A quiet machine needs a delay of 200 ms; on a busy one, where everybody waits for a turn, the
    // way itself takes longer.
    for how in [
        &["--repair-window", "1000"][..],
        &["--resend", "plain", "--keep", "2000"],
    ] {
        let delay = ["--delay", "1000", "--json"];
        let told = how[0] == "--repair-window";
        let outcome = cross(&fixture, &TS, how, if told { &delay[2..] } else { &delay });
        let received = document(&outcome.received);
        assert_eq!(count(&received, "delay_ns"), 1_000_000_000);
        if told {
            assert_same(how[0], &outcome.file, &source);
        } else {
            // Nothing behind the last packets shows that they are missing.
            let least = source.len() - 6 * 188;
            assert!(source.starts_with(&outcome.file) && outcome.file.len() > least);
        }
        let [lost, again] = ["lost", "recovered_by_resending"].map(|name| count(&received, name));
        assert!(outcome.lost_on_the_way > 10, "{}", outcome.lost_on_the_way);
        assert!(lost > 5 && lost == again, "{received}");
        for none in ["missing", "recovered_by_parity", "malformed", "foreign"] {
            assert_eq!(count(&received, none), 0, "{none} in {received}");
        }
        assert_eq!(received["missing_packets"], Value::Array(Vec::new()));
        assert!(count(&received, "requested") >= again, "{received}");
        assert!(count(&outcome.sent, "resent") >= again, "{}", outcome.sent);
        let destination = &outcome.sent["destinations"][0];
        assert_eq!(destination["resent"], outcome.sent["resent"]);
        assert!(count(&destination["reported"], "reports") > 0);
    }
    fixture.is_clean();
}

#[test]
fn parity_alone_repairs_without_being_asked() {
    let Some(fixture) = MediaFixture::new("parity") else {
        return;
    };
    for (sample, said) in [
        (&TS, "a=smpte2022-1:L=5;D=5;protects=both"),
        (&L16, "a=rtpmap:100 ulpfec/44100"),
    ] {
        let described = fixture.describe(&fixture.make(sample), &["--parity", "5x5"], 6000);
        let description = fs::read_to_string(described).unwrap();
        assert!(description.contains(said), "{description}");
        let outcome = cross(&fixture, sample, &["--parity", "5x5"], &["--json"]);
        let received = document(&outcome.received);
        let [lost, parity, missing] =
            ["lost", "recovered_by_parity", "missing"].map(|name| count(&received, name));
        assert!(parity > 5 && lost == parity + missing, "{received}");
        assert!(2 * missing < lost, "{received}");
        for none in [
            "requested",
            "recovered_by_resending",
            "malformed",
            "foreign",
        ] {
            assert_eq!(count(&received, none), 0, "{none} in {received}");
        }
        // Two parity packets for five, from whole matrices.
        let [packets, sent] = ["packets", "parity"].map(|name| count(&outcome.sent, name));
        assert!(sent > packets / 3, "{}", outcome.sent);
    }
    fixture.is_clean();
}

#[test]
fn what_is_not_repaired_is_counted_and_named() {
    let Some(fixture) = MediaFixture::new("losses") else {
        return;
    };
    let offered = ["--repair-window", "300", "--parity", "8x5"];
    let outcome = cross(&fixture, &TS, &offered, &["--no-repair", "--json"]);
    let received = document(&outcome.received);
    let [lost, missing] = ["lost", "missing"].map(|name| count(&received, name));
    assert!(lost > 5 && lost == missing, "{received}");
    for none in ["requested", "recovered"] {
        assert_eq!(count(&received, none), 0, "{none} in {received}");
    }
    let gaps = received["missing_packets"].as_array().unwrap();
    let named: u64 = gaps.iter().map(|gap| count(gap, "packets")).sum();
    assert!(named == missing || gaps.len() == 64, "{received}");
    assert_eq!(count(&outcome.sent, "resent"), 0);
    let outcome = cross(&fixture, &TS, &[], &[]);
    let text = outcome.received.text();
    for said in [
        "0 sent again (0 asked for)",
        "0 repaired by parity",
        "\nmissing: ",
    ] {
        assert!(text.contains(said), "{said} in {text}");
    }
    fixture.is_clean();
}

#[test]
fn repair_that_makes_no_sense_is_refused_by_name() {
    let Some(fixture) = MediaFixture::new("refusals of repair") else {
        return;
    };
    let film = fixture.make(&TS);
    let to = ["--to", "rtp://127.0.0.1:19998"];
    let send = |options: &[&str]| {
        let arguments = ["media", "send", &film];
        fixture.root.run(&[&arguments, &to[..], options].concat())
    };
    for (options, said) in [
        (
            &["--repair-window", "0"][..],
            &["--repair-window", "20..=10000"][..],
        ),
        (
            &["--repair-window", "200", "--resend", "rtx"],
            &["--repair-window", "--resend"],
        ),
        (&["--resend", "often"], &["often", "rtx, plain"]),
        (&["--keep", "100"], &["--resend"]),
        (&["--resend", "rtx", "--keep", "70000"], &["70000"]),
        (&["--parity", "5"], &["5 is not COLUMNSxROWS", "8x5"]),
        (&["--parity", "0x5"], &["1 to 20 columns"]),
        (&["--parity", "20x20"], &["100 packets"]),
        (&["--protect", "rows"], &["--parity"]),
        (
            &["--parity", "5x5", "--parity-format", "raid"],
            &["raid", "smpte2022-1, ulpfec"],
        ),
        (
            &["--parity", "5x5", "--packet-bytes", "9000"],
            &["--packet-bytes 9000", "1440"],
        ),
        (
            &["--calls", "2", "--repair-window", "200"],
            &["--calls", "--repair-window"],
        ),
    ] {
        send(options).failed(2, said);
    }
    // What only the format knows.
    send(&["--parity", "2x2"]).failed(2, &["2 columns and 2 rows", "4 rows"]);
    let long = ["--parity", "20x5", "--parity-format", "ulpfec"];
    send(&long).failed(2, &["20 columns and 5 rows", "48"]);
    let near = ["--parity", "5x5", "--to", "rtp://127.0.0.1:20000"];
    send(&near).failed(1, &["127.0.0.1:20000", "127.0.0.1:19998", "6 apart"]);
    fixture.is_clean();
}
