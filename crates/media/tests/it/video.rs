//! H.264 and H.265 made by ffmpeg: what our sources find in it, and what ffmpeg decodes of our
//! packets.

use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hythe_media::MediaError;
use hythe_media::sink::{Sink, annex_b as annex_b_sink};
use hythe_media::source::annex_b::{self, FrameRate, FrameRateOrigin, Options};
use hythe_media::source::{Source, mp4};
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::{Depacketize, Packetize, Received, h264, h265};
use hythe_rtp::unit::Unit;
use hythe_testing::{Edit, eventually, let_time_pass, until_process_sleeps, with_edits};

/// 2 s at 25 frames per second.
const FRAMES: usize = 50;
const FRAME_TICKS: u64 = 3600;

const X264_B: &[&str] = &["-c:v", "libx264", "-bf", "3", "-g", "20"];
const X264_NO_B: &[&str] = &["-c:v", "libx264", "-bf", "0", "-g", "20"];
const X264_SLICES: &[&str] = &[
    "-c:v",
    "libx264",
    "-bf",
    "0",
    "-g",
    "20",
    "-x264-params",
    "slices=4:aud=1",
];
const X264_REFRESH: &[&str] = &[
    "-c:v",
    "libx264",
    "-bf",
    "0",
    "-x264-params",
    "intra-refresh=1:keyint=20",
];
const X264_BASELINE: &[&str] = &["-c:v", "libx264", "-profile:v", "baseline", "-g", "20"];
const X264_INTRA: &[&str] = &["-c:v", "libx264", "-g", "1"];
const X265_B: &[&str] = &[
    "-c:v",
    "libx265",
    "-x265-params",
    "log-level=none:bframes=4:keyint=20:open-gop=0",
];
const X265_OPEN: &[&str] = &[
    "-c:v",
    "libx265",
    "-x265-params",
    "log-level=none:bframes=4:keyint=20:open-gop=1",
];
const X265_NO_B: &[&str] = &[
    "-c:v",
    "libx265",
    "-x265-params",
    "log-level=none:bframes=0:keyint=20:slices=3:aud=1",
];

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    /// `None`, and a word about it, where ffmpeg is missing.
    fn new(name: &str) -> Option<Self> {
        let found = Command::new("ffmpeg").arg("-version").output();
        if found.is_err() {
            eprintln!("SKIPPED: ffmpeg is not installed");
            return None;
        }
        let path = std::env::temp_dir().join(format!("hythe-video-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Some(Self(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Two seconds of test picture, encoded so; `None`, and a word about it, where this ffmpeg
    /// cannot.
    fn encode(&self, name: &str, options: &[&str]) -> Option<PathBuf> {
        let path = self.path(name);
        let output = ffmpeg(&[
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=320x240:rate=25:duration=2",
        ])
        .args([
            "-pix_fmt", "yuv420p", "-threads", "1", "-preset", "veryfast",
        ])
        .args(options)
        .arg(&path)
        .output()
        .unwrap();
        if !output.status.success() {
            eprintln!(
                "SKIPPED: ffmpeg cannot make {name}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return None;
        }
        Some(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ffmpeg(arguments: &[&str]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y"]);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The hashes of decoded frames, in display order, without their times.
fn frame_hashes(input: &Path) -> Vec<String> {
    let output = ffmpeg(&["-i"])
        .arg(input)
        .args(["-f", "framemd5", "-"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    hashes(&String::from_utf8(output.stdout).unwrap())
}

fn hashes(listing: &str) -> Vec<String> {
    let frames = listing.lines().filter(|line| !line.starts_with('#'));
    frames
        .map(|line| line.rsplit(',').next().unwrap().trim().to_owned())
        .collect()
}

/// Presentation times as ffprobe tells them, in decoding order, in 90 kHz.
fn probed_times(input: &Path) -> Vec<(u64, u64)> {
    let output = Command::new("ffprobe")
        .args([
            "-loglevel",
            "error",
            "-select_streams",
            "v",
            "-show_entries",
        ])
        .args(["packet=pts_time,dts_time", "-of", "csv=p=0"])
        .arg(input)
        .output()
        .unwrap();
    let ticks = |time: &str| (time.parse::<f64>().unwrap() * 90_000.0).round() as i64;
    let times: Vec<_> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let (shown, decoded) = line.split_once(',').unwrap();
            (ticks(shown), ticks(decoded.trim_end_matches(',')))
        })
        .collect();
    let start = times[0].1;
    let since = |time: i64| u64::try_from(time - start).unwrap();
    times
        .into_iter()
        .map(|(shown, decoded)| (since(shown), since(decoded)))
        .collect()
}

/// A unit with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    nals: Vec<Vec<u8>>,
    time: u64,
    due: u64,
    is_start: bool,
}

impl Owned {
    fn of(unit: &Unit<'_>) -> Self {
        Self {
            nals: unit.pieces.iter().map(|nal| nal.to_vec()).collect(),
            time: unit.time,
            due: unit.due,
            is_start: unit.is_start,
        }
    }

    fn lend(&self, take: &mut dyn FnMut(&Unit<'_>)) {
        let pieces: Vec<&[u8]> = self.nals.iter().map(Vec::as_slice).collect();
        take(&Unit {
            pieces: &pieces,
            time: self.time,
            due: self.due,
            duration: 0,
            is_start: self.is_start,
        });
    }
}

fn units(source: &mut dyn Source) -> Vec<Owned> {
    let mut units: Vec<Owned> = Vec::new();
    while let Some(unit) = source.next().unwrap() {
        assert!(units.last().is_none_or(|last| last.due <= unit.due));
        units.push(Owned::of(&unit));
    }
    units
}

fn open_stream(path: &Path) -> annex_b::AnnexB<File> {
    annex_b::open("stream", File::open(path).unwrap(), &Options::default()).unwrap()
}

/// The NAL units of a byte stream, found the plain way.
fn nals_of(path: &Path) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    let mut starts: Vec<usize> = (0..bytes.len() - 2)
        .filter(|at| bytes[*at..].starts_with(&[0, 0, 1]))
        .collect();
    starts.push(bytes.len() + 1);
    let between = |pair: &[usize]| {
        let mut nal = bytes
            [pair[0] + 3..(pair[1] - usize::from(pair[1] > bytes.len())).min(bytes.len())]
            .to_vec();
        nal.truncate(
            nal.iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 1),
        );
        nal
    };
    starts.windows(2).map(between).collect()
}

#[test]
fn byte_stream_yields_pictures_with_display_times() {
    let Some(folder) = Folder::new("streams") else {
        return;
    };
    for (name, options) in [
        ("b.h264", X264_B),
        ("plain.h264", X264_NO_B),
        ("slices.h264", X264_SLICES),
        ("refresh.h264", X264_REFRESH),
        ("baseline.h264", X264_BASELINE),
        ("intra.h264", X264_INTRA),
        ("b.h265", X265_B),
        ("open.h265", X265_OPEN),
        ("plain.h265", X265_NO_B),
    ] {
        let Some(path) = folder.encode(name, options) else {
            continue;
        };
        // The same stream in a container knows the times of its pictures.
        let movie = folder.encode("same.mp4", options).unwrap();
        let mut source = open_stream(&path);
        let (rate, origin) = source.frame_rate();
        assert_eq!(
            (rate.to_string().as_str(), origin),
            ("25", FrameRateOrigin::Stream),
            "{name}"
        );
        let units = units(&mut source);
        assert_eq!((units.len(), source.damaged()), (FRAMES, 0), "{name}");
        let nals: Vec<_> = units.iter().flat_map(|unit| unit.nals.clone()).collect();
        assert!(nals == nals_of(&path), "{name}: NAL units");
        assert!(units[0].is_start, "{name}");

        let shown: Vec<u64> = units.iter().map(|unit| unit.time).collect();
        let least = *shown.iter().min().unwrap();
        let shown: Vec<u64> = shown.iter().map(|time| time - least).collect();
        let probed = probed_times(&movie);
        let first = probed.iter().map(|(shown, _)| *shown).min().unwrap();
        let probed: Vec<u64> = probed.iter().map(|(shown, _)| shown - first).collect();
        assert_eq!(shown, probed, "{name}: display order");
        for (index, unit) in units.iter().enumerate() {
            assert_eq!(unit.due, index as u64 * FRAME_TICKS);
            assert!(unit.time >= unit.due, "{name}: shown before it is sent");
        }
    }
}

#[test]
fn movie_gives_the_times_that_it_says() {
    let Some(folder) = Folder::new("movies") else {
        return;
    };
    let fragments: &[&str] = &["-movflags", "frag_keyframe+empty_moov+default_base_moof"];
    let old_fragments: &[&str] = &["-movflags", "frag_keyframe"];
    for (name, options, more) in [
        ("b.mp4", X264_B, &[][..]),
        (
            "negative.mp4",
            X264_B,
            &["-movflags", "negative_cts_offsets"],
        ),
        ("b.mov", X264_B, &["-movflags", "faststart"]),
        (
            "slices.mp4",
            X264_SLICES,
            &["-video_track_timescale", "30000"],
        ),
        ("fragments.mp4", X264_B, fragments),
        ("old.mp4", X264_B, old_fragments),
        ("b265.mp4", X265_B, &["-tag:v", "hvc1"]),
        ("hev1.mp4", X265_NO_B, &["-tag:v", "hev1"]),
        ("fragments265.mp4", X265_B, fragments),
    ] {
        let Some(path) = folder.encode(name, &[options, more].concat()) else {
            continue;
        };
        let mut source = mp4::open(&path).unwrap();
        let units = units(&mut source);
        assert_eq!((units.len(), source.damaged()), (FRAMES, 0), "{name}");
        let probed = probed_times(&path);
        let decoded: Vec<u64> = units.iter().map(|unit| unit.due).collect();
        let expected: Vec<u64> = probed.iter().map(|(_, decoded)| *decoded).collect();
        assert_eq!(decoded, expected, "{name}: decoding times");
        // What is shown comes at one distance from what the movie says.
        let shift = units[0].time - probed[0].0;
        for (unit, (shown, _)) in units.iter().zip(&probed) {
            assert_eq!(unit.time, shown + shift, "{name}");
        }
        let is_h264 = source.format().encoding == Encoding::H264;
        for unit in units.iter().filter(|unit| unit.is_start) {
            let has_sets = unit.nals.iter().any(|nal| match is_h264 {
                true => nal[0] & 0x1f == 7,
                false => nal[0] >> 1 == 33,
            });
            assert!(has_sets, "{name}: a key frame has no parameter sets");
        }
        // Written as a byte stream, it is the same video.
        let stream = folder.path("out.stream");
        let mut sink = annex_b_sink::AnnexB::create(&stream).unwrap();
        units
            .iter()
            .for_each(|unit| unit.lend(&mut |unit| sink.take(unit, false).unwrap()));
        sink.finish().unwrap();
        assert_eq!(frame_hashes(&stream), frame_hashes(&path), "{name}");
    }
}

/// When pictures are shown that ffmpeg decodes, in 90 kHz.
fn shown_times(input: &Path) -> Vec<i64> {
    let output = Command::new("ffprobe")
        .args(["-loglevel", "error", "-select_streams", "v"])
        .args(["-show_entries", "frame=pts_time", "-of", "csv=p=0"])
        .arg(input)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let times = text.lines().map(|line| line.trim_end_matches(','));
    let times = times.filter(|time| !time.is_empty());
    let seconds = times.map(|time| time.parse::<f64>().unwrap());
    seconds
        .map(|time| (time * 90_000.0).round() as i64)
        .collect()
}

#[test]
fn edit_list_sends_only_what_decoding_needs() {
    let Some(folder) = Folder::new("edits") else {
        return;
    };
    // Key frames are at 0, 800 and 1,600 ms. How many are sent to decode others of them.
    let cuts: [(&[Edit], usize); 6] = [
        (&[Edit::Part(800, 1200)], 0),
        (&[Edit::Part(1000, 600)], 5),
        (&[Edit::Part(0, 1000)], 0),
        (&[Edit::Part(0, 400), Edit::Part(1600, 400)], 0),
        (&[Edit::Part(1600, 400), Edit::Part(120, 200)], 3),
        (&[Edit::Empty(500), Edit::Part(0, 2000)], 0),
    ];
    for options in [X264_NO_B, X264_B] {
        let whole = folder.encode("whole.mp4", options).unwrap();
        for (edits, others) in cuts {
            let goes_back =
                matches!(edits, [Edit::Part(first, _), Edit::Part(second, _)] if second < first);
            if goes_back && options == X264_B {
                // ffmpeg shows the second part later than the list says.
                continue;
            }
            let path = folder.path("cut.mp4");
            fs::write(&path, with_edits(&fs::read(&whole).unwrap(), edits)).unwrap();
            let sent = units(&mut mp4::open(&path).unwrap());
            let shown = shown_times(&path);
            let is_sent = |time: i64| sent.iter().any(|unit| unit.time as i64 == time);
            let shift = sent.iter().map(|unit| unit.time as i64 - shown[0]);
            let shift = shift
                .filter(|shift| shown.iter().all(|time| is_sent(time + shift)))
                .max();
            let shift = shift.unwrap_or_else(|| panic!("{edits:?}: not at {shown:?}"));
            let not_shown = sent
                .iter()
                .map(|unit| unit.time as i64 - shift)
                .filter(|time| !shown.contains(time));
            let not_shown: Vec<i64> = not_shown.collect();
            // A picture that is shown behind the cut is decoded before others in front of it.
            let reordered = if options == X264_B { 4 } else { 0 };
            let count = others..=others + reordered * edits.len();
            assert!(count.contains(&not_shown.len()), "{edits:?}: {not_shown:?}");
            for time in not_shown {
                let nearest = shown.iter().map(|shown| shown.abs_diff(time)).min();
                let nearest = nearest.unwrap();
                assert!(nearest < FRAME_TICKS, "{edits:?}: {nearest}");
            }
            let times: Vec<u64> = sent.iter().map(|unit| unit.time).collect();
            assert!(
                times
                    .iter()
                    .enumerate()
                    .all(|(at, time)| !times[..at].contains(time)),
                "{edits:?}: two at one time in {times:?}"
            );
        }
    }
}

#[test]
fn frame_rates_are_the_streams_then_the_callers_then_assumed() {
    let Some(folder) = Folder::new("rates") else {
        return;
    };
    let film = &["-r", "30000/1001", "-c:v", "libx264", "-bf", "0"];
    if let Some(path) = folder.encode("film.h264", film) {
        let (rate, origin) = open_stream(&path).frame_rate();
        assert_eq!(
            (rate.to_string().as_str(), origin),
            ("30000/1001", FrameRateOrigin::Stream)
        );
    }
    let silent = &[
        "-c:v",
        "libx265",
        "-x265-params",
        "log-level=none:vui-timing-info=0:bframes=0",
    ];
    let Some(path) = folder.encode("silent.h265", silent) else {
        return;
    };
    let mut options = Options::default();
    let rate_with = |options: &Options| {
        let opened = annex_b::open("stream", File::open(&path).unwrap(), options);
        opened.unwrap().frame_rate()
    };
    let (rate, origin) = rate_with(&options);
    assert_eq!(
        (rate.to_string().as_str(), origin),
        ("25", FrameRateOrigin::Assumed)
    );
    options.frame_rate = FrameRate::new(50, 1);
    let (rate, origin) = rate_with(&options);
    assert_eq!(
        (rate.to_string().as_str(), origin),
        ("50", FrameRateOrigin::Options)
    );
}

#[test]
fn interlaced_video_coded_as_frames_is_taken() {
    let Some(folder) = Folder::new("interlaced") else {
        return;
    };
    // Only the flag that single fields may come is set, and that is no reason to refuse.
    let options = &["-c:v", "libx264", "-flags", "+ildct+ilme", "-bf", "2"];
    let Some(path) = folder.encode("interlaced.h264", options) else {
        return;
    };
    assert_eq!(units(&mut open_stream(&path)).len(), FRAMES);
}

/// Every source is given the stream with bytes changed, cut out and cut off: an error or fewer
/// pictures, never a panic.
#[test]
fn damage_is_passed_over_or_refused() {
    let Some(folder) = Folder::new("damage") else {
        return;
    };
    let fragments: &[&str] = &["-movflags", "frag_keyframe+empty_moov+default_base_moof"];
    for (name, options, more) in [
        ("b.h264", X264_B, &[][..]),
        ("b.h265", X265_B, &[]),
        ("b.mp4", X264_B, &[]),
        ("fragments.mp4", X264_B, fragments),
        ("b265.mp4", X265_B, &[]),
    ] {
        let Some(path) = folder.encode(name, &[options, more, &["-s", "64x64"]].concat()) else {
            continue;
        };
        let original = fs::read(&path).unwrap();
        let is_stream = path.extension().is_some_and(|extension| extension != "mp4");
        let damaged_path = folder.path("damaged.mp4");
        let mut seed = 0x5eed_u64;
        let mut dice = |bound: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % bound
        };
        // The index of a movie is at its end: most of its bytes matter, few of the media's do.
        let index = original
            .windows(4)
            .position(|kind| kind == b"moov")
            .unwrap_or(0);
        for _ in 0..300 {
            let mut damaged = original.clone();
            for _ in 0..1 + dice(8) {
                let from = if dice(4) == 0 { 0 } else { index };
                let at = from + dice(damaged.len() - from);
                match dice(5) {
                    0 => damaged.truncate(at.max(index + 64).min(damaged.len())),
                    1 => drop(damaged.drain(at..(at + 1 + dice(40)).min(damaged.len()))),
                    2 => damaged[at] = 0xff,
                    _ => damaged[at] ^= 1 << dice(8),
                }
            }
            let source: Result<Box<dyn Source>, MediaError> = if is_stream {
                annex_b::open("damaged", Cursor::new(damaged), &Options::default())
                    .map(|source| Box::new(source) as _)
            } else {
                fs::write(&damaged_path, damaged).unwrap();
                mp4::open(&damaged_path).map(|source| Box::new(source) as _)
            };
            let Ok(mut source) = source else { continue };
            let mut count = 0;
            while let Ok(Some(unit)) = source.next() {
                assert!(!unit.is_empty());
                count += 1;
                assert!(count <= 100 * FRAMES, "{name}: endless");
            }
        }
    }
}

/// A process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_bound(port: u16) {
    let wanted = format!(":{port:04X} ");
    eventually("ffmpeg listens", || {
        fs::read_to_string("/proc/net/udp")
            .unwrap()
            .contains(&wanted)
    });
}

/// Waits until the socket's queue is empty, and all threads of ffmpeg wait for more.
fn wait_read(port: u16, receiver: u32) {
    let wanted = format!(":{port:04X} ");
    let is_empty = |line: &str| !line.contains(&wanted) || line.contains(":00000000 00:");
    eventually("ffmpeg takes everything", || {
        let sockets = fs::read_to_string("/proc/net/udp").unwrap();
        sockets.lines().all(is_empty)
    });
    until_process_sleeps(receiver);
}

fn packetizer(encoding: Encoding) -> Box<dyn Packetize> {
    match encoding {
        Encoding::H264 => Box::new(h264::Packetizer),
        _ => Box::new(h265::Packetizer),
    }
}

fn session(format: &StreamFormat, port: u16) -> String {
    let StreamFormat {
        payload_type,
        clock_hz,
        parameters,
        ..
    } = format;
    let name = format.encoding.name();
    format!(
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=test\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video {port} RTP/AVP {payload_type}\r\n\
         a=rtpmap:{payload_type} {name}/{clock_hz}\r\na=fmtp:{payload_type} {parameters}\r\n"
    )
}

/// Sends a source at the pace of its decoding times.
fn send(source: &mut dyn Source, port: u16, receiver: u32) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ssrc = 0x4879_7468_u32.to_be_bytes();
    let format = source.format().clone();
    let mut packetizer = packetizer(format.encoding);
    let (start, mut sequence) = (Instant::now(), 0_u16);
    while let Some(unit) = source.next().unwrap() {
        let due = Duration::from_micros(unit.due * 1_000_000 / u64::from(format.clock_hz));
        let_time_pass(due.saturating_sub(start.elapsed()), "a sender's pace");
        packetizer.packetize(&unit, 1200, &mut |payload| {
            let mut packet = vec![0x80, format.payload_type | u8::from(payload.marker) << 7];
            packet.extend(sequence.to_be_bytes());
            packet.extend((payload.time as u32).to_be_bytes());
            packet.extend(ssrc);
            packet.extend(payload.prefix);
            payload.body.iter().for_each(|slice| packet.extend(*slice));
            socket.send_to(&packet, ("127.0.0.1", port)).unwrap();
            sequence = sequence.wrapping_add(1);
        });
    }
    // ffmpeg reads RTCP first and would overlook what still waits; and it takes no goodbye without
    // a report in front.
    wait_read(port, receiver);
    let bye = [[0x80, 201, 0, 1], ssrc, [0x81, 203, 0, 1], ssrc].concat();
    socket.send_to(&bye, ("127.0.0.1", port + 1)).unwrap();
}

/// What ffmpeg decodes of our packets.
fn received_hashes(folder: &Folder, source: &mut dyn Source) -> Vec<String> {
    let port = hythe_testing::reserve_ports(2);
    let (description, listing) = (folder.path("session.sdp"), folder.path("received.md5"));
    fs::write(&description, session(source.format(), port)).unwrap();
    let receiver = ffmpeg(&["-protocol_whitelist", "file,udp,rtp", "-i"])
        .arg(&description)
        .args(["-vsync", "passthrough", "-f", "framemd5"])
        .arg(&listing)
        .spawn();
    let mut receiver = Running(receiver.unwrap());
    wait_bound(port);
    send(source, port, receiver.0.id());
    eventually("ffmpeg ends", || receiver.0.try_wait().unwrap().is_some());
    hashes(&fs::read_to_string(&listing).unwrap())
}

#[test]
fn ffmpeg_decodes_of_our_packets_what_it_decodes_of_the_file() {
    let Some(folder) = Folder::new("received") else {
        return;
    };
    for (name, options) in [
        ("b.mp4", X264_B),
        ("plain.h264", X264_NO_B),
        ("slices.h264", X264_SLICES),
        ("b.h264", X264_B),
        ("b265.mp4", X265_B),
        ("plain.h265", X265_NO_B),
    ] {
        let Some(path) = folder.encode(name, options) else {
            continue;
        };
        let received = match path.extension().is_some_and(|extension| extension == "mp4") {
            true => received_hashes(&folder, &mut mp4::open(&path).unwrap()),
            false => received_hashes(&folder, &mut open_stream(&path)),
        };
        assert_eq!(received.len(), FRAMES, "{name}");
        assert_eq!(received, frame_hashes(&path), "{name}");
    }
}

/// Over our own packets and back, with nothing lost, the byte stream is the same to the byte.
#[test]
fn stream_that_is_sent_and_received_is_the_same() {
    let Some(folder) = Folder::new("back") else {
        return;
    };
    for (name, options) in [
        ("b.h264", X264_B),
        ("slices.h264", X264_SLICES),
        ("b.h265", X265_B),
    ] {
        let Some(path) = folder.encode(name, options) else {
            continue;
        };
        let mut source = open_stream(&path);
        let format = source.format().clone();
        let mut depacketizer: Box<dyn Depacketize> = match format.encoding {
            Encoding::H264 => Box::new(h264::Depacketizer::new(&format).unwrap()),
            _ => Box::new(h265::Depacketizer::new(&format).unwrap()),
        };
        let received_path = folder.path("received.stream");
        let mut sink = annex_b_sink::AnnexB::create(&received_path).unwrap();
        let mut packetizer = packetizer(format.encoding);
        while let Some(unit) = source.next().unwrap() {
            packetizer.packetize(&unit, 1200, &mut |payload| {
                let bytes = [payload.prefix, &payload.body.concat()].concat();
                let received = Received {
                    bytes: &bytes,
                    marker: payload.marker,
                    time: payload.time,
                    after_gap: false,
                };
                let mut emit = |unit: &Unit<'_>, missing: bool| {
                    assert!(!missing);
                    sink.take(unit, missing).unwrap();
                };
                depacketizer.take(&received, &mut emit).unwrap();
            });
        }
        sink.finish().unwrap();
        assert!(nals_of(&received_path) == nals_of(&path), "{name}");
        assert_eq!(frame_hashes(&received_path), frame_hashes(&path), "{name}");
    }
}

#[test]
fn source_refuses_non_video() {
    let refused = |bytes: &[u8]| {
        let opened = annex_b::open("given", Cursor::new(bytes.to_vec()), &Options::default());
        opened.err().unwrap().to_string()
    };
    for bytes in [
        &[][..],
        &[0; 1000],
        &[7; 1000],
        b"RIFF\0\0\0\0WAVE",
        &[0, 0, 1, 0x67, 0x42],
        &[0, 0, 1, 0x65, 0x88],
    ] {
        assert!(
            refused(bytes).starts_with("given, byte "),
            "{}",
            refused(bytes)
        );
    }
    let error = mp4::open(Path::new("/dev/null")).err().unwrap();
    assert!(
        error.to_string().contains("a device, not a regular file"),
        "{error}"
    );
    let error = mp4::open(Path::new("/nonexistent/movie.mp4"))
        .err()
        .unwrap();
    assert!(matches!(error, MediaError::File { .. }), "{error}");
}
