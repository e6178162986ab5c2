//! What ffmpeg sends arrives whole: compared with what the same ffmpeg writes to a file.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use hythe_media::receive::session::{End, Session, Until, now_ns};
use hythe_media::receive::socket::{Binding, Sockets};
use hythe_media::receive::stream::{Settings, Stream};
use hythe_rtp::Identity;

use crate::passing::{Kept, Passing, format};

fn ffmpeg(arguments: &str) -> Command {
    let mut command = Command::new("ffmpeg");
    command
        .args(["-hide_banner", "-loglevel", "error", "-nostdin"])
        .args(arguments.split(' '))
        .stdin(Stdio::null());
    command
}

#[test]
fn every_byte_that_ffmpeg_sends_arrives() {
    if let Err(error) = Command::new("ffmpeg").arg("-version").output() {
        eprintln!("SKIPPED: ffmpeg cannot be started ({error}): apt-get install ffmpeg");
        return;
    }
    for (codec, container, rate, channels, payload_type) in [
        ("pcm_mulaw", "mulaw", 8_000, 1, 0),
        ("pcm_alaw", "alaw", 8_000, 1, 8),
        ("pcm_s16be", "s16be", 44_100, 2, 10),
    ] {
        let input = format!(
            "-f lavfi -i sine=frequency=523:duration=1 -c:a {codec} -ar {rate} -ac {channels}"
        );
        let written = ffmpeg(&format!("{input} -f {container} pipe:1"))
            .output()
            .unwrap();
        assert!(written.status.success(), "{written:?}");

        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let sockets = Sockets::open(&Binding::new(any)).unwrap();
        let url = format!("rtp://{}", sockets.address());
        let settings = Settings::default();
        let format = format(payload_type, rate);
        let identity = Identity::seeded(4);
        let stream = Stream::new(
            settings,
            &format,
            &identity,
            Passing,
            Kept::default(),
            now_ns(),
        );
        let until = Until {
            goodbye: true,
            idle: Some(Duration::from_secs(20)),
        };
        let mut session = Session::new(sockets, stream, until);
        let mut sender = ffmpeg(&format!("-re {input} -rtpflags send_bye -f rtp {url}"));
        let mut sender = sender.stdout(Stdio::null()).spawn().unwrap();
        let ended = session.run(None);
        assert!(sender.wait().unwrap().success());
        let (end, statistics) = ended.unwrap();
        println!("{codec}: {statistics:?}");
        assert_eq!(end, End::Goodbye, "{statistics:?}");
        let kept = session.stream().sink();
        assert!(
            kept.bytes == written.stdout,
            "{codec}: {} of {}",
            kept.bytes.len(),
            written.stdout.len()
        );
        assert_eq!(
            (
                statistics.lost,
                statistics.kernel_drops,
                statistics.malformed
            ),
            (0, 0, 0)
        );
        // Sent at its pace, read at once: less than 100 ms, however busy the machine.
        assert!(statistics.jitter_ticks < rate / 10);
        assert!(statistics.sender_reports > 0);
        // Times follow from the bytes in front.
        let frame_bytes = if codec == "pcm_s16be" { 4 } else { 1 };
        let last = kept.units.last().unwrap().0;
        assert!(last < kept.bytes.len() as u64 / frame_bytes && last > u64::from(rate) / 2);
    }
}
