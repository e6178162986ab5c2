//! What `hythe media` refuses although it might do something: options that would change nothing,
//! and formats that it does not send. Each refusal says what to do.
//!
//! Inputs are made by ffmpeg; skipped aloud where there is none, or no shared memory.

use std::path::Path;

use crate::support::streams::{
    self, H264, H264_MOVIE, L16, MPEG_AUDIO, MediaFixture, PCMU, Sample, TS,
};

const PICTURE: &str = "-f lavfi -i testsrc=size=64x64:rate=25:duration=1,format=yuv420p";
const TONE: &str = "-f lavfi -i sine=duration=1 -ar 48000";
/// A file's name, how ffmpeg makes it, and what makes another of it.
const FORMATS: [(&str, &str, &str); 13] = [
    ("a.mkv", "PICTURE -c:v libx264", "-c copy -f mpegts FILE.ts"),
    ("a.avi", "PICTURE -c:v mpeg4", "-c copy -f mpegts FILE.ts"),
    ("a.flv", "PICTURE -c:v flv1", "-c copy -f mpegts FILE.ts"),
    ("a.webm", "TONE -c:a libopus", "-c:v libx264"),
    ("a.m4a", "TONE -c:a aac", "-c:a libopus FILE.opus"),
    ("a.aac", "TONE -c:a aac -f adts", "-c:a libopus FILE.opus"),
    ("a.mp4", "PICTURE -c:v mpeg4", "-c:v libx264"),
    ("rf64.wav", "TONE -rf64 always", "-c:a pcm_s16le FILE.wav"),
    ("a.w64", "TONE", "-c:a pcm_s16le FILE.wav"),
    ("a.flac", "TONE", "-c:a pcm_s16le FILE.wav"),
    ("a.aiff", "TONE", "-c:a pcm_s16le FILE.wav"),
    ("24.wav", "TONE -c:a pcm_s24le", "-c:a pcm_s16le FILE.wav"),
    ("flac.ogg", "TONE -c:a flac", "-c:a libopus FILE.opus"),
];

/// An input, an option that does not apply to it, and what its refusal has.
const OF_INPUTS: [(&Sample, &str, &str); 18] = [
    (&ALAW, "--payload pcmu", "sent as PCMA, as it is"),
    (&ALAW, "--payload l16", "sent as PCMA, as it is"),
    (&L16, "--payload pcmu", "-ar 8000 -ac 1"),
    (&L16, "--payload pcma", "-ar 8000 -ac 1"),
    (&TS, "--payload l16", "sent as MP2T, as it is"),
    (&MPEG_AUDIO, "--payload pcmu", "sent as MPA, as it is"),
    (
        &PCMU,
        "--raw pcmu:8000:1 --payload pcma",
        "'--payload <PAYLOAD>'",
    ),
    (&MPEG_AUDIO, "--bitrate 1M", "only transport streams"),
    (&H264_MOVIE, "--bitrate 1M", "only transport streams"),
    (&TS, "--frame-rate 25", "only byte streams"),
    (&L16, "--frame-rate 25", "only byte streams"),
    (
        &H264_MOVIE,
        "--frame-rate 25",
        "which tells when each picture is shown",
    ),
    (&H264, "--frame-rate 25", "says its frame rate itself"),
    (&H264, "--pace max --early 3", "--early"),
    (&H264, "--pace max --catch-up 3", "--catch-up"),
    (&TS, "--keep 100", "--resend"),
    (&TS, "--protect rows", "--parity"),
    (&TS, "--parity-format ulpfec", "--parity"),
];
const ALAW: Sample = Sample {
    name: "alaw.wav",
    made_by: "TONE -ar 8000 -c:a pcm_alaw",
    ..L16
};
/// What `--calls` has no use for.
const BESIDE_CALLS: [&str; 12] = [
    "--pace media",
    "--burst 3",
    "--early 3",
    "--catch-up 3",
    "--packet-bytes 500",
    "--class 1:10",
    "--loop 0",
    "--method gso",
    "--sdp x.sdp",
    "--to-file x",
    "--parity 8x5",
    "--resend rtx",
];
/// Commands without a file; SDP is a description of one stream.
const OTHERS: [(&str, &str); 20] = [
    ("send - TO --loop 2", "is live and played once"),
    ("send channel:camera TO --loop 0", "is live and played once"),
    (
        "send FILM --to rtp://127.0.0.1:19996?ttl=3",
        "ttl=3 is for multicast",
    ),
    (
        "send FILM --to rtp://127.0.0.1:19996?interface=lo",
        "interface=lo is for multicast",
    ),
    ("send FILM TO TO --calls 2", "say --to once"),
    ("recv SDP --payload ts", "--payload is for rtp://"),
    ("recv SDP --interface lo", "--interface is for groups"),
    ("recv ADDRESS --interface lo", "--interface is for groups"),
    ("recv ADDRESS --stream 2", "--stream is for descriptions"),
    ("recv ADDRESS --stream all", "--stream is for descriptions"),
    (
        "recv ADDRESS --stream video",
        "--stream is for descriptions",
    ),
    ("recv ADDRESS --no-nack", "--no-nack is for descriptions"),
    (
        "recv ADDRESS --no-repair",
        "--no-repair is for descriptions",
    ),
    ("recv SDP --no-nack --no-repair", "cannot be used with"),
    ("recv ADDRESS --channel x", "cannot be used with"),
    (
        "serve RELAY --listen 127.0.0.1:19994",
        "cannot be used with",
    ),
    (
        "serve RELAY --sessions-per-address 3",
        "cannot be used with",
    ),
    ("serve RELAY --resend rtx", "cannot be used with"),
    ("serve RELAY --repair-window 100", "cannot be used with"),
    (
        "serve FILM --participant rtp://127.0.0.1:19998",
        "cannot be used with",
    ),
];
const TO: &str = "--to rtp://127.0.0.1:19998";

/// Runs `hythe media` with arguments without blanks: it fails and names that.
fn refused(fixture: &MediaFixture, arguments: &str, named: &[&str]) {
    let mut all = vec!["media"];
    all.extend(arguments.split_whitespace());
    let ended = fixture.root.run(&all);
    assert!(
        matches!(ended.code, Some(1 | 2)),
        "{arguments}: {}",
        ended.errors
    );
    for part in named {
        assert!(
            ended.errors.contains(part),
            "{arguments}: no {part} in {}",
            ended.errors
        );
    }
}

#[test]
fn formats_that_are_not_sent_are_refused_with_a_remedy() {
    let Some(fixture) = MediaFixture::new("remedies for other formats") else {
        return;
    };
    for (name, made_by, remedy) in FORMATS {
        let file = fixture.file(name);
        let made_by = made_by.replace("PICTURE", PICTURE).replace("TONE", TONE);
        streams::ffmpeg(&format!("{made_by} {file}"));
        let named = [name, "ffmpeg -i FILE", remedy];
        refused(&fixture, &format!("send {file} {TO}"), &named);
    }
    fixture.is_clean();
}

#[test]
fn addresses_of_one_link_want_an_interface() {
    let Some(fixture) = MediaFixture::new("addresses of one link") else {
        return;
    };
    let film = fixture.make(&TS);
    let out = fixture.file("out.ts");
    for host in ["ff02::4d4d", "ff01::1", "fe80::1"] {
        let url = format!("rtp://[{host}]:19998");
        let named = [host, "no interface is named", "?interface=NAME"];
        refused(&fixture, &format!("send {film} --to {url}"), &named);
        let named = [host, "no interface is named", "--interface NAME"];
        let recv = format!("recv {url} --payload ts --out {out}");
        refused(&fixture, &recv, &named);
    }
    fixture.is_clean();
}

#[test]
fn options_that_do_not_apply_are_refused() {
    let Some(fixture) = MediaFixture::new("options that do not apply") else {
        return;
    };
    for (sample, options, named) in OF_INPUTS {
        let input = fixture.make(sample);
        refused(&fixture, &format!("send {input} {TO} {options}"), &[named]);
    }
    let call = format!(
        "send {} --raw pcmu:8000:1 {TO} --calls 2",
        fixture.make(&PCMU)
    );
    for option in BESIDE_CALLS {
        refused(
            &fixture,
            &format!("{call} {option}"),
            &["cannot be used with"],
        );
    }
    let film = fixture.make(&TS);
    let sdp = fixture.describe(&film, &[], streams::port());
    let out = fixture.file("out.ts");
    let address = format!("rtp://127.0.0.1:19998 --payload ts --out {out}");
    for (arguments, named) in OTHERS {
        let arguments = arguments
            .replace("TO", TO)
            .replace("FILM", &film)
            .replace("SDP", &format!("{sdp} --out {out}"))
            .replace("ADDRESS", &address)
            .replace("RELAY", "--relay 19996 --participant rtp://127.0.0.1:19998");
        refused(&fixture, &arguments, &[named]);
    }
    assert!(
        !Path::new(&out).exists(),
        "refused before anything was written"
    );
    fixture.is_clean();
}
