//! A task of the core is stopped or killed while it plays: the other goes on, and so does the
//! movie.

use std::process::Child;

use serde_json::Value;

use crate::movie::{self, Movie};
use crate::world::{World, end_of, eventually};

/// A movie that plays for ten seconds.
struct Playing {
    world: World,
    child: Child,
    pool: String,
}

impl Playing {
    fn start() -> Self {
        let world = World::new();
        let movie = Movie::new(&world, "film.mp4", 10, &[]);
        let arguments = ["--board", "hosted", "--stall", "300", movie.file()];
        let child = movie::start(&world, &arguments);
        let playing = Self {
            pool: format!("play-{}", child.id()),
            world,
            child,
        };
        // The core is up, and its tasks are at work.
        eventually(
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
