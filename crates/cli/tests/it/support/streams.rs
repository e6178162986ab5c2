//! Media for tests of `hythe media`: made by ffmpeg when they are needed, described, received, and
//! compared by what is in them.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Ended, Root, Running, eventually};

/// So long after the last packet a receiver gives up, which only ends tests that failed: streams
/// end with a goodbye.
pub(crate) const IDLE: [&str; 2] = ["--idle", "100"];

/// What is compared of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every byte.
    TransportStream,
    /// Decoded samples of a WAV file.
    Samples,
    /// Samples in a file of nothing else, by ffmpeg's name for their format, with their rate and
    /// channels.
    RawSamples(&'static str, &'static str, &'static str),
    /// Every byte, frame behind frame.
    MpegAudio,
    /// Packets of the codec.
    Opus,
    /// Decoded pictures of a file.
    Pictures,
    /// Decoded pictures, which are all that is in the file.
    RawPictures,
}

/// An input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    /// What has ffmpeg make it.
    pub(crate) made_by: &'static str,
    /// What `hythe media send` has to be told of it.
    pub(crate) options: &'static [&'static str],
    pub(crate) kind: Kind,
}

const PICTURES: &str = "-f lavfi -i testsrc=size=160x120:rate=25:duration=1,format=yuv420p";
const TONE: &str = "-f lavfi -i sine=duration=1:frequency=523";

pub(crate) const TS: Sample = Sample {
    name: "film.ts",
    made_by: "PICTURES TONE -c:v mpeg2video -c:a mp2 -f mpegts",
    options: &[],
    kind: Kind::TransportStream,
};
pub(crate) const L16: Sample = Sample {
    name: "tone.wav",
    made_by: "TONE -ar 44100 -ac 2 -c:a pcm_s16le",
    options: &[],
    kind: Kind::Samples,
};
pub(crate) const PCMU: Sample = Sample {
    name: "tone.ulaw",
    made_by: "TONE -ar 8000 -f mulaw",
    options: &["--raw", "pcmu:8000:1"],
    kind: Kind::RawSamples("mulaw", "8000", "1"),
};
pub(crate) const PCMA: Sample = Sample {
    name: "tone.alaw",
    made_by: "TONE -ar 8000 -f alaw",
    options: &["--raw", "pcma:8000:1"],
    kind: Kind::RawSamples("alaw", "8000", "1"),
};
pub(crate) const MPEG_AUDIO: Sample = Sample {
    name: "tone.mp3",
    made_by: "TONE -ar 44100 -ac 2 -c:a libmp3lame -b:a 128k -write_xing 0 -id3v2_version 0",
    options: &[],
    kind: Kind::MpegAudio,
};
pub(crate) const OPUS: Sample = Sample {
    name: "tone.opus",
    made_by: "TONE -ar 48000 -ac 2 -c:a libopus -b:a 32k",
    options: &[],
    kind: Kind::Opus,
};
pub(crate) const H264: Sample = Sample {
    name: "film.h264",
    made_by: "PICTURES -c:v libx264 -preset ultrafast",
    options: &[],
    kind: Kind::Pictures,
};
/// Pictures that are shown in another order than they are coded in.
pub(crate) const H264_MOVIE: Sample = Sample {
    name: "film-h264.mp4",
    made_by: "PICTURES -c:v libx264 -preset superfast -bf 2",
    options: &[],
    kind: Kind::Pictures,
};
pub(crate) const H265: Sample = Sample {
    name: "film.h265",
    made_by: "PICTURES -c:v libx265 -preset ultrafast -x265-params log-level=none -f hevc",
    options: &[],
    kind: Kind::Pictures,
};
pub(crate) const H265_MOVIE: Sample = Sample {
    name: "film-h265.mp4",
    made_by: "PICTURES -c:v libx265 -preset ultrafast -x265-params log-level=none:bframes=2 -tag:v hvc1",
    options: &[],
    kind: Kind::Pictures,
};
/// One of each.
pub(crate) const SAMPLES: [Sample; 10] = [
    TS, L16, PCMU, PCMA, MPEG_AUDIO, OPUS, H264, H264_MOVIE, H265, H265_MOVIE,
];

/// A root whose pools are in shared memory, where packets are sent from, and ffmpeg beside it.
#[derive(Debug)]
pub(crate) struct MediaFixture {
    pub(crate) root: Root,
}

impl MediaFixture {
    /// `None`, said aloud, where something is missing.
    pub(crate) fn new(left_out: &str) -> Option<Self> {
        if !is_there("ffmpeg", "-version") {
            eprintln!("SKIPPED (no ffmpeg; apt-get install ffmpeg): {left_out}");
            return None;
        }
        let root = Root::on_shared_memory(left_out)?;
        Some(Self { root })
    }

    /// Where a file of this test is, or will be.
    pub(crate) fn file(&self, name: &str) -> String {
        let path = self.root.path().join(name);
        path.to_str().expect("a name of ours").to_owned()
    }

    /// Makes an input.
    pub(crate) fn make(&self, sample: &Sample) -> String {
        let path = self.file(sample.name);
        if !Path::new(&path).exists() {
            let arguments = sample.made_by.replace("PICTURES", PICTURES);
            ffmpeg(&format!("{} {path}", arguments.replace("TONE", TONE)));
        }
        path
    }

    /// The description that `hythe media send` writes of it. The sender ends at once, so that
    /// receivers can be started first.
    pub(crate) fn describe(&self, input: &str, options: &[&str], port: u16) -> String {
        let path = self.file(&format!("{port}.sdp"));
        let arguments = ["--for", "0.001", "--sdp", &path];
        let to = format!("rtp://127.0.0.1:{port}");
        let send = ["media", "send", input, "--to", &to];
        // Nobody is there yet, which is a failure where the host says so in time.
        let sent = self.root.run(&[&send[..], options, &arguments].concat());
        assert!(Path::new(&path).exists(), "{}", sent.errors);
        path
    }

    /// Sends to a port of this host, and returns the document that is printed at the end.
    pub(crate) fn send_with(&self, input: &str, port: u16, options: &[&str]) -> Value {
        let to = format!("rtp://127.0.0.1:{port}");
        let arguments = ["media", "send", input, "--to", &to];
        self.root.json(&[&arguments, options].concat())
    }

    /// Starts our receiver, and waits until it listens.
    pub(crate) fn receiver(&self, sdp: &str, port: u16, out: &str) -> Running {
        let arguments = ["media", "recv", sdp, "--out", out, "--json"];
        let running = self.root.start(&[&arguments, &IDLE[..]].concat());
        wait_until_listening(port);
        running
    }

    /// Nobody holds anything of a pool any more, and no pool of a command alone is left.
    pub(crate) fn is_clean(&self) {
        let hidden = self.root.hidden();
        assert!(hidden.is_empty(), "{hidden:?}");
        let list = self.root.json(&["pool", "list"]);
        for pool in list["pools"].as_array().expect("a list") {
            let name = pool["pool"].as_str().expect("a name");
            let shown = self.root.json(&["pool", "show", name]);
            assert_eq!(shown["mismatches"], Value::Array(Vec::new()));
            assert_eq!(shown["slots"]["free"], shown["slots"]["total"]);
            assert_eq!(shown["tables"][0]["used"], 0, "{shown}");
        }
    }
}

/// A program that ran to a good end and printed a document.
pub(crate) fn document(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    serde_json::from_slice(&ended.output).expect("one document")
}

/// Can this be started?
pub(crate) fn is_there(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null());
    command.output().is_ok()
}

/// Runs ffmpeg, and returns what it writes to standard output.
pub(crate) fn ffmpeg(arguments: &str) -> Vec<u8> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y"]);
    command.args(arguments.split_whitespace());
    let output = command.output().expect("ffmpeg was there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {errors}");
    output.stdout
}

/// What is compared of the file `path`.
pub(crate) fn content(kind: Kind, path: &str) -> Vec<u8> {
    match kind {
        Kind::TransportStream | Kind::MpegAudio | Kind::RawPictures => {
            std::fs::read(path).expect("a file")
        }
        Kind::Samples => ffmpeg(&format!("-i {path} -f s16le -")),
        Kind::RawSamples(format, rate, channels) => ffmpeg(&format!(
            "-f {format} -ar {rate} -ac {channels} -i {path} -f s16le -"
        )),
        Kind::Opus => packets(path).join("\n").into_bytes(),
        Kind::Pictures => ffmpeg(&format!(
            "-i {path} -fps_mode passthrough -f rawvideo -pix_fmt yuv420p -"
        )),
    }
}

/// The packets of a file, stream behind stream: number of the stream, bytes, hash.
pub(crate) fn packets(path: &str) -> Vec<String> {
    let listed = ffmpeg(&format!("-i {path} -map 0 -c copy -f framehash -"));
    packets_of_list(&String::from_utf8_lossy(&listed))
}

/// As [`packets`], of a list that ffmpeg's framehash has written.
pub(crate) fn packets_of_list(list: &str) -> Vec<String> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let mut packets: Vec<String> = lines
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            Some(format!(
                "{} {} {}",
                fields.first()?,
                fields.get(4)?,
                fields.get(5)?
            ))
        })
        .collect();
    packets.sort_by_key(|packet| packet.split(' ').next().map(str::to_owned));
    packets
}

/// Says where `received` differs from `source`, without printing either.
pub(crate) fn assert_same(what: &str, received: &[u8], source: &[u8]) {
    let differs = received
        .iter()
        .zip(source)
        .position(|(one, other)| one != other);
    assert!(
        received == source && !source.is_empty(),
        "{what}: {} bytes came of {}, the first difference is at {differs:?}",
        received.len(),
        source.len()
    );
}

/// An even port that is nobody else's, as is the next one, until this process ends.
pub(crate) fn port() -> u16 {
    ports(1)
}

/// As [`port`], with so many pairs behind each other: parity goes to the second and the third.
pub(crate) fn ports(pairs: u16) -> u16 {
    hythe_testing::reserve_ports(2 * pairs)
}

/// Waits until somebody listens on both ports of a stream.
pub(crate) fn wait_until_listening(port: u16) {
    eventually("somebody listens", || is_bound(port) && is_bound(port + 1));
}

/// Is there a UDP socket on this port? By the kernel's tables: number, then local address and port
/// in hexadecimal.
pub(crate) fn is_bound(port: u16) -> bool {
    waiting_bytes(port).is_some()
}

/// Bytes that wait in the sockets on this port, if there are any.
pub(crate) fn waiting_bytes(port: u16) -> Option<u64> {
    let tables = ["/proc/net/udp", "/proc/net/udp6"];
    let tables = tables
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok());
    let text: String = tables.collect();
    let port = format!(":{port:04X}");
    let fields = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields
        .filter(|fields| fields.get(1).is_some_and(|local| local.ends_with(&port)))
        .filter_map(|fields| u64::from_str_radix(fields.get(4)?.split_once(':')?.1, 16).ok())
        .reduce(|all, one| all + one)
}
