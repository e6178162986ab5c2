//! ffmpeg as a player, and as a sender.

use std::thread;

use crate::media_players::tools::{ended_well, fixture, run, start};
use crate::support::streams::{
    self, Kind, MediaFixture, Sample, TS, assert_same, content, document, packets, packets_of_list,
};

const QUIET: &str = "-v error -nostdin -y";
/// Most bytes of a packet that ffmpeg keeps for itself at the end.
const PACKET_BYTES: usize = 1472;

/// What ffmpeg makes of a stream, and what is compared of it.
fn played_as(sample: &Sample) -> (&'static str, Kind) {
    match sample.kind {
        Kind::TransportStream | Kind::Opus => ("-map 0 -c copy -f framehash", sample.kind),
        Kind::Samples => ("-c copy -f s16be", Kind::RawSamples("s16be", "44100", "2")),
        Kind::RawSamples("alaw", ..) => ("-c copy -f alaw", sample.kind),
        Kind::RawSamples(..) => ("-c copy -f mulaw", sample.kind),
        Kind::MpegAudio => (
            "-c copy -f mp3 -write_xing 0 -id3v2_version 0",
            Kind::MpegAudio,
        ),
        Kind::Pictures | Kind::RawPictures => (
            "-fps_mode passthrough -f rawvideo -pix_fmt yuv420p",
            Kind::RawPictures,
        ),
    }
}

fn plays(fixture: &MediaFixture, sample: &Sample, repair: &[&str]) {
    let input = fixture.make(sample);
    // Parity goes to the ports behind, which are not another stream's.
    let port = streams::ports(if repair.is_empty() { 1 } else { 3 });
    let options = [sample.options, repair].concat();
    let sdp = fixture.describe(&input, &options, port);
    let out = fixture.file(&format!("{port}.out"));
    let (how, kind) = played_as(sample);
    let arguments = format!("{QUIET} -protocol_whitelist file,udp,rtp -i {sdp} {how} {out}");
    let player = start("ffmpeg", &arguments);
    streams::wait_until_listening(port);
    fixture.send_with(&input, port, &options);
    ended_well(sample.name, player);
    if how.ends_with("framehash") {
        let list = std::fs::read_to_string(&out).expect("written");
        begins_like(sample.name, &packets_of_list(&list), &packets(&input));
        return;
    }
    let source = content(sample.kind, &input);
    assert_same(sample.name, &content(kind, &out), &source);
}

/// Every stream has the packets of the source. ffmpeg keeps the last of a transport stream's for
/// itself where nothing follows that would show where it ends.
fn begins_like(name: &str, received: &[String], source: &[String]) {
    for stream in ["0 ", "1 "] {
        let of = |packets: &[String]| -> Vec<String> {
            let own = packets.iter().filter(|packet| packet.starts_with(stream));
            own.cloned().collect()
        };
        let (received, source) = (of(received), of(source));
        let kept = if name == TS.name { 2 } else { 0 };
        let count = source.len().saturating_sub(kept);
        assert!(
            received.len() >= count && received[..count] == source[..count],
            "{name}, stream {stream}: {} packets came of {}",
            received.len(),
            source.len()
        );
    }
}

#[test]
fn vlc_plays_every_payload_from_our_description() {
    let Some(fixture) = fixture(&[], "ffmpeg plays what we send") else {
        return;
    };
    let repaired = [&streams::TS, &streams::H264];
    for sample in repaired {
        fixture.make(sample); // once for both
    }
    thread::scope(|scope| {
        for sample in &streams::SAMPLES {
            let fixture = &fixture;
            scope.spawn(move || plays(fixture, sample, &[]));
        }
        // It knows nothing of repair, or not ours: what is beside the media is passed over.
        for sample in repaired {
            let (fixture, repair) = (&fixture, ["--repair-window", "200", "--parity", "5x5"]);
            scope.spawn(move || plays(fixture, sample, &repair));
        }
    });
    fixture.is_clean();
}

/// What ffmpeg is told to send a sample.
fn sent_as(sample: &Sample, input: &str, port: u16) -> String {
    let read = match sample.kind {
        Kind::RawSamples(format, rate, channels) => {
            format!("-f {format} -ar {rate} -ac {channels} -i {input} -c copy")
        }
        Kind::Samples => format!("-i {input} -c:a pcm_s16be"),
        _ => format!("-i {input} -map 0 -c copy"),
    };
    let muxer = match sample.kind {
        Kind::TransportStream => "-f rtp_mpegts -rtp_muxer_options rtpflags=send_bye",
        _ => "-f rtp -rtpflags send_bye",
    };
    format!("{read} {muxer} rtp://127.0.0.1:{port}")
}

/// The description that ffmpeg writes, of a run that nobody hears. It writes none of a transport
/// stream, which needs little.
fn described_by_ffmpeg(fixture: &MediaFixture, sample: &Sample, send: &str, port: u16) -> String {
    let sdp = fixture.file(&format!("{port}.sdp"));
    if sample.kind == Kind::TransportStream {
        let text = format!("c=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video {port} RTP/AVP 33\r\n");
        let text = format!("v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\n{text}");
        std::fs::write(&sdp, text).expect("written");
    } else {
        let short = send.replacen("rtp://", "-t 0.1 rtp://", 1);
        run("ffmpeg", &format!("{QUIET} {short} -sdp_file {sdp}"));
    }
    sdp
}

fn is_received(fixture: &MediaFixture, sample: &Sample) {
    let name = sample.name;
    let input = fixture.make(sample);
    let port = streams::port();
    let send = sent_as(sample, &input, port);
    let sdp = described_by_ffmpeg(fixture, sample, &send, port);
    let out = fixture.file(&format!("{port}.out"));
    let receiver = fixture.receiver(&sdp, port, &out);
    run("ffmpeg", &format!("{QUIET} -re {send}"));
    let received = document(&receiver.end());
    assert_eq!(received["ended"], "goodbye", "{name}: {received}");
    for count in ["lost", "late", "malformed", "foreign", "kernel_drops"] {
        assert_eq!(received[count], 0, "{name}: {count} in {received}");
    }
    match sample.kind {
        Kind::TransportStream => begins_like(name, &packets(&out), &packets(&input)),
        // ffmpeg does not send the frames that wait for a packet to be full.
        Kind::MpegAudio => {
            let [got, source] = [&out, &input].map(|path| content(sample.kind, path));
            assert!(source.starts_with(&got) && got.len() + PACKET_BYTES > source.len());
        }
        Kind::RawSamples(..) => {
            let source = content(sample.kind, &input);
            assert_same(name, &content(Kind::Samples, &out), &source);
        }
        kind => assert_same(name, &content(kind, &out), &content(kind, &input)),
    }
}

#[test]
fn we_receive_every_payload_that_it_sends() {
    let Some(fixture) = fixture(&[], "we receive what ffmpeg sends") else {
        return;
    };
    thread::scope(|scope| {
        for sample in &streams::SAMPLES {
            let fixture = &fixture;
            scope.spawn(move || is_received(fixture, sample));
        }
    });
}
