//! The window and the sound card of `hythe play`, on a display that shows nothing to anybody.

use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::demo::world::{World, end_of, signal};
use crate::play::movie::{self, Movie, NEVER};
use crate::play::x_server::{Client, KEY_ESCAPE, KEY_Q, KEY_SPACE, XServer};
use hythe_testing::eventually_or_show;

/// Long enough for a test to look at it on a machine that does much else.
const LONG: u32 = 120;
/// A display that there is not.
const NOWHERE: &str = ":999999";
/// Red, as BT.601 writes it.
const RED: &[&str] = &["-vf", "scale=64:48,lutyuv=y=81:u=90:v=240"];

/// A movie in a window.
struct Watched {
    world: World,
    display: XServer,
    client: Client,
    window: u32,
    child: Child,
    movie: Movie,
}

impl Watched {
    fn start() -> Self {
        let (world, display) = (World::new(), XServer::start());
        let movie = Movie::new(&world, "red.mp4", LONG, RED);
        let child = play(&world, &display.name(), &[movie.file()]);
        let mut client = display.connect();
        let window = client.window("red.mp4");
        Self {
            world,
            display,
            client,
            window,
            child,
            movie,
        }
    }

    /// Ends with exit code 0, and says what was played.
    fn end(self) -> (World, Movie, Value) {
        let output = end_of(self.child);
        (self.world, self.movie, played(&output))
    }
}

fn play(world: &World, display: &str, arguments: &[&str]) -> Child {
    let base = ["play", "--json", "--board", "hosted", "--stall", NEVER];
    let mut command = world.command(&[&base[..], arguments].concat());
    command.env("DISPLAY", display);
    // A sound card that writes what it is given to a file, as fast as one plays.
    command.env("SDL_AUDIODRIVER", "disk");
    command.env("SDL_DISKAUDIOFILE", world.path("card.raw"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program runs")
}

fn played(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("one JSON document and nothing else")
}

fn hop<'p>(played: &'p Value, name: &str) -> Option<&'p Value> {
    let hops = played["hops"].as_array().expect("hops");
    hops.iter().find(|hop| hop["name"] == name)
}

fn is_near(colour: [u8; 3], expected: [u8; 3]) -> bool {
    let mut both = colour.iter().zip(expected);
    both.all(|(is, should)| is.abs_diff(should) < 16)
}

/// 16-bit samples that are not 0: silence stands where a machine was late.
fn heard(bytes: &[u8], value: fn([u8; 2]) -> i16) -> Vec<i16> {
    let samples = bytes
        .chunks_exact(2)
        .map(|sample| value([sample[0], sample[1]]));
    samples.filter(|sample| *sample != 0).collect()
}

/// Of the last 300 KB that the sound card was given, if there are so many.
fn lately(card: &Path) -> Option<Vec<i16>> {
    let bytes = fs::read(card).ok()?;
    let first = bytes.len().checked_sub(300_000)?;
    Some(heard(&bytes[first / 4 * 4..], i16::from_be_bytes))
}

#[test]
fn window_keeps_aspect_ratio_and_sound_card_plays() {
    let mut watched = Watched::start();
    let (client, window) = (&mut watched.client, watched.window);
    assert_eq!(client.size(window), (64, 48));
    let (red, black) = ([254, 0, 0], [0, 0, 0]);
    let client = std::cell::RefCell::new(client);
    let looks = |places: &[(u16, u16, [u8; 3])]| {
        let colour = |x, y| client.borrow_mut().colour(window, x, y);
        eventually_or_show(
            "the picture is seen",
            || places.iter().all(|(x, y, is)| is_near(colour(*x, *y), *is)),
            || {
                format!(
                    "{:?}",
                    places
                        .iter()
                        .map(|(x, y, _)| colour(*x, *y))
                        .collect::<Vec<_>>()
                )
            },
        );
    };
    looks(&[(32, 24, red), (1, 1, red), (62, 46, red)]);
    // 96 rows are 128 columns of it: a third of the window is black on either side.
    client.borrow_mut().resize(window, 384, 96);
    looks(&[
        (64, 48, black),
        (192, 2, red),
        (192, 93, red),
        (320, 48, black),
    ]);
    let card = watched.world.path("card.raw");
    let is_silent = || lately(&card).is_some_and(|samples| samples.is_empty());
    let is_heard = || lately(&card).is_some_and(|samples| samples.len() > 100_000);
    eventually_or_show("there is sound", is_heard, || "none".to_owned());
    client.borrow_mut().press(window, KEY_SPACE);
    eventually_or_show("it stands", is_silent, || "it continues".to_owned());
    client.borrow_mut().press(window, KEY_SPACE);
    eventually_or_show("it continues", is_heard, || "it stands".to_owned());
    watched.client.close(window);
    let (world, movie, played) = watched.end();
    assert!(played["closed_at_ns"].is_u64(), "{played}");
    let frames = played["frames"].as_array().expect("frames");
    assert!(frames.len() > 1 && frames.len() < 25 * LONG as usize);
    assert_eq!(played["sound"]["silent"], 0, "{played}");
    assert_eq!(played["slots_leaked"], 0, "{played}");
    for name in ["window", "sound_card"] {
        let hop = hop(&played, name).expect("the hop");
        assert_eq!(hop["cpu_copies"], 1);
        assert!(hop["buffers"].as_u64() > Some(0), "{hop}");
    }
    let played = heard(&fs::read(&card).expect("samples"), i16::from_be_bytes);
    let samples = heard(&movie.samples(), i16::from_le_bytes);
    assert!(played.len() > 100_000, "{}", played.len());
    let is_there = samples
        .windows(played.len())
        .take(10_000)
        .any(|part| part == played);
    assert!(is_there, "other samples");
    world.is_clean();
}

#[test]
fn keys_end_a_movie_in_order() {
    for key in [KEY_Q, KEY_ESCAPE] {
        let mut watched = Watched::start();
        watched.client.press(watched.window, key);
        let (world, _, played) = watched.end();
        assert!(played["closed_at_ns"].is_u64(), "{played}");
        assert_eq!(played["slots_leaked"], 0, "{played}");
        world.is_clean();
    }
}

#[test]
fn movie_in_a_window_plays_to_its_end() {
    let (world, display) = (World::new(), XServer::start());
    let movie = Movie::new(&world, "red.mp4", 1, RED);
    for method in ["hythe", "copy"] {
        let arguments = ["--method", method, movie.file()];
        let played = played(&end_of(play(&world, &display.name(), &arguments)));
        assert_eq!(played["closed_at_ns"], Value::Null);
        assert_eq!(played["frames_shown"], 25, "{played}");
        assert_eq!(played["slots_leaked"], 0, "{played}");
        assert!(hop(&played, "window").is_some_and(|hop| hop["buffers"].as_u64() > Some(0)));
        world.is_clean();
    }
}

#[test]
fn without_a_sound_card_it_plays_silently() {
    let (world, display) = (World::new(), XServer::start());
    let movie = Movie::new(&world, "red.mp4", 1, RED);
    let base = ["play", "--json", "--board", "hosted", "--stall", NEVER];
    let mut command = world.command(&[&base[..], &[movie.file()]].concat());
    command.env("DISPLAY", display.name());
    command.env("SDL_AUDIODRIVER", "there-is-no-such-driver");
    let output = command.output().expect("the program runs");
    let played = played(&output);
    assert_eq!(hop(&played, "sound_card"), None);
    assert_eq!(played["sound"]["silent"], 0, "{played}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("plays without sound"), "{said}");
    world.is_clean();
}

#[test]
fn display_that_dies_is_named() {
    let watched = Watched::start();
    watched.display.signal(Signal::TERM);
    let output = end_of(watched.child);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let lost = format!("connection to DISPLAY={} was lost", watched.display.name());
    assert!(said.contains(&lost), "{said}");
    watched.world.is_clean();
}

#[test]
fn display_that_stands_still_holds_nothing_up() {
    let watched = Watched::start();
    watched.display.signal(Signal::STOP);
    let card = watched.world.path("card.raw");
    let bytes = || fs::metadata(&card).map_or(0, |file| file.len());
    let before = bytes();
    eventually_or_show(
        "sound goes on",
        || bytes() > before + 400_000,
        || bytes().to_string(),
    );
    signal(watched.child.id(), Signal::INT);
    let output = end_of(watched.child);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.ends_with("hythe: interrupted\n"), "{said}");
    watched.world.is_clean();
}

#[test]
fn display_that_does_not_answer_can_be_given_up() {
    let (world, display) = (World::new(), XServer::start());
    let movie = Movie::new(&world, "red.mp4", 1, RED);
    display.signal(Signal::STOP);
    let child = play(&world, &display.name(), &[movie.file()]);
    let tasks = format!("/proc/{}/task", child.id());
    let is_waiting = || {
        let tasks = fs::read_dir(&tasks).into_iter().flatten().flatten();
        let mut names = tasks.flat_map(|task| fs::read_to_string(task.path().join("comm")));
        names.any(|name| name == "window\n")
    };
    eventually_or_show("it waits", is_waiting, || "not yet".to_owned());
    signal(child.id(), Signal::INT);
    let output = end_of(child);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(output.stderr, b"hythe: interrupted\n", "{output:?}");
    world.is_clean();
}

#[test]
fn player_names_what_window_lacks_with_remedy() {
    let world = World::new();
    let movie = Movie::new(&world, "red.mp4", 1, RED);
    // Not a library.
    fs::write(world.path("libSDL2-2.0.so.0"), "text").expect("written");
    let refused = |display: &str, libraries: &str, options: &[&str]| {
        let base = [&["play", "--board", "hosted"], options, &[movie.file()]].concat();
        let mut command = world.command(&base);
        if !libraries.is_empty() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let output = command.env("DISPLAY", display).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused(NOWHERE, "", &[]);
    assert!(
        said.contains("DISPLAY=:999999") && said.contains("--no-window"),
        "{said}"
    );
    let said = refused("", "", &["--window"]);
    assert!(said.contains("DISPLAY is not set"), "{said}");
    let said = refused(NOWHERE, movie::text(&world.path(".")), &[]);
    assert!(said.contains("libSDL2-2.0.so.0"), "{said}");
    assert!(said.contains("apt-get install libsdl2-2.0-0"), "{said}");
    world.is_clean();
}

#[test]
fn files_take_the_place_of_a_window() {
    let world = World::new();
    let movie = Movie::new(&world, "red.mp4", 1, RED);
    let video = world.path("out.y4m");
    for options in [&["--no-window"][..], &["--video-out", movie::text(&video)]] {
        let child = play(&world, NOWHERE, &[options, &[movie.file()]].concat());
        let played = played(&end_of(child));
        assert_eq!(
            (hop(&played, "window"), hop(&played, "sound_card")),
            (None, None)
        );
        world.is_clean();
    }
    assert!(
        movie::pictures(&video) == movie.pictures(),
        "other pictures"
    );
}
