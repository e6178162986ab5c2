//! Movies that ffmpeg makes, what they decode to, and playing them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::demo::world::{World, boards};
use hythe_testing::eventually_or_show;

/// What `--method` takes.
pub(crate) const METHODS: [&str; 3] = ["hythe", "copy", "linux"];
/// For `--stall`: whatever a loaded machine does, nothing is dropped.
pub(crate) const NEVER: &str = "250000";

/// The movie that `make setup` encodes is made by it, too.
const ENCODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/encode-movie.sh");

pub(crate) struct Movie {
    path: PathBuf,
    place: PathBuf,
}

impl Movie {
    /// 320x240, 25 frames a second, a key frame each second; `options` are for the encoder.
    pub(crate) fn new(world: &World, name: &str, seconds: u32, options: &[&str]) -> Self {
        let movie = Self {
            path: world.path(name),
            place: world.path("."),
        };
        let encoded = Command::new(ENCODE)
            .arg(&movie.path)
            .arg(seconds.to_string())
            .args(options)
            .status()
            .expect("the script runs");
        assert!(encoded.success(), "ffmpeg {options:?}");
        movie
    }

    pub(crate) fn file(&self) -> &str {
        text(&self.path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its pictures as ffmpeg decodes them.
    pub(crate) fn pictures(&self) -> Vec<u8> {
        pictures(&self.path)
    }

    /// Its samples as minimp3 decodes them on this host, with the encoder's delay.
    pub(crate) fn samples(&self) -> Vec<u8> {
        let (mp3, pcm) = (self.place.join("of.mp3"), self.place.join("of.pcm"));
        ffmpeg(
            &["-i", self.file(), "-c:a", "copy", "-write_xing", "0"],
            &mp3,
        );
        let decoder = boards().join("reference/decode-reference");
        let decoded = Command::new(decoder).arg(&mp3).arg(&pcm).output();
        let decoded = decoded.expect("the reference decoder: `make setup` builds it");
        assert!(decoded.status.success(), "{decoded:?}");
        fs::read(pcm).expect("samples")
    }
}

/// All pictures of a file, planes one behind the other, as ffmpeg decodes them.
pub(crate) fn pictures(file: &Path) -> Vec<u8> {
    let raw = file.with_extension("yuv");
    ffmpeg(&["-i", text(file), "-f", "rawvideo"], &raw);
    fs::read(raw).expect("pictures")
}

pub(crate) fn ffmpeg(arguments: &[&str], output: &Path) {
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-y"])
        .args(arguments)
        .arg(output)
        .status()
        .expect("ffmpeg runs: `make setup` installs it");
    assert!(status.success(), "ffmpeg {arguments:?}");
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Plays to the end; it must succeed.
pub(crate) fn play(world: &World, arguments: &[&str]) -> Value {
    let output = world.run(&[&["play", "--json"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("one JSON document and nothing else")
}

/// Plays; it must fail with exit code 1 and say why.
pub(crate) fn refusal(world: &World, arguments: &[&str]) -> String {
    let output = world.run(&[&["play"], arguments].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// Plays, and leaves it running.
pub(crate) fn start(world: &World, arguments: &[&str]) -> Child {
    let mut command = world.command(&[&["play", "--json"], arguments].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program runs")
}

/// Starts a movie of ten seconds, and waits until its pictures are written.
pub(crate) fn playing(world: &World, method: &str, stall: &str) -> Child {
    playing_on(world, "hosted", method, stall)
}

/// The same on another board.
pub(crate) fn playing_on(world: &World, board: &str, method: &str, stall: &str) -> Child {
    let movie = Movie::new(world, "film.mp4", 10, &[]);
    let video = world.path("out.y4m");
    let output = text(&video);
    let arguments = ["--board", board, "--stall", stall, "--video-out", output];
    let rest = ["--method", method, movie.file()];
    let child = start(world, &[&arguments[..], &rest].concat());
    let written = || fs::metadata(&video).map_or(0, |file| file.len());
    eventually_or_show(
        "pictures are written",
        || written() > 200_000,
        || format!("{} bytes", written()),
    );
    child
}
