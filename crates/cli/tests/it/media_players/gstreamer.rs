//! GStreamer as a player (`sdpdemux` opens our description) and as a sender.

use std::thread;

use crate::media_players::tools::{ended_well, fixture, run, start};
use crate::support::eventually;
use crate::support::streams::{
    self, Kind, MediaFixture, SAMPLES, Sample, assert_same, content, document,
};

const NEEDED: [(&str, &str); 1] = [("gst-launch-1.0", "--version")];
/// A frame of 20 ms at 48 kHz, two channels of 16 bits.
const OPUS_FRAME_BYTES: usize = 960 * 4;

/// What GStreamer makes of a stream, and what is compared of it.
fn played_as(sample: &Sample) -> (&'static str, Kind) {
    match (sample.kind, sample.name) {
        (Kind::TransportStream, _) => ("rtpmp2tdepay", sample.kind),
        (Kind::Samples, _) => ("rtpL16depay", Kind::RawSamples("s16be", "44100", "2")),
        (Kind::RawSamples("alaw", ..), _) => ("rtppcmadepay", sample.kind),
        (Kind::RawSamples(..), _) => ("rtppcmudepay", sample.kind),
        (Kind::MpegAudio, _) => ("rtpmpadepay", sample.kind),
        (Kind::Opus, _) => (
            "rtpopusdepay ! opusdec ! audio/x-raw,format=S16LE",
            Kind::Opus,
        ),
        (_, name) if name.contains("h265") => (
            "rtph265depay ! h265parse ! avdec_h265 ! video/x-raw,format=I420",
            Kind::RawPictures,
        ),
        _ => (
            "rtph264depay ! h264parse ! avdec_h264 ! video/x-raw,format=I420",
            Kind::RawPictures,
        ),
    }
}

fn plays(fixture: &MediaFixture, sample: &Sample) {
    let name = sample.name;
    let input = fixture.make(sample);
    let port = streams::port();
    let sdp = fixture.describe(&input, sample.options, port);
    let out = fixture.file(&format!("{port}.out"));
    let (how, kind) = played_as(sample);
    let pipeline =
        format!("-q filesrc location={sdp} ! sdpdemux ! {how} ! filesink location={out}");
    let player = start("gst-launch-1.0", &pipeline);
    streams::wait_until_listening(port);
    // It says to nobody when it plays; until then what comes waits in its sockets.
    fixture.send_with(&input, port, sample.options);
    ended_well(name, player);
    if kind == Kind::Opus {
        return sounds_like(fixture, &input, &std::fs::read(&out).expect("written"));
    }
    assert_same(name, &content(kind, &out), &content(sample.kind, &input));
}

/// A stream has no header that says how many samples at its beginning are no sound, and none that
/// says where the last frame ends.
fn sounds_like(fixture: &MediaFixture, input: &str, played: &[u8]) {
    let wanted = fixture.file("opus.pcm");
    run(
        "gst-launch-1.0",
        &format!(
            "-q filesrc location={input} ! oggdemux ! opusdec ! audio/x-raw,format=S16LE ! filesink location={wanted}"
        ),
    );
    let wanted = std::fs::read(wanted).expect("written");
    let header = std::fs::read(input).expect("made");
    let begins = header.windows(8).position(|found| found == b"OpusHead");
    // RFC 7845, section 5.1: behind magic, version and channels.
    let at = begins.expect("an Opus header") + 10;
    let skipped = 4 * usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let heard = &played[skipped..];
    assert_same("tone.opus", &heard[..wanted.len()], &wanted);
    assert!(heard.len() - wanted.len() < OPUS_FRAME_BYTES);
}

#[test]
fn vlc_plays_every_payload_from_our_description() {
    let Some(fixture) = fixture(&NEEDED, "GStreamer plays what we send") else {
        return;
    };
    thread::scope(|scope| {
        for sample in &SAMPLES {
            let fixture = &fixture;
            scope.spawn(move || plays(fixture, sample));
        }
    });
    fixture.is_clean();
}

/// How GStreamer packs a sample, and how its stream is described.
fn sent_as(sample: &Sample) -> (String, &'static str) {
    let raw =
        |format: &str| format!("rawaudioparse format={format} sample-rate=8000 num-channels=1");
    match (sample.kind, sample.name) {
        (Kind::TransportStream, _) => (
            "tsparse set-timestamps=true ! rtpmp2tpay".into(),
            "m=video PORT RTP/AVP 33",
        ),
        (Kind::Samples, _) => (
            "wavparse ! audioconvert ! rtpL16pay pt=10".into(),
            "m=audio PORT RTP/AVP 10",
        ),
        (Kind::RawSamples("alaw", ..), _) => {
            (raw("alaw") + " ! rtppcmapay", "m=audio PORT RTP/AVP 8")
        }
        (Kind::RawSamples(..), _) => (raw("mulaw") + " ! rtppcmupay", "m=audio PORT RTP/AVP 0"),
        (Kind::MpegAudio, _) => (
            "mpegaudioparse ! rtpmpapay".into(),
            "m=audio PORT RTP/AVP 14",
        ),
        (Kind::Opus, _) => (
            "oggdemux ! opusparse ! rtpopuspay pt=97".into(),
            "m=audio PORT RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\na=fmtp:97 sprop-stereo=1",
        ),
        (_, name) => {
            let (number, map) = if name.contains("h265") {
                (265, "m=video PORT RTP/AVP 96\r\na=rtpmap:96 H265/90000")
            } else {
                (264, "m=video PORT RTP/AVP 96\r\na=rtpmap:96 H264/90000")
            };
            let demuxer = if name.ends_with("mp4") {
                "qtdemux ! "
            } else {
                ""
            };
            let pay = format!("{demuxer}h{number}parse ! rtph{number}pay config-interval=-1");
            (pay, map)
        }
    }
}

fn is_received(fixture: &MediaFixture, sample: &Sample) {
    let name = sample.name;
    let input = fixture.make(sample);
    let port = streams::port();
    let (how, described) = sent_as(sample);
    let sdp = fixture.file(&format!("{port}.sdp"));
    let head = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n";
    let described = described.replace("PORT", &port.to_string());
    std::fs::write(&sdp, format!("{head}{described}\r\n")).expect("written");
    let out = fixture.file(&format!("{port}.out"));
    let receiver = fixture.receiver(&sdp, port, &out);
    let pipeline =
        format!("-q filesrc location={input} ! {how} ! udpsink host=127.0.0.1 port={port}");
    run("gst-launch-1.0", &pipeline);
    // Such a pipeline says no goodbye. What it has sent lies in the receiver's socket, or was
    // taken.
    eventually("all is taken", || streams::waiting_bytes(port) == Some(0));
    receiver.interrupt();
    let received = document(&receiver.end());
    for count in ["lost", "late", "malformed", "foreign", "kernel_drops"] {
        assert_eq!(received[count], 0, "{name}: {count} in {received}");
    }
    let kind = match sample.kind {
        Kind::RawSamples(..) => Kind::Samples,
        kind => kind,
    };
    assert_same(name, &content(kind, &out), &content(sample.kind, &input));
}

#[test]
fn we_receive_every_payload_that_it_sends() {
    let Some(fixture) = fixture(&NEEDED, "we receive what GStreamer sends") else {
        return;
    };
    thread::scope(|scope| {
        for sample in &SAMPLES {
            let fixture = &fixture;
            scope.spawn(move || is_received(fixture, sample));
        }
    });
}
