//! What a channel has sent is what a file has: the same packets, byte for byte, whatever messages
//! it came in.

use std::io::Cursor;

use hythe_media::source::raw::PcmFormat;
use hythe_media::source::{Input, OpenOptions, Source, open_input};
use hythe_rtp::format::Encoding;

use super::stage::{Stage, add, run, unpaced};
use crate::scene::Receiver;
use crate::support::ffmpeg;

/// All datagrams of a stream, and how many bytes were joined.
fn sent(stage: &Stage, source: Box<dyn Source + Send>) -> (Vec<Vec<u8>>, u64) {
    let receivers = [(); 2].map(|()| Receiver::with_room(32 << 20));
    let mut session = stage.session(source, unpaced());
    receivers
        .iter()
        .for_each(|receiver| add(&mut session, receiver));
    run(&mut session, |_| false);
    let statistics = session.statistics();
    assert_eq!(
        (statistics.lost, statistics.damaged),
        (0, 0),
        "{statistics:?}"
    );
    let [datagrams, again] = receivers.map(|receiver| receiver.datagrams());
    assert!(datagrams == again, "destinations differ");
    assert_eq!(datagrams.len() as u64, statistics.packets);
    (datagrams, statistics.joined_bytes)
}

/// Publishes `bytes` in messages of so many bytes; what was sent, and how many bytes were joined.
fn from_channel(
    stage: &Stage,
    bytes: &[u8],
    message: usize,
    options: &OpenOptions,
) -> (Vec<Vec<u8>>, u64) {
    let (mut camera, channel) = stage.channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            bytes
                .chunks(message)
                .for_each(|message| camera.publish(message));
            camera.end();
        });
        let source = channel.open(options).unwrap();
        assert!(source.is_in_place());
        sent(stage, source)
    })
}

fn from_file(stage: &Stage, bytes: &[u8], options: &OpenOptions) -> Vec<Vec<u8>> {
    let input = Input::new("test", Cursor::new(bytes.to_vec()));
    sent(stage, open_input(input, options).unwrap()).0
}

/// Messages of each of these lengths make the same packets, and not more than `joined` bytes for
/// each message are copied.
fn compare(name: &str, bytes: &[u8], lengths: &[(usize, usize)], options: &OpenOptions) {
    let Some(stage) = Stage::new(name) else {
        return;
    };
    let mut all = Vec::new();
    for (length, joined) in lengths {
        let (sent, copied) = from_channel(&stage, bytes, *length, options);
        let messages = bytes.len().div_ceil(*length);
        assert!(
            copied <= (messages * joined) as u64,
            "{name}, messages of {length}: {copied} bytes joined for {messages} messages"
        );
        all.push(sent);
    }
    // Nothing was built: there is no region for it.
    assert_eq!(stage.regions().len(), 1, "{name}: {:?}", stage.regions());
    assert_eq!(stage.slots_held(), 0, "{name}");
    let expected = from_file(&stage, bytes, options);
    assert_eq!(stage.regions().len(), 2, "a file is built");
    for (sent, (length, _)) in all.iter().zip(lengths) {
        assert_eq!(sent.len(), expected.len(), "{name}, messages of {length}");
        for (index, (sent, expected)) in sent.iter().zip(&expected).enumerate() {
            assert!(
                sent == expected,
                "{name}, messages of {length}: packet {index}"
            );
        }
    }
}

#[test]
fn transport_streams() {
    let arguments =
        "-f lavfi -i testsrc=size=320x240:rate=25:duration=2 -c:v mpeg2video -b:v 2M -f mpegts -";
    let Some(bytes) = ffmpeg(arguments) else {
        return;
    };
    let options = OpenOptions::default();
    compare(
        "ts",
        &bytes,
        &[(1316, 0), (7 * 1316, 0), (bytes.len(), 0)],
        &options,
    );
}

#[test]
fn transport_streams_cut_at_any_byte() {
    let arguments =
        "-f lavfi -i testsrc=size=320x240:rate=25:duration=2 -c:v mpeg2video -b:v 2M -f mpegts -";
    let Some(bytes) = ffmpeg(arguments) else {
        return;
    };
    let Some(stage) = Stage::new("cut-ts") else {
        return;
    };
    for length in [1000, 65_536] {
        let (datagrams, joined) = from_channel(&stage, &bytes, length, &OpenOptions::default());
        let payloads: Vec<u8> = datagrams
            .iter()
            .flat_map(|datagram| &datagram[12..])
            .copied()
            .collect();
        assert!(payloads == bytes, "messages of {length}");
        let messages = bytes.len().div_ceil(length) as u64;
        assert!(
            joined > 0 && joined <= messages * 2 * 188,
            "{joined} of {length}"
        );
    }
    assert_eq!((stage.regions().len(), stage.slots_held()), (1, 0));
}

#[test]
fn byte_streams_of_video() {
    for (name, arguments) in [
        (
            "h264",
            "-c:v libx264 -preset veryfast -g 25 -b:v 3M -f h264 -",
        ),
        (
            "h265",
            "-c:v libx265 -preset ultrafast -x265-params log-level=none -f hevc -",
        ),
    ] {
        let source = "-f lavfi -i testsrc2=size=640x360:rate=25:duration=2 -pix_fmt yuv420p";
        let Some(bytes) = ffmpeg(&format!("{source} {arguments}")) else {
            return;
        };
        // Of what is cut anywhere, NAL units that go over the end of a message are joined: here,
        // none of those is longer.
        let lengths = [
            (bytes.len(), 0),
            (200_000, 100_000),
            (30_000, 100_000),
            (1000, 100_000),
        ];
        compare(name, &bytes, &lengths, &OpenOptions::default());
    }
}

#[test]
fn frames_of_mpeg_audio() {
    let Some(bytes) =
        ffmpeg("-f lavfi -i sine=duration=2:sample_rate=48000 -ac 2 -c:a mp2 -b:a 192k -f mp2 -")
    else {
        return;
    };
    // 576 bytes a frame; two of them are a packet.
    let lengths = [(bytes.len(), 0), (1152, 0)];
    compare("mp2", &bytes, &lengths, &OpenOptions::default());
}

#[test]
fn samples() {
    let bytes: Vec<u8> = (0..200_000_u32)
        .map(|byte| ((byte * 7) >> 3) as u8)
        .collect();
    for (encoding, channels, block) in [(Encoding::L16, 2, 3840), (Encoding::Pcmu, 1, 960)] {
        let options = OpenOptions {
            raw: Some(PcmFormat {
                encoding,
                samples_per_second: 48_000,
                channels,
            }),
            ..OpenOptions::default()
        };
        compare(
            "samples",
            &bytes[..192_000],
            &[(block, 0), (192_000, 0)],
            &options,
        );
    }
}
