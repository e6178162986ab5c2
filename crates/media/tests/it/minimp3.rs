//! The splitter against minimp3 itself: same frames, same order, same resets, and the same PCM when
//! only the pieces are decoded. On real recordings, on made-up streams, and on damaged ones.
//!
//! Damage is driven by a seed that is printed; `HYTHE_TEST_SEED` repeats a run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use hythe_media::MediaError;
use hythe_media::mp3::{FrameSplitter, Gap, MIN_WINDOW_BYTES, Step, TAIL_BYTES, Window, audio_end};
use hythe_testing::Dice;

/// One frame as both sides describe it: offset, bytes, reset.
type Found = (u64, usize, bool);

#[test]
fn recordings_of_every_kind_split_as_minimp3_splits_them() {
    let Some(bench) = Bench::new("recordings") else {
        return;
    };
    for (name, arguments) in [
        ("cbr", "-ar 44100 -ac 2 -b:a 128k"),
        (
            "vbr-tags",
            "-ar 48000 -ac 2 -q:a 3 -metadata title=Hythe -write_id3v1 1",
        ),
        (
            "mono-mpeg2",
            "-ar 22050 -ac 1 -b:a 32k -id3v2_version 4 -metadata title=Hythe",
        ),
        ("mono-mpeg25", "-ar 8000 -ac 1 -q:a 5 -write_xing 0"),
        ("no-reservoir", "-ar 32000 -ac 2 -b:a 320k -reservoir 0"),
    ] {
        let Some(stream) = bench.encode(name, arguments) else {
            return;
        };
        let frames = bench.compare(&stream, name);
        assert!(frames > 30, "{name}: only {frames} frames");
        for behind in [&b""[..], b"x", b"garbage", &[0xff; 3000], &[0x55; 70_000]] {
            let tagged = [&stream[..], behind].concat();
            bench.compare_played(&tagged, &format!("{name}, {} bytes", behind.len()));
        }
    }
}

#[test]
fn damaged_recordings_split_as_minimp3_splits_them() {
    let Some(bench) = Bench::new("damaged") else {
        return;
    };
    let (mut dice, seed) = dice();
    for arguments in ["-ar 44100 -ac 2 -q:a 4", "-ar 16000 -ac 1 -b:a 24k"] {
        let Some(stream) = bench.encode("victim", arguments) else {
            return;
        };
        for round in 0..40 {
            let damaged = damage(&stream, &mut dice);
            bench.compare(&damaged, &format!("seed {seed} round {round}"));
            bench.compare_played(&damaged, &format!("seed {seed} round {round}"));
        }
    }
}

#[test]
fn made_up_streams_split_as_minimp3_splits_them() {
    let Some(bench) = Bench::new("made-up") else {
        return;
    };
    let (mut dice, seed) = dice();
    for round in 0..60 {
        let mut stream = Vec::new();
        for _ in 0..1 + dice.below(4) {
            let (second, rate) =
                *dice.pick(&[(0xfb, 0), (0xfa, 4), (0xf3, 8), (0xe3, 0), (0xe2, 4)]);
            for _ in 0..dice.below(40) {
                let third = (1 + dice.below(14) as u8) << 4 | rate | (dice.below(2) as u8) << 1;
                push_frame(
                    &mut stream,
                    [0xff, second, third, *dice.pick(&[0x64, 0xc4])],
                );
            }
            if dice.below(3) == 0 {
                let garbage = dice.below(300);
                stream.extend((0..garbage).map(|_| *dice.pick(&[0xff, 0xfb, 0x90, 0, 0x55])));
            }
        }
        let stream = if dice.below(2) == 0 {
            damage(&stream, &mut dice)
        } else {
            stream
        };
        bench.compare(&stream, &format!("seed {seed} round {round}"));
        bench.compare_played(&stream, &format!("seed {seed} round {round}"));
    }
}

/// Appends a silent frame with this header.
fn push_frame(stream: &mut Vec<u8>, header: [u8; 4]) {
    let parsed = hythe_media::mp3::Header::parse(&header).unwrap();
    let end = stream.len() + parsed.frame_bytes().unwrap();
    stream.extend_from_slice(&header);
    stream.resize(end, 0);
}

/// Cuts, repeats, overwrites and flips, a few times.
fn damage(stream: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = stream.to_vec();
    for _ in 0..1 + dice.below(6) {
        if bytes.len() < 2 {
            break;
        }
        let at = dice.below(bytes.len());
        let end = (at + 1 + dice.below(2000)).min(bytes.len());
        match dice.below(5) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(end),
            2 => bytes[at] ^= 1 << dice.below(8),
            3 => bytes[at..end].fill(*dice.pick(&[0, 0xff, 0x55])),
            _ => {
                let copy = bytes[at..end].to_vec();
                let to = dice.below(bytes.len());
                bytes.splice(to..to, copy);
            }
        }
    }
    bytes
}

/// Dice, and their seed: another one in each run, unless the environment names it.
fn dice() -> (Dice, u64) {
    let given = env::var("HYTHE_TEST_SEED").ok();
    let given = given.and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    println!("HYTHE_TEST_SEED={seed}");
    (Dice::new(seed), seed)
}

/// A directory with the compiled oracle.
struct Bench {
    directory: PathBuf,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Bench {
    fn new(name: &str) -> Option<Self> {
        let directory = env::temp_dir().join(format!("hythe-mp3-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let bench = Self { directory };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/minimp3/oracle.c");
        // On damaged frames minimp3 decodes what its scratch memory happened to hold, on the stack:
        // set to zero.
        let compiled = Command::new("gcc")
            .args(["-O1", "-ffp-contract=off", "-ftrivial-auto-var-init=zero"])
            .arg("-o")
            .arg(bench.directory.join("oracle"))
            .arg("-I")
            .arg(minimp3_directory())
            .arg(source)
            .arg("-lm")
            .status();
        match compiled {
            Err(error) => {
                eprintln!("SKIPPED: gcc cannot be started ({error}): apt-get install gcc");
                None
            }
            Ok(status) => {
                assert!(status.success(), "the oracle does not compile");
                bench.compile_reference();
                Some(bench)
            }
        }
    }

    /// The judge of what the demo plays.
    fn compile_reference(&self) {
        let rtos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtos");
        let sources = [
            "apps/reference/main.c",
            "apps/reference/tags.c",
            "codecs/mp3/mp3.c",
        ];
        let compiled = Command::new("gcc")
            .args(["-O1", "-ffp-contract=off", "-ftrivial-auto-var-init=zero"])
            .arg("-o")
            .arg(self.directory.join("reference"))
            .arg("-I")
            .arg(minimp3_directory())
            .arg("-I")
            .arg(rtos.join("codecs/mp3"))
            .args(sources.map(|source| rtos.join(source)))
            .arg("-lm")
            .status();
        assert!(
            compiled.unwrap().success(),
            "the reference does not compile"
        );
    }

    /// About three seconds of speech and noise as MP3; `None` (said aloud) without ffmpeg.
    fn encode(&self, name: &str, arguments: &str) -> Option<Vec<u8>> {
        let path = self.directory.join(format!("{name}.mp3"));
        let encoded = Command::new("ffmpeg")
            .args(["-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i"])
            .arg("aevalsrc=0.4*sin(440*2*PI*t*t)+0.1*random(0)|0.3*random(1)*sin(3*t):d=3")
            .args(arguments.split(' '))
            .arg(&path)
            .status();
        match encoded {
            Err(error) => {
                eprintln!("SKIPPED: ffmpeg cannot be started ({error}): apt-get install ffmpeg");
                None
            }
            Ok(status) => {
                assert!(status.success(), "ffmpeg failed on {name}");
                Some(fs::read(path).unwrap())
            }
        }
    }

    /// Compares both on one stream, whole and cut into windows; returns the number of frames.
    fn compare(&self, stream: &[u8], context: &str) -> usize {
        let path = self.directory.join("stream");
        fs::write(&path, stream).unwrap();
        let (expected, expected_pcm) = self.oracle(&["whole", "stream"]);

        let mut pieces = String::new();
        let found = match split(stream, stream.len().max(MIN_WINDOW_BYTES), &mut pieces) {
            Ok(found) => found,
            Err(MediaError::NoFrames { .. }) => {
                assert_eq!(expected, [], "{context}");
                return 0;
            }
            // minimp3 decodes these; the splitter refuses them.
            Err(MediaError::FreeFormat { .. } | MediaError::UnsupportedLayer { .. }) => return 0,
            Err(error) => panic!("{context}: {error}"),
        };
        assert_eq!(
            found, expected,
            "{context}: splitter on the left, minimp3 on the right"
        );

        for window_bytes in [MIN_WINDOW_BYTES, MIN_WINDOW_BYTES + 4097] {
            let in_windows = split(stream, window_bytes, &mut String::new()).unwrap();
            assert_eq!(
                in_windows, found,
                "{context}: windows of {window_bytes} bytes"
            );
        }
        fs::write(self.directory.join("pieces"), pieces).unwrap();
        let (_, pieces_pcm) = self.oracle(&["pieces", "stream", "pieces"]);
        assert_eq!(
            pieces_pcm, expected_pcm,
            "{context}: PCM decoded piece by piece"
        );
        found.len()
    }

    /// Compares what the demo plays of a stream, decoded piece by piece, with the reference
    /// decoder: tags and the frame that describes the others are left out, and the last frame is
    /// played whatever follows it.
    fn compare_played(&self, stream: &[u8], context: &str) {
        let player = || FrameSplitter::new().without_info();
        let mut audio = without_tail(stream);
        let mut pieces = String::new();
        let mut found = split_with(player(), audio, MIN_WINDOW_BYTES, &mut pieces);
        if let Ok((_, Some(end))) = found {
            (audio, pieces) = (&audio[..end as usize], String::new());
            found = split_with(player(), audio, MIN_WINDOW_BYTES, &mut pieces);
        }
        match found {
            Ok(_) | Err(MediaError::NoFrames { .. }) => {}
            // The reference does not refuse them.
            Err(MediaError::FreeFormat { .. } | MediaError::UnsupportedLayer { .. }) => return,
            Err(error) => panic!("{context}: {error}"),
        }
        fs::write(self.directory.join("stream"), stream).unwrap();
        fs::write(self.directory.join("pieces"), pieces).unwrap();
        let (_, played) = self.oracle(&["pieces", "stream", "pieces"]);
        let pcm = self.directory.join("pcm");
        // It fails where there is no frame; what it wrote is none then.
        let ran = Command::new(self.directory.join("reference"))
            .arg(self.directory.join("stream"))
            .arg(&pcm)
            .output();
        assert!(ran.unwrap().status.code().is_some(), "{context}");
        let pcm = fs::read(&pcm).unwrap();
        let samples = pcm.chunks_exact(2);
        let count = samples.len();
        let hash = samples.fold(14_695_981_039_346_656_037_u64, |hash, sample| {
            let sample = u16::from_le_bytes([sample[0], sample[1]]);
            (hash ^ u64::from(sample)).wrapping_mul(1_099_511_628_211)
        });
        assert_eq!(played, format!("pcm {count} {hash:x}"), "{context}");
    }

    /// Runs the oracle; its frames and its line about the PCM.
    fn oracle(&self, arguments: &[&str]) -> (Vec<Found>, String) {
        let output = Command::new(self.directory.join("oracle"))
            .args(arguments)
            .current_dir(&self.directory)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "oracle {arguments:?}: {}",
            output.status
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let (lines, pcm) = text
            .trim_end()
            .rsplit_once('\n')
            .unwrap_or(("", text.trim_end()));
        let frames = lines.lines().map(|line| {
            let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            (numbers[0], numbers[1] as usize, numbers[2] == 1)
        });
        (frames.collect(), pcm.to_owned())
    }
}

/// Splits `stream` in windows of `window_bytes`. `pieces` gets what a decoder of single frames is
/// to be given: the frames, and the beginnings of gaps.
fn split(
    stream: &[u8],
    window_bytes: usize,
    pieces: &mut String,
) -> Result<Vec<Found>, MediaError> {
    let found = split_with(
        FrameSplitter::new(),
        without_tail(stream),
        window_bytes,
        pieces,
    );
    found.map(|(found, _)| found)
}

/// The stream without the tags behind it.
fn without_tail(stream: &[u8]) -> &[u8] {
    let tail = &stream[stream.len().saturating_sub(TAIL_BYTES)..];
    &stream[..audio_end(tail, stream.len() as u64) as usize]
}

/// As [`split`], of a stream without tags; also where its last frame ends if that was passed over.
fn split_with(
    mut splitter: FrameSplitter,
    stream: &[u8],
    window_bytes: usize,
    pieces: &mut String,
) -> Result<(Vec<Found>, Option<u64>), MediaError> {
    let mut found = Vec::new();
    loop {
        let start = (splitter.resume_at() as usize).min(stream.len());
        let end = (start + window_bytes).min(stream.len());
        let bytes = &stream[start..end];
        let window = Window {
            offset: start as u64,
            bytes,
            is_last: end == stream.len(),
        };
        loop {
            match splitter.next(&window)? {
                Step::Frame(frame) => {
                    assert_eq!(frame.offset, window.offset + frame.start as u64);
                    writeln!(pieces, "{} {}", frame.offset, frame.bytes).unwrap();
                    found.push((frame.offset, frame.bytes, frame.reset));
                }
                Step::Gap(gap) => {
                    assert!(gap.bytes > 0);
                    let start = gap.bytes.min(Gap::RESET_BYTES as u64);
                    if gap.offset + start <= stream.len() as u64 {
                        writeln!(pieces, "{} {start}", gap.offset).unwrap();
                    }
                }
                Step::ReadFrom(offset) => {
                    assert_eq!(offset, splitter.resume_at());
                    break;
                }
                Step::End => return Ok((found, splitter.last_frame_end())),
            }
        }
    }
}

/// Where the header `minimp3.h` of the crate `minimp3-sys` lies.
fn minimp3_directory() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {messages}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let manifest = metadata["packages"]
        .as_array()
        .and_then(|packages| {
            packages
                .iter()
                .find(|package| package["name"] == "minimp3-sys")
        })
        .and_then(|package| package["manifest_path"].as_str())
        .expect("minimp3-sys is a dependency for tests");
    Path::new(manifest).with_file_name("minimp3")
}
