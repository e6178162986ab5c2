//! A test program, and what it prints: an event a line, as JSON, with the time of each test.
//!
//! The format is one of unstable Rust. The pinned compiler's test programs print it when
//! `RUSTC_BOOTSTRAP` is set for them; without times, a text would do. Never trusts it alone: a
//! program's exit status decides, too.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// A program full of tests.
#[derive(Debug)]
pub(super) struct Program {
    /// Its main source file, from the root of the workspace on.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Where it runs: the folder of its package, as under cargo.
    pub(super) directory: PathBuf,
}

/// Names of tests by the source of their module.
pub(super) type Modules = BTreeMap<String, Vec<String>>;

/// How many tests there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) ignored: usize,
}

/// One test, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) result: TestResult,
    pub(super) seconds: f64,
    /// What it printed.
    pub(super) said: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestResult {
    Passed,
    Failed,
    Ignored,
    /// It began, and nothing more was heard: the program ended, or was ended.
    Unfinished,
}

/// A line, as far as it is read.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    about: String,
    event: String,
    name: Option<String>,
    exec_time: Option<f64>,
    stdout: Option<String>,
}

impl Counts {
    pub(super) fn add(&mut self, test: &Test) {
        match test.result {
            TestResult::Passed => self.passed += 1,
            TestResult::Failed | TestResult::Unfinished => self.failed += 1,
            TestResult::Ignored => self.ignored += 1,
        }
    }

    pub(super) fn add_all(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// Runs a test program so that it prints events.
pub(super) fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    command
        .current_dir(&program.directory)
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["-Z", "unstable-options", "--format", "json"])
        .args(["--report-time", "--show-output"]);
    command
}

/// Names of the tests that a program leaves out unless it is asked for them.
pub(super) fn ignored(program: &Program) -> Result<Vec<String>, String> {
    list(program, &["--ignored"])
}

/// All tests of a program, by the source of the module that they are in.
pub(super) fn modules(program: &Program) -> Result<Modules, String> {
    let mut modules = Modules::new();
    for test in list(program, &[])? {
        modules
            .entry(source(&program.name, &test))
            .or_default()
            .push(test);
    }
    Ok(modules)
}

/// The source of a test's module, in a program that has one for each matter (`tests/it/main.rs`);
/// else the program's.
pub(super) fn source(program: &str, test: &str) -> String {
    match (program.strip_suffix("/it/main.rs"), test.split_once("::")) {
        (Some(folder), Some((module, _))) => format!("{folder}/it/{module}.rs"),
        _ => program.to_owned(),
    }
}

fn list(program: &Program, which: &[&str]) -> Result<Vec<String>, String> {
    let output = Command::new(&program.path)
        .current_dir(&program.directory)
        .args(["--list", "--format", "terse"])
        .args(which)
        .output()
        .map_err(|error| format!("{}: {error}", program.path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

/// The tests of all events in `text`. What else is there comes from programs that tests have
/// started: lines of their own, and the begun line of one that was killed, before an event.
pub(super) fn tests(text: &str) -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::new();
    for line in text.lines() {
        let start = line.find("{ \"type\":").unwrap_or(0);
        let Ok(event) = serde_json::from_str::<Event>(&line[start..]) else {
            continue;
        };
        let (true, Some(name)) = (event.about == "test", event.name) else {
            continue;
        };
        let result = match event.event.as_str() {
            "started" => TestResult::Unfinished,
            "ok" => TestResult::Passed,
            "failed" => TestResult::Failed,
            "ignored" => TestResult::Ignored,
            _ => continue, // that it takes long
        };
        let test = Test {
            result,
            seconds: event.exec_time.unwrap_or(0.0),
            said: event.stdout.unwrap_or_default(),
            name,
        };
        match tests.iter_mut().find(|known| known.name == test.name) {
            Some(known) => *known = test,
            None => tests.push(test),
        }
    }
    tests
}

/// What is to be read of those that failed.
pub(super) fn failures(tests: &[Test]) -> String {
    let of_one = |test: &Test| match test.result {
        TestResult::Failed => format!("---- {}\n{}\n", test.name, test.said),
        TestResult::Unfinished => format!("---- {}\ndid not end\n", test.name),
        TestResult::Passed | TestResult::Ignored => String::new(),
    };
    tests.iter().map(of_one).collect()
}

/// The sum of all results in what `cargo test` printed.
pub(super) fn results(text: &str) -> Counts {
    let mut counts = Counts::default();
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "));
    for part in lines.flat_map(|line| line.split(['.', ';'])) {
        let Some((number, what)) = part.trim().split_once(' ') else {
            continue;
        };
        let number = number.parse().unwrap_or(0);
        match what {
            "passed" => counts.passed += number,
            "failed" => counts.failed += number,
            "ignored" => counts.ignored += number,
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: &str = r#"{ "type": "suite", "event": "started", "test_count": 4 }
{ "type": "test", "event": "started", "name": "a" }
{ "type": "test", "event": "started", "name": "b" }
{ "type": "test", "event": "timeout", "name": "b" }
a program prints this
{ "type": "test", "name": "a", "event": "ok", "exec_time": 1.5, "stdout": "skipped: x\n" }
{ "type": "test", "event": "ignored", "name": "c" }
{ "type": "test", "event": "started", "name": "d" }
{ "type": "test", "name": "b", "event": "failed", "exec_time": 61.5, "stdout": "at line 3\n" }
"#;

    #[test]
    fn events_are_tests_with_results_and_times() {
        let found = tests(EVENTS);
        let mut counts = Counts::default();
        found.iter().for_each(|test| counts.add(test));
        // The one that did not end has failed, whatever the program says.
        assert_eq!((counts.passed, counts.failed, counts.ignored), (1, 2, 1));
        assert_eq!(found[0].said, "skipped: x\n");
        assert!((found[1].seconds - 61.5).abs() < 1e-9);
        assert_eq!(
            failures(&found),
            "---- b\nat line 3\n\n---- d\ndid not end\n"
        );
    }

    #[test]
    fn tests_of_a_module_are_named_by_its_source() {
        let program = "crates/a/tests/it/main.rs";
        assert_eq!(source(program, "b::c::d"), "crates/a/tests/it/b.rs");
        assert_eq!(source(program, "d"), program);
        assert_eq!(source("crates/a/src/lib.rs", "b::c"), "crates/a/src/lib.rs");
    }

    #[test]
    fn event_behind_a_begun_line_is_read() {
        let text = "test role ... { \"type\": \"test\", \"event\": \"ok\", \"name\": \"a\" }\n";
        let found = tests(text);
        assert_eq!((found.len(), found[0].result), (1, TestResult::Passed));
    }
}
