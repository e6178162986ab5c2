//! A task of the core is stopped or killed while it plays: the other goes on, and so does the
//! movie.

use std::process::Child;

use rustix::process::Signal;
use serde_json::Value;

use crate::demo::world::{World, end_of, signal};
use crate::play::movie::{self, Movie, NEVER};
use hythe_testing::{eventually_or_show, let_time_pass};

/// A movie that plays for ten seconds, or as long as is said.
struct Playing {
    world: World,
    child: Child,
    pool: String,
    movie: Movie,
}

/// No other key frame than the first.
const ONE_KEY_FRAME: [&str; 4] = ["-g", "10000", "-sc_threshold", "0"];

impl Playing {
    fn start() -> Self {
        Self::start_with(10, &[], &["--stall", "300"])
    }

    fn start_with(seconds: u32, movie_options: &[&str], options: &[&str]) -> Self {
        let world = World::new();
        let movie = Movie::new(&world, "film.mp4", seconds, movie_options);
        let arguments = [&["--board", "hosted", movie.file()], options].concat();
        let child = movie::start(&world, &arguments);
        let playing = Self {
            pool: format!("play-{}", child.id()),
            world,
            child,
            movie,
        };
        // The core is up, and its tasks are at work.
        eventually_or_show(
            "the core lists its tasks",
            || playing.core(&["tasks", "hosted"]),
            || "not yet".to_owned(),
        );
        playing
    }

    fn core(&self, arguments: &[&str]) -> bool {
        let pool = ["--pool", &self.pool, "core"];
        let output = self.world.run(&[&pool[..], arguments].concat());
        output.status.success()
    }

    fn task(&self, action: &str, task: &str) {
        assert!(
            self.core(&["task", action, "hosted", task]),
            "{action} {task}"
        );
    }

    fn end(self) -> Value {
        let output = end_of(self.child);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let played: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(played["slots_leaked"], 0, "{played}");
        self.world.is_clean();
        played
    }
}

/// Buffers that crossed on a hop.
fn buffers(played: &Value, name: &str) -> u64 {
    let hops = played["hops"].as_array().expect("hops");
    let hop = hops.iter().find(|hop| hop["name"] == name);
    hop.expect("the hop")["buffers"].as_u64().expect("a number")
}

fn last_frame(played: &Value) -> &Value {
    played["frames"]
        .as_array()
        .and_then(|frames| frames.last())
        .expect("frames")
}

#[test]
fn sound_goes_on_without_pictures() {
    let playing = Playing::start();
    playing.task("stop", "video");
    let played = playing.end();
    assert!(played["frames_dropped"].as_u64() > Some(0), "{played}");
    assert_eq!(last_frame(&played)["sync_error_ns"], Value::Null);
    let sound = &played["sound"];
    assert_eq!(sound["silent"], 0, "{sound}");
}

#[test]
fn pictures_go_on_without_sound() {
    let playing = Playing::start();
    playing.task("stop", "audio");
    let played = playing.end();
    assert!(played["sound"]["silent"].as_u64() > Some(0), "{played}");
    assert!(last_frame(&played)["sync_error_ns"].is_u64(), "{played}");
}

#[test]
fn pictures_resume_when_their_task_does() {
    for end in ["stop", "kill"] {
        let playing = Playing::start();
        playing.task(end, "video");
        playing.task("start", "video");
        let played = playing.end();
        assert!(
            last_frame(&played)["sync_error_ns"].is_u64(),
            "{end}: {played}"
        );
    }
}

/// Frames so short that the decoder is always at work on one: it is ahead, and waits for a slot.
const SIXTY_A_SECOND: [&str; 2] = ["-r", "60"];

#[test]
fn restarted_decoder_loses_and_repeats_no_picture() {
    let directory = tempfile::tempdir().expect("a directory");
    let video = directory.path().join("out.y4m");
    let output = ["--stall", NEVER, "--video-out", movie::text(&video)];
    let playing = Playing::start_with(10, &[&ONE_KEY_FRAME[..], &SIXTY_A_SECOND].concat(), &output);
    for _ in 0..5 {
        playing.task("kill", "video");
        playing.task("start", "video");
    }
    let expected = playing.movie.pictures();
    let played = playing.end();
    let units = played["frames"].as_array().expect("frames").len() as u64;
    assert_eq!(units, expected.len() as u64 / (320 * 240 * 3 / 2));
    assert_eq!(played["frames_dropped"], 0, "{played}");
    let sound = &played["sound"];
    let sent = units + sound["blocks"].as_u64().expect("a number");
    assert!(
        buffers(&played, "compressed") > sent + 4,
        "nothing was sent again"
    );
    assert!(movie::pictures(&video) == expected, "other pictures");
}

#[test]
fn pictures_resume_although_no_key_frame_comes() {
    for end in ["stop", "kill"] {
        let playing = Playing::start_with(10, &ONE_KEY_FRAME, &["--stall", "300"]);
        playing.task(end, "video");
        let time = std::time::Duration::from_millis(600);
        let_time_pass(time, "the units that are due meanwhile are too late");
        playing.task("start", "video");
        let played = playing.end();
        assert!(played["frames_dropped"].as_u64() > Some(0), "{played}");
        let last = last_frame(&played);
        assert!(last["sync_error_ns"].is_u64(), "{end}: {played}");
    }
}

#[test]
fn sound_resumes_when_its_task_does() {
    for end in ["stop", "kill"] {
        let playing = Playing::start();
        playing.task(end, "audio");
        playing.task("start", "audio");
        let played = playing.end();
        let sound = &played["sound"];
        // Ten seconds are 383 blocks: what was lost is a part of them.
        assert!(sound["blocks"].as_u64() > Some(100), "{end}: {sound}");
    }
}

#[test]
fn core_that_stands_still_is_named() {
    let playing = Playing::start_with(40, &[], &[]);
    signal(playing.world.process_with("player.elf"), Signal::STOP);
    let output = end_of(playing.child);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("neither picture nor sound"), "{said}");
    playing.world.is_clean();
}
