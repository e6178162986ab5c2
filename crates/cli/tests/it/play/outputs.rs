//! Where the player's own output goes: terminals that nobody reads, full disks, closed pipes.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::demo::world::{World, end_of};
use crate::play::movie::{Movie, NEVER};
use hythe_testing::let_time_pass;

/// Writes to a terminal until it takes no more.
fn fill(terminal: &Path) {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(flags);
    let mut writer = options.open(terminal).expect("own");
    let mut refusals = 0;
    // What was taken is moved on by the kernel's own thread, which may make space again.
    while refusals < 10 {
        match writer.write(&[b'.'; 256]) {
            Ok(_) => refusals = 0,
            Err(_) => refusals += 1,
        }
        let_time_pass(
            Duration::from_millis(1),
            "the kernel's thread may make space",
        );
    }
}

#[test]
fn terminal_that_nobody_reads_does_not_hold_up_a_movie() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 2, &[]);
    // Nobody ever reads this side.
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&person).expect("own");
    unlockpt(&person).expect("own");
    let name = ptsname(&person, Vec::new()).expect("own");
    let terminal = PathBuf::from(name.into_string().expect("plain"));
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NOCTTY.bits().cast_signed());
    let program = options.read(true).write(true).open(&terminal).expect("own");
    fill(&terminal);
    let mut command = world.command(&["play", "--json", "--board", "hosted", movie.file()]);
    command.env("TERM", "xterm");
    command.stdout(Stdio::piped()).stderr(Stdio::from(program));
    let output = end_of(command.spawn().expect("the program runs"));
    assert!(output.status.success(), "{output:?}");
    let played: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    let count = |field: &str| played[field].as_u64().expect("a number");
    assert_eq!(count("frames_shown") + count("frames_dropped"), 50);
    assert_eq!(count("slots_leaked"), 0);
    world.is_clean();
}

#[test]
fn unwritable_result_fails_only_when_wanted() {
    let world = World::new();
    let movie = Movie::new(&world, "film.mp4", 1, &[]);
    for form in [&["--json"][..], &[]] {
        let base = ["play", "--board", "hosted", "--stall", NEVER, movie.file()];
        let arguments = [&base, form].concat();
        let full = File::create("/dev/full").expect("there");
        let mut command = world.command(&arguments);
        command.stdout(full).stderr(Stdio::piped());
        let output = end_of(command.spawn().expect("the program runs"));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("No space left"), "{said}");

        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = world.command(&arguments);
        command.stdout(writer).stderr(Stdio::piped());
        let output = end_of(command.spawn().expect("the program runs"));
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    world.is_clean();
}
