//! `--method copy` and `--method linux`: the same pictures and samples, with the copies that are
//! said, and with a decoder that is stopped or killed.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::{copies_of, plays_exactly};
use crate::demo::world::{World, end_of, signal};
use crate::play::movie::{self, Movie, NEVER, playing};

fn has_copies(played: &Value, copies: u32) {
    for name in ["compressed", "picture", "samples"] {
        assert_eq!(copies_of(played, name), copies, "{name}");
    }
    assert_eq!(copies_of(played, "storage"), 1);
}

#[test]
fn copying_plays_the_same_with_more_copies() {
    for board in ["hosted", "mps2-an386"] {
        let played = plays_exactly(board, "copy");
        assert_eq!(played["method"], "copy");
        assert_eq!(played["board"], board);
        assert_eq!(played["decoder_cpu_ns"], 0);
        has_copies(&played, 2);
    }
}

#[test]
fn linux_plays_the_same_and_its_decoding_is_counted_apart() {
    let played = plays_exactly("hosted", "linux");
    assert_eq!(played["method"], "linux");
    assert_eq!(played["board"], Value::Null);
    assert_eq!(played["emulated"], false);
    assert!(played["decoder_cpu_ns"].as_u64() > Some(0), "{played}");
    assert!(played["linux_cpu_ns"].as_u64() > Some(0), "{played}");
    has_copies(&played, 2);
}

#[test]
fn access_unit_longer_than_the_cores_memory_for_it_is_named() {
    let world = World::new();
    // Noise without compression: the first picture is of more than 256 KiB.
    let options = ["-vf", "scale=640:480,noise=alls=100", "-qp", "1", "-an"];
    let movie = Movie::new(&world, "long.mp4", 1, &options);
    let arguments = ["--board", "hosted", "--method", "copy", movie.file()];
    let said = movie::refusal(&world, &arguments);
    assert!(said.contains("longer than the 262144"), "{said}");
    world.is_clean();
}

#[test]
fn sound_goes_on_when_a_task_that_copies_has_ended() {
    for end in ["stop", "kill"] {
        let world = World::new();
        let child = playing(&world, "copy", "300");
        let pool = format!("play-{}", child.id());
        let ended = world.run(&["--pool", &pool, "core", "task", end, "hosted", "video"]);
        assert!(ended.status.success(), "{ended:?}");
        let output = end_of(child);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let played: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert!(played["frames_dropped"].as_u64() > Some(0), "{played}");
        assert_eq!(played["sound"]["silent"], 0, "{played}");
        assert_eq!(played["slots_leaked"], 0, "{played}");
        world.is_clean();
    }
}

#[test]
fn process_killed_while_it_decodes_is_named() {
    for what in ["h264", "mp3"] {
        let world = World::new();
        let child = playing(&world, "linux", NEVER);
        let decoder = world.process_with(&format!("host-player {what}"));
        signal(decoder, Signal::KILL);
        let output = end_of(child);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let named = format!("the process that decodes {what} ended while it played: signal 9");
        assert!(said.contains(&named), "{said}");
        world.is_clean();
    }
}

#[test]
fn process_that_hangs_is_named_and_killed() {
    let world = World::new();
    let child = playing(&world, "linux", "300");
    signal(world.process_with("host-player h264"), Signal::STOP);
    let output = end_of(child);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let named = "the process that decodes h264 has not answered";
    assert!(said.contains(named), "{said}");
    world.is_clean();
}

#[test]
fn decoder_that_was_not_built_is_named_with_what_builds_it() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 1, &[]);
    let mut command = world.command(&["play", "--method", "linux", movie.file()]);
    let empty = world.path("empty");
    fs::create_dir(&empty).expect("a folder");
    let output = command.env("HYTHE_BOARDS", &empty).output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("host-player"), "{said}");
    assert!(said.contains("cargo xtask boards"), "{said}");
    world.is_clean();
}

#[test]
fn decoder_that_ends_or_answers_nonsense_is_named() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 1, &[]);
    let program = world.path("boards/host/host-player");
    fs::create_dir_all(program.parent().expect("a folder")).expect("folders");
    for (instead, named) in [
        ("/bin/false", "ended while it played: exit status 1"),
        ("/bin/true", "ended while it played: exit status 0"),
        // What it is told to decode, again and again, as if that were a length.
        ("/usr/bin/yes", "bytes instead of 1 to"),
    ] {
        std::os::unix::fs::symlink(instead, &program).expect("a link");
        let mut command = world.command(&["play", "--method", "linux", movie.file()]);
        command.env("HYTHE_BOARDS", world.path("boards"));
        let output = command.output().expect("the program runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(named), "{instead}: {said}");
        world.is_clean();
        fs::remove_file(&program).expect("the link");
    }
}
