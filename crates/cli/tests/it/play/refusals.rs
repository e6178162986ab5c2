//! Everything that can go wrong: a clear error, exit code 1, and nothing left behind.

use std::fs;

use rustix::process::Signal;

use crate::demo::world::{World, end_of, signal};
use crate::play::movie::{self, METHODS, Movie, NEVER, playing, playing_on};

#[test]
fn other_codecs_are_named_with_what_converts_them() {
    let world = World::new();
    let convert = "ffmpeg -i FILE -c:v libx264 -profile:v baseline";
    for (name, options, named) in [
        ("mpeg4", &["-c:v", "mpeg4", "-profile:v", "0"][..], "mp4v"),
        ("aac", &["-c:a", "aac"], "AAC"),
        ("high", &["-profile:v", "high"], "H.264 of profile 100"),
        ("opus", &["-c:a", "libopus", "-ar", "48000"], "Opus"),
    ] {
        let movie = Movie::new(&world, &format!("{name}.mp4"), 1, options);
        let said = movie::refusal(&world, &["--board", "hosted", movie.file()]);
        assert!(said.contains(named) && said.contains(convert), "{said}");
        assert!(said.contains(name), "{said}");
    }
    let fragments = ["-movflags", "frag_keyframe+empty_moov"];
    let movie = Movie::new(&world, "fragments.mp4", 1, &fragments);
    let said = movie::refusal(&world, &["--board", "hosted", movie.file()]);
    assert!(said.contains("ffmpeg -i FILE -c copy OUT.mp4"), "{said}");
    world.is_clean();
}

#[test]
fn files_that_are_no_whole_movies_are_refused() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 1, &["-movflags", "faststart"]);
    let whole = fs::read(movie.path()).expect("the movie");
    let broken = world.path("broken.mp4");
    let behind = Movie::new(&world, "index-behind.mp4", 1, &[]);
    let behind = fs::read(behind.path()).expect("the movie");
    for (bytes, named) in [
        (&[][..], "is empty"),
        (b"no movie at all, but text of some length", "no index"),
        (&whole[..whole.len() - 1], "cut short"),
        (&whole[..whole.len() / 2], "cut short"),
        (&whole[..600], "no index"),
        (&behind[..behind.len() / 2], "no index"),
    ] {
        fs::write(&broken, bytes).expect("written");
        let said = movie::refusal(&world, &["--board", "hosted", movie::text(&broken)]);
        assert!(
            said.contains(named) && said.contains("broken.mp4"),
            "{said}"
        );
    }
    for (file, named) in [
        ("/nowhere/film.mp4", "No such file"),
        ("/dev/zero", "regular"),
    ] {
        let said = movie::refusal(&world, &["--board", "hosted", file]);
        assert!(said.contains(named) && said.contains(file), "{said}");
    }
    world.is_clean();
}

#[test]
fn movie_with_damaged_samples_ends_in_order() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 1, &["-movflags", "faststart"]);
    let whole = fs::read(movie.path()).expect("the movie");
    let media = whole
        .windows(4)
        .position(|kind| kind == b"mdat")
        .expect("media")
        + 4;
    let file = world.path("damaged.mp4");
    let each = [17, 331, 5003].into_iter();
    for (stride, method) in each.flat_map(|stride| METHODS.map(|method| (stride, method))) {
        let mut damaged = whole.clone();
        for byte in damaged[media..].iter_mut().step_by(stride) {
            *byte ^= 0x5a;
        }
        fs::write(&file, damaged).expect("written");
        let arguments = ["play", "--board", "hosted", "--stall", "300", "--json"];
        let rest = ["--method", method, movie::text(&file)];
        let output = world.run(&[&arguments[..], &rest].concat());
        // What a decoder makes of it is its own affair; that it ends, and how, is ours.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        let is_said = output.stderr.starts_with(b"hythe: ");
        assert_eq!(output.status.success(), !is_said, "{output:?}");
        world.is_clean();
    }
}

#[test]
fn unknown_board_is_named() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 1, &[]);
    let said = movie::refusal(&world, &["--board", "abacus", movie.file()]);
    assert!(said.contains("abacus"), "{said}");
    world.is_clean();
}

#[test]
fn core_refuses_too_large_pictures_with_remedy() {
    let world = World::new();
    for size in ["1280:720", "800:600"] {
        let scale = format!("scale={size}");
        let movie = Movie::new(&world, "large.mp4", 1, &["-vf", &scale, "-refs", "16"]);
        let said = movie::refusal(&world, &["--board", "hosted", movie.file()]);
        assert!(said.contains("ffmpeg -i FILE -vf scale=320:-2"), "{said}");
    }
    world.is_clean();
}

#[test]
fn full_disk_is_named() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 2, &[]);
    for option in ["--video-out", "--audio-out"] {
        let arguments = ["--board", "hosted", option, "/dev/full", movie.file()];
        let said = movie::refusal(&world, &arguments);
        assert!(
            said.contains("/dev/full") && said.contains("No space"),
            "{said}"
        );
    }
    world.is_clean();
}

#[test]
fn core_killed_while_it_plays_is_named() {
    for (board, method) in [
        ("hosted", "hythe"),
        ("mps2-an386", "hythe"),
        ("hosted", "copy"),
    ] {
        let world = World::new();
        let child = playing_on(&world, board, method, NEVER);
        signal(world.process_with("player.elf"), Signal::KILL);
        let output = end_of(child);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("the core ended while it played"), "{said}");
        world.is_clean();
    }
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    for method in METHODS {
        let world = World::new();
        let child = playing(&world, method, NEVER);
        signal(child.id(), Signal::INT);
        let output = end_of(child);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.trim(), "hythe: interrupted", "{method}");
        world.is_clean();
    }
}
