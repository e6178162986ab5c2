//! ffmpeg opens `rtsp://…` over UDP and records exactly what is sent.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use hythe_media::wire::header::Headers;
use hythe_rtp::format::Encoding;
use hythe_rtp::rtsp::{Limits, Presentation, Started};
use hythe_rtp::{Identity, L16};
use hythe_testing::{Polling, let_time_pass};
use rtp_types::RtpPacketBuilder;

use super::catalogue::stream;
use super::running::{Owner, Running, TIME_LIMIT, socket_pair};

const RATE: u32 = 8000;
/// 20 ms.
const PACKET_SAMPLES: usize = 160;
/// Less than is sent: ffmpeg stops by itself, and says TEARDOWN.
const RECORDED_SAMPLES: usize = 12_000;
const RECORDED_SECONDS: &str = "1.5";
const IDENTITY: Identity = Identity {
    ssrc: 0xFEED_BEEF,
    sequence: 65_500, // wraps on the way
    timestamp: u32::MAX - 5000,
    name: *b"hythe-tests\0",
};

/// Samples that no silence, repetition or swap can be taken for.
fn sample(index: usize) -> u16 {
    ((index as u64 * 2_654_435_761) >> 7) as u16
}

#[test]
fn ffmpeg_records_what_is_sent() {
    for (host, local) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1")] {
        if std::net::TcpListener::bind(host).is_err() {
            eprintln!("SKIPPED: this machine has no {local}");
            continue;
        }
        record(host, local);
    }
}

fn record(host: &str, local: &str) {
    if let Err(error) = Command::new("ffmpeg").arg("-version").output() {
        eprintln!("SKIPPED: ffmpeg cannot be started ({error}): apt-get install ffmpeg");
        return;
    }
    let (rtp, rtcp) = socket_pair(local);
    let mut owner = Owner::new();
    let mut streams = vec![
        stream(Encoding::L16, 97, RATE, 1),
        stream(Encoding::Pcmu, 0, RATE, 1),
    ];
    for stream in &mut streams {
        stream.server_port = rtp.local_addr().unwrap().port();
        stream.ssrc = Some(IDENTITY.ssrc);
    }
    let presentation = Presentation {
        streams,
        duration_ns: None,
        can_seek: false,
        can_pause: true,
    };
    owner.catalogue.0.insert("x".to_owned(), presentation);
    owner.started = Started {
        sequence: IDENTITY.sequence,
        timestamp: IDENTITY.timestamp,
        from_ns: None,
    };
    let running = Running::start(host, Limits::default(), owner);
    let folder = Folder::new(&format!("hythe-rtsp-{}", std::process::id()));
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| send(&running, &rtp, &ended));
        let succeeded = run_ffmpeg(&running.url("x"), &folder);
        ended.store(true, Ordering::Relaxed);
        sender.join().unwrap();
        assert!(succeeded);
    });
    drop(rtcp);
    let linear: Vec<u8> = (0..RECORDED_SAMPLES)
        .flat_map(|index| sample(index).to_le_bytes())
        .collect();
    assert!(
        fs::read(folder.path("l16")).unwrap() == linear,
        "L16 differs"
    );
    let coded: Vec<u8> = (0..RECORDED_SAMPLES)
        .map(|index| sample(index) as u8)
        .collect();
    assert!(
        fs::read(folder.path("pcmu")).unwrap() == coded,
        "PCMU differs"
    );
    // It sends TEARDOWN before it ends, and does not wait for the answer.
    running.until(|playing| playing.stops == 2);
    let counters = running.stop();
    println!("{counters:?}");
    assert_eq!(
        (
            counters.sessions,
            counters.refused_requests,
            counters.lost_sessions
        ),
        (1, 0, 0)
    );
}

fn run_ffmpeg(url: &str, folder: &Folder) -> bool {
    let mut command = Command::new("ffmpeg");
    command
        .args([
            "-hide_banner",
            "-nostdin",
            "-nostats",
            "-loglevel",
            "warning",
            "-y",
        ])
        .args(["-rtsp_transport", "udp", "-i", url])
        .args([
            "-map",
            "0:0",
            "-t",
            RECORDED_SECONDS,
            "-c:a",
            "pcm_s16le",
            "-f",
            "s16le",
        ])
        .arg(folder.path("l16"))
        .args([
            "-map",
            "0:1",
            "-t",
            RECORDED_SECONDS,
            "-c:a",
            "copy",
            "-f",
            "mulaw",
        ])
        .arg(folder.path("pcmu"))
        .stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (began, mut polling) = (Instant::now(), Polling::new("the end of ffmpeg"));
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        if began.elapsed() > TIME_LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            return false;
        }
        polling.pause();
    }
}

/// Sends both streams from their beginning to wherever they were started, a packet each every 20
/// ms.
fn send(running: &Running, rtp: &std::net::UdpSocket, ended: &AtomicBool) {
    let format = L16::new(RATE, 1).unwrap();
    let mut headers = Headers::new(format.payload_type(), &IDENTITY);
    let mut packet = 0;
    while !ended.load(Ordering::Relaxed) {
        let_time_pass(Duration::from_millis(20), "a sender's pace");
        let starts: Vec<_> = running
            .playing
            .lock()
            .unwrap()
            .streams
            .values()
            .cloned()
            .collect();
        if starts.len() < 2 {
            continue;
        }
        let samples = packet * PACKET_SAMPLES..(packet + 1) * PACKET_SAMPLES;
        for start in starts {
            let bytes = if start.stream == 0 {
                let header = headers.next(false, samples.start as u64);
                let samples = samples.clone();
                let payload = samples.flat_map(|index| sample(index).to_be_bytes());
                header.into_iter().chain(payload).collect()
            } else {
                coded_packet(packet)
            };
            rtp.send_to(&bytes, start.destination).unwrap();
        }
        packet += 1;
    }
}

fn coded_packet(packet: usize) -> Vec<u8> {
    let samples = packet * PACKET_SAMPLES..(packet + 1) * PACKET_SAMPLES;
    let payload: Vec<u8> = samples.map(|index| sample(index) as u8).collect();
    RtpPacketBuilder::<&[u8], &[u8]>::new()
        .payload_type(0)
        .sequence_number(IDENTITY.sequence.wrapping_add(packet as u16))
        .timestamp(
            IDENTITY
                .timestamp
                .wrapping_add((packet * PACKET_SAMPLES) as u32),
        )
        .ssrc(IDENTITY.ssrc)
        .payload(&payload[..])
        .write_vec()
        .unwrap()
}

/// Removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
