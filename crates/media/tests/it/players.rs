//! ffmpeg opens our description of each kind of stream, and what it decodes from our packets equals
//! what it decodes from the file.
//!
//! Packets are numbered here and sent from a plain socket at the pace of the media.

use crate::support;

use std::fs::{self, File};
use std::io::Read;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Packet, ffmpeg};
use hythe_media::sdp::{self, Retransmission, StreamDescription};
use hythe_media::source::{OpenOptions, open};
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_testing::{eventually, let_time_pass};

const SSRC: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
const LIMIT: usize = 1316;

/// What came of the packets, and what of the file.
type Decoded = (Vec<u8>, Vec<u8>);

/// A running ffmpeg, ended when dropped.
struct Player {
    child: Child,
    port: u16,
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Player {
    /// Starts ffmpeg on a description, and waits until it listens.
    fn start(description: &Path, port: u16, outputs: &str) -> Self {
        let child = Command::new("ffmpeg")
            .args([
                "-v",
                "error",
                "-nostdin",
                "-y",
                "-protocol_whitelist",
                "file,udp,rtp",
            ])
            .args(["-buffer_size", "4194304", "-i"])
            .arg(description)
            .args(outputs.split_whitespace())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let player = Self { child, port };
        eventually("ffmpeg listens", || {
            waiting_bytes(port).is_some() && waiting_bytes(port + 1).is_some()
        });
        player
    }

    /// Sends `packets` when they are due, and the goodbye once all of them were taken and nothing
    /// more comes of them.
    fn feed(&mut self, format: &StreamFormat, packets: &[Packet], outputs: &[PathBuf]) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let start = Instant::now();
        for (index, packet) in packets.iter().enumerate() {
            let due = Duration::from_secs_f64(packet.time as f64 / f64::from(format.clock_hz));
            let_time_pass(due.saturating_sub(start.elapsed()), "a sender's pace");
            let timestamp = (packet.time as u32).wrapping_add(u32::MAX - 1000);
            let kind = format.payload_type | u8::from(packet.marker) << 7;
            let header = [
                &[0x80, kind][..],
                // Both numbers wrap soon.
                &65_500u16.wrapping_add(index as u16).to_be_bytes(),
                &timestamp.to_be_bytes(),
                &SSRC,
                &packet.bytes,
            ];
            socket
                .send_to(&header.concat(), ("127.0.0.1", self.port))
                .unwrap();
        }
        let sizes = || -> Vec<u64> {
            outputs
                .iter()
                .map(|path| fs::metadata(path).map_or(0, |data| data.len()))
                .collect()
        };
        let mut last = (sizes(), Instant::now());
        eventually("ffmpeg takes everything", || {
            if sizes() != last.0 || waiting_bytes(self.port) != Some(0) {
                last = (sizes(), Instant::now());
            }
            last.1.elapsed() > Duration::from_secs(2)
        });
        let goodbye = [&[0x80, 0xc9, 0, 1][..], &SSRC, &[0x81, 0xcb, 0, 1], &SSRC].concat();
        eventually("ffmpeg ends", || {
            let _ = socket.send_to(&goodbye, ("127.0.0.1", self.port + 1));
            self.child.try_wait().unwrap().is_some()
        });
        let mut message = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut message)
            .unwrap();
        println!("ffmpeg: {message}");
    }
}

/// What waits in the socket bound to `port`; `None` if there is none.
fn waiting_bytes(port: u16) -> Option<u64> {
    let mut table = String::new();
    File::open("/proc/net/udp")
        .unwrap()
        .read_to_string(&mut table)
        .unwrap();
    let of_port = format!(":{port:04X}");
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let waiting = fields.get(4)?.split_once(':')?.1;
        (fields.get(1)?.ends_with(&of_port)).then(|| u64::from_str_radix(waiting, 16).unwrap())
    })
}

/// Makes a file with `make`, sends it, and has ffmpeg decode both with each of `decoders`; returns
/// what came of the packets and of the file. `None`, said aloud, without ffmpeg.
fn decoded(
    make: &str,
    encoding: Encoding,
    decoders: &[&str],
    with_feedback: bool,
) -> Option<Vec<Decoded>> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("input");
    ffmpeg(&format!("{make} {}", file.display()))?;
    let mut source = open(&file, &OpenOptions::default()).unwrap();
    let format = source.format().clone();
    assert_eq!(format.encoding, encoding);
    let units = support::units(&mut *source).unwrap();
    let packets = support::packets(&format, &units, LIMIT);

    let port = hythe_testing::reserve_ports(2);
    let mut stream = StreamDescription::new(format.clone(), ([127, 0, 0, 1], port).into());
    if with_feedback {
        stream.takes_nack = true;
        stream.retransmission = Some(Retransmission {
            payload_type: 98,
            time_ms: Some(200),
        });
    }
    let description = directory.path().join("stream.sdp");
    sdp::write(&description, &sdp::describe(&[stream], 1)).unwrap();
    let outputs: Vec<_> = (0..decoders.len())
        .map(|index| directory.path().join(index.to_string()))
        .collect();
    let mut arguments = String::new();
    for (decoder, output) in decoders.iter().zip(&outputs) {
        arguments += &format!("{decoder} -flush_packets 1 {} ", output.display());
    }
    Player::start(&description, port, &arguments).feed(&format, &packets, &outputs);
    let pairs = decoders.iter().zip(&outputs).map(|(decoder, output)| {
        let direct = ffmpeg(&format!("-i {} {decoder} -", file.display())).unwrap();
        (fs::read(output).unwrap(), direct)
    });
    Some(pairs.collect())
}

const SAMPLES: &str = "-map 0:a -c:a pcm_s16le -f s16le";

fn assert_equal(make: &str, encoding: Encoding, with_feedback: bool) {
    let Some(pairs) = decoded(make, encoding, &[SAMPLES], with_feedback) else {
        return;
    };
    let [(received, direct)] = &pairs[..] else {
        panic!("one output was asked for");
    };
    println!("{encoding:?}: {} bytes of samples", received.len());
    assert!(direct.len() > 16_000);
    assert_eq!(received.len(), direct.len());
    assert!(received == direct);
}

#[test]
fn l16() {
    let make = "-f lavfi -i sine=duration=2:sample_rate=48000 -ac 2 -c:a pcm_s16le -f wav";
    assert_equal(make, Encoding::L16, false);
}

#[test]
fn pcmu_with_feedback_and_retransmission_described() {
    let make = "-f lavfi -i sine=duration=2:sample_rate=8000 -c:a pcm_mulaw -f wav";
    assert_equal(make, Encoding::Pcmu, true);
}

#[test]
fn pcma() {
    let make = "-f lavfi -i sine=duration=2:sample_rate=8000 -c:a pcm_alaw -f wav";
    assert_equal(make, Encoding::Pcma, false);
}

#[test]
fn mpeg_audio_layer_three() {
    let make =
        "-f lavfi -i sine=duration=2:sample_rate=44100 -ac 2 -c:a libmp3lame -write_xing 0 -f mp3";
    assert_equal(make, Encoding::MpegAudio, false);
}

#[test]
fn mpeg_audio_layer_two_in_fragments() {
    // 1728 bytes a frame.
    let make = "-f lavfi -i sine=duration=2:sample_rate=32000 -ac 2 -c:a mp2 -b:a 384k -f mp2";
    assert_equal(make, Encoding::MpegAudio, false);
}

#[test]
fn opus() {
    let make = "-f lavfi -i sine=duration=2:sample_rate=48000 -ac 2 -c:a libopus -b:a 64k -f ogg";
    let Some(pairs) = decoded(make, Encoding::Opus, &[SAMPLES], false) else {
        return;
    };
    let (received, direct) = &pairs[0];
    // Ogg says what is to be cut at the start and at the end; RTP cannot.
    let cut = 312 * 4;
    println!(
        "Opus: {} bytes of samples, {} from the file",
        received.len(),
        direct.len()
    );
    assert!(direct.len() > 48_000 * 4);
    assert!(received[cut..].starts_with(direct));
}

#[test]
fn transport_stream() {
    let make = "-f lavfi -i testsrc=size=160x120:rate=25:duration=2 -f lavfi -i sine=duration=2 \
                -c:v mpeg2video -g 12 -c:a mp2 -f mpegts";
    let pictures = "-map 0:v -fps_mode passthrough -pix_fmt yuv420p -f rawvideo";
    let Some(pairs) = decoded(make, Encoding::MpegTs, &[pictures, SAMPLES], false) else {
        return;
    };
    // The last unit of each is not over for ffmpeg until the next begins: a picture, and a few
    // frames of audio.
    for ((received, direct), unit_bytes) in pairs.iter().zip([160 * 120 * 3 / 2, 7 * 1152 * 2]) {
        println!(
            "MPEG-TS: {} bytes, {} from the file",
            received.len(),
            direct.len()
        );
        assert!(direct.starts_with(received));
        assert!(received.len() + unit_bytes >= direct.len());
    }
}
