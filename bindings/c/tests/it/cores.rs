//! C programs that talk to RTOS cores, of the board `hosted`, which the command starts.

use std::path::PathBuf;
use std::process::Command;

use crate::stage::{Linking, Stage, hythe_command, repository, run, text};

/// An installation, and cores of its pool, which are stopped when the test ends, however it does.
struct Cores {
    stage: Stage,
    hythe: PathBuf,
    started: Vec<&'static str>,
}

impl Cores {
    /// No core yet, and a program of this folder. `None`: there is nothing to start cores with.
    fn with_program(source: &str) -> Option<(Self, PathBuf)> {
        let hythe = hythe_command()?;
        let stage = Stage::install();
        let boards = run(stage.command(&hythe).args(["core", "boards", "--json"]));
        if !text(&boards).contains("\"hosted\"") {
            eprintln!("SKIPPED: board hosted is not built; cargo xtask boards builds it");
            return None;
        }
        let source = repository().join("bindings/c/tests").join(source);
        let program = stage.compile("gcc", Linking::Shared, &source);
        let started = Vec::new();
        let cores = Self {
            stage,
            hythe,
            started,
        };
        Some((cores, program))
    }

    fn start(&mut self, app: &str, name: &'static str) {
        run(self
            .hythe()
            .args(["core", "run", "hosted", "--app", app])
            .args(["--detach", "--as", name]));
        self.started.push(name);
    }

    /// The command of this installation.
    fn hythe(&self) -> Command {
        self.stage.command(&self.hythe)
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        for name in &self.started {
            let _ = self.hythe().args(["core", "stop", name]).output();
        }
    }
}

/// Code or result, and what is said beside it; then outcomes of the core's own calls.
const CALLED: &str = "\
cba

the server has no such method 0
the method failed 7
the result is larger than its caller takes 100
no reply in time 0
wrong argument 0
wrong argument 0
0 result yet
abcdefghijklmnop 0
1, 0, 4, \"ABCD\", 1 served
1, -13, 5, \"\", 2 served
1, -14, 9, \"\", 3 served
-1, -10, 0, \"\", 3 served
1, -12, 0, \"\", 3 served
0
";

#[test]
fn c_program_and_a_core_call_each_other() {
    let Some((mut cores, program)) = Cores::with_program("core_calls.c") else {
        return;
    };
    cores.start("p1", "one");
    let channels = ["one/core/calls", "one/core/asks"];
    let said = run(cores.stage.command(&program).arg("default").args(channels));
    assert_eq!(text(&said), CALLED);
}

#[test]
fn sample_of_one_core_reaches_another_as_a_counted_copy() {
    let Some((mut cores, program)) = Cores::with_program("two_cores.c") else {
        return;
    };
    cores.start("decoder", "left");
    cores.start("decoder", "right");
    assert_eq!(text(&run(&mut cores.stage.command(&program))), "copied\n");
}

#[test]
fn segments_are_made_attached_and_removed_as_the_system_s() {
    let Some((mut cores, program)) = Cores::with_program("segments.c") else {
        return;
    };
    cores.start("p1", "left");
    let said = run(&mut cores.stage.command(&program));
    assert_eq!(text(&said), "all as the system's\n");
    let left = run(cores.hythe().args(["core", "segments", "left", "--json"]));
    assert!(text(&left).contains("\"segments\": []"), "{}", text(&left));
}
