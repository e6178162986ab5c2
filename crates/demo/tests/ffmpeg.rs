//! ffmpeg opens our session description as it is and records exactly what was sent.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../media/tests/it/speaker/mod.rs"]
mod speaker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use hythe_demo::DemoError;
use hythe_demo::counter::{PacketCounter, count_from_recording};
use hythe_demo::receiver::FfmpegReceiver;
use hythe_media::MediaError;
use hythe_media::sdp::{self, StreamDescription};
use hythe_rtp::{Identity, L16};
use rustix::process::{Pid, Signal, kill_process};
use speaker::{BLOCK_MS, Speaker};

const READY_TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn recording_equals_what_was_sent_sample_for_sample() {
    for (round, rate, channels) in [
        (0, 44_100, 2),
        (1, 44_100, 1),
        (2, 48_000, 2),
        (3, 22_050, 1),
    ] {
        let format = L16::new(rate, channels).unwrap();
        let Some(setup) = Setup::new("equal", format, "127.0.0.1") else {
            return;
        };
        assert!(setup.run(rate as usize, round), "{format:?}");
    }
}

#[test]
fn ipv6_works_too() {
    let format = L16::new(16_000, 1).unwrap();
    let Some(setup) = Setup::new("ipv6", format, "::1") else {
        return;
    };
    assert!(setup.run(8_000, 9));
}

#[test]
fn port_in_use_is_named() {
    let format = L16::new(44_100, 2).unwrap();
    let Some(setup) = Setup::new("taken", format, "127.0.0.1") else {
        return;
    };
    let port = setup.destination.port() + 1;
    let _other = std::net::UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let error = FfmpegReceiver::start(&setup.path("sdp"), &setup.path("wav")).unwrap_err();
    assert!(
        matches!(error, DemoError::Media(MediaError::PortTaken { port: taken }) if taken == port),
        "{error}"
    );
}

#[test]
fn receiver_that_gives_up_says_why() {
    let format = L16::new(44_100, 2).unwrap();
    let Some(setup) = Setup::new("gives-up", format, "127.0.0.1") else {
        return;
    };
    let wav = setup.path("wav");
    fs::create_dir(&wav).unwrap();
    let started = FfmpegReceiver::start(&setup.path("sdp"), &wav);
    assert!(
        matches!(started, Err(DemoError::Media(MediaError::File { .. }))),
        "{started:?}"
    );

    fs::remove_dir(&wav).unwrap();
    let mut receiver = FfmpegReceiver::start(&setup.path("sdp"), &wav).unwrap();
    kill(&receiver);
    let error = receiver.wait_ready(READY_TIMEOUT).unwrap_err();
    assert!(matches!(&error, DemoError::ReceiverEnded { .. }), "{error}");
}

#[test]
fn receiver_killed_in_the_middle_ends_the_wait() {
    let format = L16::new(44_100, 2).unwrap();
    let Some(setup) = Setup::new("killed", format, "127.0.0.1") else {
        return;
    };
    let mut receiver = FfmpegReceiver::start(&setup.path("sdp"), &setup.path("wav")).unwrap();
    receiver.wait_ready(READY_TIMEOUT).unwrap();
    kill(&receiver);
    // Without samples there is no recording, or one that is shorter than expected.
    match receiver.finish(44_100) {
        Ok(received) => assert!(received.recording.samples.is_empty()),
        Err(error) => assert!(
            matches!(error, DemoError::Media(MediaError::File { .. })),
            "{error}"
        ),
    }
}

#[test]
fn sender_that_falls_silent_leaves_a_shorter_recording() {
    let format = L16::new(8_000, 1).unwrap();
    let Some(setup) = Setup::new("silent", format, "127.0.0.1") else {
        return;
    };
    let mut receiver = FfmpegReceiver::start(&setup.path("sdp"), &setup.path("wav")).unwrap();
    receiver.wait_ready(READY_TIMEOUT).unwrap();
    let identity = Identity::seeded(1);
    let samples = vec![1; 1600];
    if Speaker::speak(setup.destination, format, identity, samples).is_none() {
        return;
    }
    // And it is gone, without a BYE.
    let received = receiver.finish(8_000).unwrap();
    assert_eq!(received.recording.samples, [0x0101; 800]);
}

#[test]
fn receiver_that_reads_late_still_gets_every_sample() {
    let format = L16::new(44_100, 2).unwrap();
    let Some(setup) = Setup::new("late", format, "127.0.0.1") else {
        return;
    };
    let mut receiver = FfmpegReceiver::start(&setup.path("sdp"), &setup.path("wav")).unwrap();
    receiver.wait_ready(READY_TIMEOUT).unwrap();
    let identity = Identity::seeded(1);
    signal(&receiver, Signal::STOP);
    let samples = vec![7; 11_520 * 4];
    let speaker = Speaker::speak(setup.destination, format, identity, samples);
    // Everything waits in the socket of a process that does not run.
    signal(&receiver, Signal::CONT);
    let Some(mut speaker) = speaker else {
        return;
    };
    let received = receiver.finish(11_520).unwrap();
    speaker.session.say_goodbye().unwrap();
    assert_eq!(received.recording.samples, vec![0x0707; 2 * 11_520]);
}

/// As a crash would end it.
fn kill(receiver: &FfmpegReceiver) {
    signal(receiver, Signal::KILL);
}

fn signal(receiver: &FfmpegReceiver, signal: Signal) {
    let pid = Pid::from_raw(receiver.pid() as i32).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn dropped_receiver_leaves_no_process() {
    let format = L16::new(44_100, 2).unwrap();
    let Some(setup) = Setup::new("dropped", format, "127.0.0.1") else {
        return;
    };
    let receiver = FfmpegReceiver::start(&setup.path("sdp"), &setup.path("wav")).unwrap();
    let process = PathBuf::from(format!("/proc/{}", receiver.pid()));
    assert!(process.exists());
    drop(receiver);
    assert!(!process.exists());
}

/// A directory with a session description, and a free port; `None` (said aloud) without ffmpeg.
struct Setup {
    directory: PathBuf,
    format: L16,
    destination: SocketAddr,
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Setup {
    fn new(name: &str, format: L16, host: &str) -> Option<Self> {
        if let Err(error) = std::process::Command::new("ffmpeg")
            .arg("-version")
            .output()
        {
            eprintln!("SKIPPED: ffmpeg cannot be started ({error}): apt-get install ffmpeg");
            return None;
        }
        let directory = env::temp_dir().join(format!("hythe-ffmpeg-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        if std::net::UdpSocket::bind((host, 0)).is_err() {
            eprintln!("SKIPPED: this machine has no {host}");
            return None;
        }
        let port = hythe_testing::reserve_ports(2);
        let destination = SocketAddr::new(host.parse().unwrap(), port);
        let setup = Self {
            directory,
            format,
            destination,
        };
        let stream = StreamDescription::new(format.into(), destination);
        sdp::write(&setup.path("sdp"), &sdp::describe(&[stream], 1)).unwrap();
        Some(setup)
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.directory.join("stream").with_extension(extension)
    }

    /// Sends `frames` sample frames and compares what ffmpeg recorded.
    fn run(&self, frames: usize, seed: u64) -> bool {
        let channels = usize::from(self.format.channels());
        let samples: Vec<i16> = (0..frames * channels)
            .map(|index| ((index as u64 * 2_654_435_761 + seed) >> 7) as i16)
            .collect();
        let mut receiver = FfmpegReceiver::start(&self.path("sdp"), &self.path("wav")).unwrap();
        receiver.wait_ready(READY_TIMEOUT).unwrap();

        let counter = PacketCounter::start(self.destination);

        let identity = Identity::seeded(seed);
        let bytes = samples.iter().flat_map(|sample| sample.to_be_bytes());
        let speaker = Speaker::speak(self.destination, self.format, identity, bytes.collect());
        let Some(mut speaker) = speaker else {
            return true;
        };
        let received = receiver.finish(frames as u64).unwrap();
        speaker.session.say_goodbye().unwrap();
        let statistics = speaker.session.statistics();
        let recorded = (received.recording.samples.len() / channels) as u64;
        let count = match counter {
            Ok(counter) => counter.stop().unwrap(),
            Err(error) => {
                eprintln!("counting from the recording: {error}");
                let block = self.format.samples_per_second() * BLOCK_MS / 1000;
                count_from_recording(self.format, std::iter::repeat(block.into()), recorded)
            }
        };
        println!("{:?} {statistics:?} {count:?}", self.format);
        assert_eq!((count.packets, count.missing), (statistics.packets, 0));
        assert_eq!(received.dropped, 0);
        let payload_bytes = statistics.bytes - 12 * statistics.packets;
        assert_eq!(payload_bytes, (frames * self.format.frame_bytes()) as u64);
        assert_eq!(received.recording.format, self.format);
        received.recording.samples == samples
    }
}
