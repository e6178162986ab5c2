//! Everything that can go wrong: a clear error, exit code 1, and nothing left behind.

use crate::support;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use rustix::process::Signal;

use crate::demo::world::{self, World, end_of, signal};
use hythe_testing::let_time_pass;

fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} in {said:?}");
    }
}

#[test]
fn missing_file_is_named() {
    let world = World::new();
    let said = world.refusal(&["/nowhere/song.mp3"]);
    says(&said, &["/nowhere/song.mp3", "No such file"]);
    world.is_clean();
}

#[test]
fn file_that_is_no_mp3_is_refused() {
    let world = World::new();
    let file = world.path("text.mp3");
    fs::write(&file, "not music at all. ".repeat(5000)).expect("written");
    let said = world.refusal(&[file.to_str().expect("a plain path")]);
    says(&said, &["text.mp3", "no MP3 frame"]);
    fs::write(&file, "").expect("written");
    says(
        &world.refusal(&[file.to_str().expect("a plain path")]),
        &["no MP3 frame"],
    );
    world.is_clean();
}

#[test]
fn demo_refuses_irregular_file_at_once() {
    let world = World::new();
    let pipe = world.path("pipe.mp3");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("made");
    for file in [pipe.to_str().expect("a plain path"), "/dev/zero", "/proc"] {
        // Bounded: nobody ever writes to the pipe.
        let output = end_of(world.start(&[file]));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        says(&said, &[file, "not a regular file"]);
    }
    world.is_clean();
}

#[test]
fn unknown_board_is_named() {
    let world = World::new();
    let file = world.recording("plain.mp3", &["-t", "1"]);
    says(&world.refusal(&["--board", "abacus", &file]), &["abacus"]);
    world.is_clean();
}

#[test]
fn taken_port_is_named() {
    let world = World::new();
    let file = world.recording("plain.mp3", &["-t", "1"]);
    let taken = loop {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        if socket
            .local_addr()
            .expect("an address")
            .port()
            .is_multiple_of(2)
        {
            break socket;
        }
    };
    let port = taken.local_addr().expect("an address").port().to_string();
    says(
        &world.refusal(&["--board", "hosted", "--port", &port, &file]),
        &[&port],
    );
    world.is_clean();
}

#[test]
fn demo_refuses_unusable_rtp_port_before_start() {
    let world = World::new();
    let file = world.recording("short.mp3", &["-t", "1"]);
    for port in ["0", "5005", "65535"] {
        let said = world.refusal(&["--board", "hosted", "--port", port, &file]);
        says(&said, &[port, "even port"]);
        assert!(!said.contains("stage"), "{said}");
    }
    world.is_clean();
}

#[test]
fn missing_ffmpeg_is_said_with_the_package() {
    let world = World::new();
    let file = world.recording("plain.mp3", &["-t", "1"]);
    let empty = world.path("empty");
    fs::create_dir(&empty).expect("made");
    let output = world
        .command(&["demo", "--board", "hosted", &file])
        .env("PATH", &empty)
        .output();
    let output = output.expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    says(
        &String::from_utf8_lossy(&output.stderr),
        &["ffmpeg", "install"],
    );
    world.is_clean();
}

#[test]
fn root_that_cannot_be_written_is_named() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: needs root, to become somebody else");
        return;
    }
    let world = World::new();
    let file = world.recording("plain.mp3", &["-t", "1"]);
    // Where somebody else can reach it: the checkout may be closed to others.
    let programs = world.path("bin");
    fs::create_dir(&programs).expect("made");
    let program = support::copy_hythe(programs.as_ref(), &["hythe-demo"]);
    let boards = world.path("boards");
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([&world::boards(), &boards])
        .status();
    assert!(copied.expect("cp runs").success());
    fs::create_dir(world.root()).expect("made");
    for open in [world.path("."), world.root()] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).expect("set");
    }
    // As nobody, over a root that belongs to us.
    let mut command = std::process::Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program);
    command.args(["demo", "--board", "hosted", &file]);
    command
        .env("HYTHE_ROOT", world.root())
        .env("HYTHE_BOARDS", boards);
    let output = command.output().expect("setpriv runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("ermission denied") || said.contains("refusing"),
        "{said}"
    );
    world.is_clean();
}

#[test]
fn file_system_without_room_is_named_with_what_is_needed() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: needs root, to mount a small file system");
        return;
    }
    let world = World::new();
    let file = world.recording("plain.mp3", &["-t", "1"]);
    fs::create_dir(world.root()).expect("made");
    // In a mount namespace of its own: the file system goes with the demo.
    let script = "mount -t tmpfs -o size=8m,mode=1777 none \"$HYTHE_ROOT\" && exec \"$0\" demo --board hosted \"$1\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, support::HYTHE, &file]);
    let output = command
        .env("HYTHE_ROOT", world.root())
        .output()
        .expect("unshare runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    says(
        &String::from_utf8_lossy(&output.stderr),
        &[
            "region.1",
            "are possible",
            "the free space of its file system",
        ],
    );
    world.is_clean();
}

/// Starts a long demo, waits until the process with that word runs, ends it, and returns what the
/// demo said.
fn killing(word: &str, with: Signal) -> (World, String) {
    let world = World::new();
    let file = world.recording("long.mp3", &["-t", "3"]);
    let demo = world.start(&["--board", "hosted", &file]);
    let victim = world.process_with(word);
    let moment = std::time::Duration::from_millis(700);
    let_time_pass(moment, "in the middle: the frames flow by then");
    signal(victim, with);
    let output = end_of(demo);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    (world, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn core_killed_in_the_middle_is_named() {
    let (world, said) = killing("decoder.elf", Signal::KILL);
    says(&said, &["core"]);
    world.is_clean();
}

#[test]
fn sender_killed_in_the_middle_is_named() {
    let (world, said) = killing(" play ", Signal::KILL);
    says(&said, &["play", "signal: 9"]);
    world.is_clean();
}

#[test]
fn demultiplexer_killed_in_the_middle_is_named() {
    let (world, said) = killing(" demux", Signal::KILL);
    says(&said, &["demux", "signal: 9"]);
    world.is_clean();
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let world = World::new();
    let file = world.recording("long.mp3", &["-t", "3"]);
    let demo = world.start(&["--board", "hosted", &file]);
    world.process_with(" demux");
    signal(demo.id(), Signal::INT);
    let output = end_of(demo);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    says(&String::from_utf8_lossy(&output.stderr), &["interrupted"]);
    world.is_clean();
}

#[test]
fn terminals_ctrl_c_is_told_as_an_interruption_at_any_moment() {
    let world = World::new();
    let file = world.recording("long.mp3", &["-t", "3"]);
    // Not the storage stage: it ends too soon to be seen.
    for moment in ["ffmpeg", "decoder.elf", " play ", " demux"] {
        // As a terminal does it: to the whole group.
        let mut command = world.command(&["demo", "--board", "hosted", &file]);
        command.process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let demo = command.spawn().expect("the program runs");
        world.process_with(moment);
        let group = rustix::process::Pid::from_raw(demo.id().cast_signed()).expect("a process id");
        rustix::process::kill_process_group(group, Signal::INT).expect("the group is there");
        let output = end_of(demo);
        assert_eq!(output.status.code(), Some(1), "{moment}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.trim(), "hythe: interrupted", "{moment}");
        world.is_clean();
    }
}

#[test]
fn demo_killed_outright_takes_its_children_along() {
    let world = World::new();
    let file = world.recording("long.mp3", &["-t", "3"]);
    let demo = world.start(&["--board", "hosted", &file]);
    world.process_with(" demux");
    signal(demo.id(), Signal::KILL);
    end_of(demo);
    // Its pool is swept by the next demo.
    world.demo(&["--board", "hosted", &file]);
    world.is_clean();
}
