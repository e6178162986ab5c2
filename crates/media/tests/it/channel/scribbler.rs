//! A publisher that writes over what it has published: garbage is sent, and nothing else happens.

use std::fs::OpenOptions as FileOptions;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use hythe_media::send::session::{SendSession, Step};
use hythe_media::source::OpenOptions;
use hythe_media::source::raw::PcmFormat;
use hythe_rtp::MAX_PAYLOAD_BYTES;
use hythe_rtp::format::Encoding;

use super::stage::{Stage, add, unpaced};
use crate::scene::Receiver;
use crate::support::ffmpeg;
use hythe_testing::Dice;

/// What a stream of garbage may come to: an end, or an error that says what cannot be understood.
fn send_all(session: &mut SendSession) {
    while let Ok(step) = session.step(&mut |event| panic!("{event}")) {
        if step == Step::Ended {
            return;
        }
    }
}

/// Sends `bytes` again and again while all slots of the pool are written over from outside.
fn survives(name: &str, bytes: &[u8], message: usize, options: &OpenOptions) {
    let Some(stage) = Stage::new(name) else {
        return;
    };
    let is_over = AtomicBool::new(false);
    let region = FileOptions::new()
        .write(true)
        .open(&stage.regions()[0])
        .unwrap();
    let length = usize::try_from(region.metadata().unwrap().len()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut chances = Dice::new(11);
            while !is_over.load(Ordering::Relaxed) {
                // Neither longer nor shorter, only other bytes: garbage, and pieces that look like
                // something.
                let at = chances.below(length - 64) as u64;
                let mut garbage = [0; 64];
                garbage.fill_with(|| chances.below(256) as u8);
                let start: &[u8] =
                    [&[0, 0, 1, 0x65][..], &[0x47; 4], &[0xff, 0xfb, 0x90, 0x64]][chances.below(3)];
                garbage[..4].copy_from_slice(start);
                region.write_all_at(&garbage, at).unwrap();
            }
        });
        for _ in 0..5 {
            let (mut camera, channel) = stage.channel();
            let sink = std::thread::scope(|scope| {
                scope.spawn(move || {
                    for message in bytes.chunks(message) {
                        camera.publish(message);
                    }
                    camera.end();
                });
                let receiver = Receiver::with_room(32 << 20);
                // Garbage from the start may be nothing that can be sent.
                if let Ok(source) = channel.open(options) {
                    let mut session = stage.session(source, unpaced());
                    add(&mut session, &receiver);
                    send_all(&mut session);
                }
                receiver
            });
            for datagram in sink.datagrams() {
                assert!((12..=12 + MAX_PAYLOAD_BYTES).contains(&datagram.len()));
                assert_eq!(datagram[0], 0x80, "a header is ours");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(stage.slots_held(), 0);
}

#[test]
fn whoever_scribbles_over_its_messages_has_garbage_sent() {
    let ts =
        "-f lavfi -i testsrc=size=320x240:rate=25:duration=2 -c:v mpeg2video -b:v 2M -f mpegts -";
    let h264 = "-f lavfi -i testsrc2=size=320x240:rate=25:duration=2 -pix_fmt yuv420p -c:v libx264 -preset veryfast -f h264 -";
    let mp2 = "-f lavfi -i sine=duration=2:sample_rate=48000 -c:a mp2 -b:a 192k -f mp2 -";
    let options = OpenOptions::default();
    let raw = OpenOptions {
        raw: Some(PcmFormat {
            encoding: Encoding::L16,
            samples_per_second: 48_000,
            channels: 2,
        }),
        ..OpenOptions::default()
    };
    survives("scribbled-samples", &[7; 400_000], 3840, &raw);
    for (name, arguments, message) in [
        ("ts", ts, 13_160),
        ("h264", h264, 20_000),
        ("mp2", mp2, 1152),
    ] {
        if let Some(bytes) = ffmpeg(arguments) {
            survives(&format!("scribbled-{name}"), &bytes, message, &options);
        }
    }
}
