//! `hythe play` as a user runs it: on both boards, with all sorts of files, and with everything
//! going wrong.
//!
//! Movies are made by ffmpeg. Pictures are compared with what ffmpeg decodes, samples with what
//! minimp3 decodes on this host.

mod methods;
mod movie;
mod outputs;
mod refusals;
mod rtp;
mod tasks;
mod times;
mod window;
mod x_server;

use std::fs;

use serde_json::Value;

use crate::demo::world::World;
use movie::{METHODS, Movie, NEVER};

/// Plays a movie on a board, and compares everything that was shown and heard.
pub(crate) fn plays_exactly(board: &str, method: &str) -> Value {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 2, &[]);
    let (video, audio) = (world.path("out.y4m"), world.path("out.wav"));
    let played = movie::play(
        &world,
        &[
            "--board",
            board,
            "--method",
            method,
            "--stall",
            NEVER,
            "--video-out",
            movie::text(&video),
            "--audio-out",
            movie::text(&audio),
            movie.file(),
        ],
    );
    assert_eq!(played["frames_shown"], 50, "{played}");
    assert_eq!(played["frames_dropped"], 0, "{played}");
    assert_eq!(played["sound"]["silent"], 0, "{played}");
    assert_eq!(played["sound"]["late"], 0, "{played}");
    assert_eq!(played["slots_leaked"], 0, "{played}");
    assert!(
        movie::pictures(&video) == movie.pictures(),
        "other pictures"
    );
    let samples = movie.samples();
    let heard = fs::read(&audio).expect("the sound")[44..].to_vec();
    // The encoder's delay is cut away, as the movie says.
    assert!(heard.len() > 300_000 && samples.len() - heard.len() < 10_000);
    assert!(
        samples[samples.len() - heard.len()..] == heard,
        "other samples"
    );
    world.is_clean();
    played
}

#[test]
fn hosted_board_plays_frame_for_frame_and_sample_for_sample() {
    plays_exactly("hosted", "hythe");
}

#[test]
fn emulated_board_plays_frame_for_frame_and_sample_for_sample() {
    plays_exactly("mps2-an386", "hythe");
}

/// Copies of each payload byte over a hop.
pub(crate) fn copies_of<'p>(played: &'p Value, name: &str) -> &'p Value {
    let hops = played["hops"].as_array().expect("hops");
    let hop = hops.iter().find(|hop| hop["name"] == name);
    &hop.expect("the hop")["cpu_copies"]
}

#[test]
fn each_picture_is_reported_and_each_hop_with_its_copies() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 1, &[]);
    let arguments = ["--board", "hosted", "--stall", NEVER, movie.file()];
    let played = movie::play(&world, &arguments);
    let frames = played["frames"].as_array().expect("frames");
    assert_eq!(frames.len(), 25);
    for (number, frame) in frames.iter().enumerate() {
        assert_eq!(frame["number"], number);
        assert_eq!(frame["time_ns"], number * 40_000_000);
        for field in ["sync_error_ns", "decode_ns", "file_to_shown_ns"] {
            assert!(frame[field].is_u64(), "{field} in {frame}");
        }
        assert!(frame["file_to_shown_ns"].as_u64() >= frame["decode_ns"].as_u64());
    }
    for (name, expected) in [
        ("storage", 1),
        ("compressed", 0),
        ("picture", 1),
        ("samples", 0),
    ] {
        assert_eq!(copies_of(&played, name), expected, "{name}");
    }
    world.is_clean();
}

#[test]
fn result_for_people_says_what_was_played() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 1, &[]);
    let output = world.run(&["play", "--board", "hosted", "--stall", NEVER, movie.file()]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    for words in [
        "320x240, 25 shown, 0 dropped",
        "44100 Hz",
        "CPU COPIES",
        "slots leaked: 0",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    world.is_clean();
}

#[test]
fn movie_may_have_picture_or_sound_alone() {
    let world = World::new();
    let output = world.path("out");
    for (without, has, name) in [("-an", "picture", "silent"), ("-vn", "sound", "dark")] {
        let movie = Movie::new(&world, &format!("{name}.mp4"), 1, &[without]);
        let base = ["--board", "hosted", "--stall", NEVER];
        let played = movie::play(&world, &[&base[..], &[movie.file()]].concat());
        let is_dark = has == "sound";
        assert_eq!(played["sound"] == Value::Null, !is_dark, "{played}");
        assert_eq!(played["frames_shown"], if is_dark { 0 } else { 25 });
        let option = if is_dark {
            "--video-out"
        } else {
            "--audio-out"
        };
        let refused = [&base[..], &[option, movie::text(&output), movie.file()]].concat();
        let said = movie::refusal(&world, &refused);
        let missing = if is_dark { "no picture" } else { "no sound" };
        assert!(said.contains(missing), "{said}");
        assert!(!output.exists());
    }
    world.is_clean();
}

#[test]
fn sizes_that_are_no_whole_blocks_are_cropped() {
    let world = World::new();
    let movie = Movie::new(&world, "odd.mp4", 1, &["-vf", "scale=182:106"]);
    let video = world.path("out.y4m");
    let base = ["--board", "hosted", "--stall", NEVER, "--video-out"];
    for method in METHODS {
        let rest = [movie::text(&video), "--method", method, movie.file()];
        let played = movie::play(&world, &[&base[..], &rest].concat());
        assert_eq!(
            (&played["width"], &played["height"]),
            (&182.into(), &106.into())
        );
        let shown = movie::pictures(&video);
        assert!(shown == movie.pictures(), "{method}: other pictures");
    }
    world.is_clean();
}
