//! The programs that these tests need, and how they are run.

use std::process::{Command, Stdio};

use crate::support::streams::{MediaFixture, is_there};
use crate::support::{Ended, Running};

/// Set by `make test-media`: what is missing fails instead of being left out.
const ALL_NEEDED: &str = "HYTHE_TEST_MEDIA";

/// As [`fixture`], for a test that has to be root to `what`.
pub(crate) fn fixture_of_root(
    programs: &[(&str, &str)],
    what: &str,
    left_out: &str,
) -> Option<MediaFixture> {
    if rustix::process::geteuid().is_root() {
        return fixture(programs, left_out);
    }
    eprintln!("SKIPPED ({what} needs root): {left_out}");
    assert!(
        std::env::var_os(ALL_NEEDED).is_none(),
        "{what} needs root, for: {left_out}"
    );
    None
}

/// The program that this variable names, where `script` has put it.
pub(crate) fn program_of_environment(
    variable: &str,
    script: &str,
    left_out: &str,
) -> Option<String> {
    let program = std::env::var(variable).ok();
    if program.is_none() {
        eprintln!("SKIPPED (no {variable}; {script}): {left_out}");
        assert!(
            std::env::var_os(ALL_NEEDED).is_none(),
            "{variable} names no program for: {left_out}; {script} fetches one"
        );
    }
    program
}

/// A fixture, if the programs are there too: names, and what makes them say their version.
pub(crate) fn fixture(programs: &[(&str, &str)], left_out: &str) -> Option<MediaFixture> {
    let mut missing = programs
        .iter()
        .filter(|(program, version)| !is_there(program, version));
    let fixture = match missing.next() {
        Some((program, _)) => {
            eprintln!("SKIPPED (no {program}; scripts/media-tools.sh): {left_out}");
            None
        }
        None => MediaFixture::new(left_out),
    };
    assert!(
        fixture.is_some() || std::env::var_os(ALL_NEEDED).is_none(),
        "something is missing for: {left_out}; run scripts/media-tools.sh"
    );
    fixture
}

/// Starts a program with these arguments.
pub(crate) fn start(program: &str, arguments: &str) -> Running {
    let mut command = Command::new(program);
    command
        .args(arguments.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running::new(command)
}

/// It must have come to a good end.
pub(crate) fn ended_well(what: &str, running: Running) -> Ended {
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{what}: {}", ended.errors);
    ended
}

/// Runs a program to a good end.
pub(crate) fn run(program: &str, arguments: &str) -> Ended {
    ended_well(arguments, start(program, arguments))
}
