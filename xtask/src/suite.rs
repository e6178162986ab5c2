//! `cargo xtask test`: all tests, several test programs side by side, and which tests took longest.
//!
//! Called by the Makefile. `cargo test` runs one test program after another, and many of ours wait
//! most of the time: for timers, for emulated boards, for each other. Within a process nothing is
//! different from `cargo test`: the tests of a program share it, or those of one module of
//! `tests/it`.
//!
//! `--slow` runs the tests marked `#[ignore = "slow: ..."]` instead, and `--slow PART/PARTS` a
//! share of them; each test is in exactly one part. `--hosts` runs the tests of the agent, whose
//! package is none of the workspace, and of the commands that need it. Output is kept in
//! `<target>/tests/`, and shown of what failed. Never runs a test twice.

mod build;
mod job;
mod libtest;
mod report;

use crate::metadata::Metadata;
use job::Job;
use libtest::Program;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

/// Test programs that run at once for each CPU. Each of them runs as many tests at once as there
/// are CPUs, and most of those wait.
const PROGRAMS_PER_CPU: usize = 2;
/// Of the agent's: each of them starts several agents, which tell each other every second that they
/// live.
const HOSTS_PROGRAMS_PER_CPU: usize = 1;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// All tests but the slow ones.
    Usual,
    /// Slow tests: those whose place in the sorted list of all, divided by `parts`, leaves `part`.
    Slow { part: usize, parts: usize },
    /// Tests of the agent.
    Hosts,
}

/// Builds the tests, runs them, and prints what came of them. An error if one failed.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let choice = choice(arguments)?;
    let root = Metadata::load()?.workspace_root;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let target = root.join(target);
    let mut per_cpu = PROGRAMS_PER_CPU;
    let jobs = match choice {
        Choice::Usual => {
            let programs = build::programs(&root)?;
            build::models(&root, &target)?;
            usual(&programs, &root, &target)?
        }
        Choice::Slow { part, parts } => {
            slow(&build::programs(&root)?, &root, &target, (part, parts))?
        }
        Choice::Hosts => {
            per_cpu = HOSTS_PROGRAMS_PER_CPU;
            hosts(&root, &target)?
        }
    };
    let logs = target.join("tests");
    std::fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let begun = Instant::now();
    let outcomes = run_all(jobs, per_cpu, &logs);
    report::print(&outcomes, begun.elapsed())
}

fn choice(arguments: &[String]) -> Result<Choice, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text = match words[..] {
        [] => return Ok(Choice::Usual),
        ["--slow"] => return Ok(Choice::Slow { part: 0, parts: 1 }),
        ["--slow", part] => part,
        ["--hosts"] => return Ok(Choice::Hosts),
        _ => return Err("test takes nothing, --slow, --slow PART/PARTS, or --hosts".into()),
    };
    let numbers = text.split_once('/');
    let numbers = numbers.and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    match numbers {
        Some((part, parts)) if part < parts => Ok(Choice::Slow { part, parts }),
        _ => Err(format!(
            "{text} is no PART/PARTS; the four quarters are 0/4 to 3/4"
        )),
    }
}

/// The C side and the models first: they compute for as long as anything, and so end in time.
fn usual(programs: &[Program], root: &Path, target: &Path) -> Result<Vec<Job>, String> {
    let mut jobs = vec![
        build::run_models(root, target),
        build::make(root, target, "preload-init", "test"),
        build::documentation(root),
        build::make(root, target, "rtos", "test"),
    ];
    for program in programs {
        jobs.extend(Job::test_program(program)?);
    }
    Ok(jobs)
}

/// Of all that is slow, sorted by name, the tests of one part; those of one module run together.
fn slow(
    programs: &[Program],
    root: &Path,
    target: &Path,
    (part, parts): (usize, usize),
) -> Result<Vec<Job>, String> {
    let mut tests = BTreeMap::new();
    for program in programs {
        for test in libtest::ignored(program)? {
            tests.insert((program.name.as_str(), test), Some(program));
        }
    }
    for (name, test) in OTHERS {
        tests.insert((name, test.to_owned()), None);
    }
    let mut others = Vec::new();
    let mut chosen: BTreeMap<String, (&Program, Vec<String>)> = BTreeMap::new();
    for ((name, test), program) in tests.into_iter().skip(part).step_by(parts) {
        match program {
            Some(program) => {
                let source = libtest::source(name, &test);
                let (_, tests) = chosen.entry(source).or_insert((program, Vec::new()));
                tests.push(test);
            }
            None if name.starts_with("scripts/") => others.push(build::script(root, name, &test)),
            None => others.push(build::make(root, target, name, &test)),
        }
    }
    let jobs = chosen
        .into_iter()
        .map(|(source, (program, tests))| Job::slow_tests(program, &source, &tests));
    Ok(others.into_iter().chain(jobs).collect())
}

/// Slow tests that are not of Rust: goals of a folder's Makefile, and scripts with an argument.
const OTHERS: [(&str, &str); 5] = [
    // Every image on its emulated board.
    ("rtos", "test-boards"),
    // All libraries compile for musl and for 32 bits.
    ("scripts/other-targets.sh", "check"),
    // A pool shared by programs of two widths, and a static program.
    ("scripts/other-targets.sh", "test"),
    // What `make install` and `make deb` make, used where a user has it.
    ("scripts/installation.sh", "moved"),
    ("scripts/installation.sh", "packages"),
];

/// The commands that need the agent first: all of the agent's tests may need the command `hythe`.
fn hosts(root: &Path, target: &Path) -> Result<Vec<Job>, String> {
    let across = build::across(root, target)?;
    let command = build::built(target, "hythe");
    let programs = build::hosts_programs(root, target)?;
    let mut jobs = vec![across];
    for program in &programs {
        let agents = Job::test_program(program)?.into_iter();
        jobs.extend(agents.map(|job| job.with("HYTHE_COMMAND", &command)));
    }
    Ok(jobs)
}

/// Runs all, `per_cpu` at a time for each CPU, and prints a line of each that has ended.
fn run_all(jobs: Vec<Job>, per_cpu: usize, logs: &Path) -> Vec<job::Outcome> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(jobs.into_iter());
    let outcomes = Mutex::new(Vec::new());
    let next = || queue.lock().expect("nothing panics with it").next();
    std::thread::scope(|scope| {
        for _ in 0..cpus * per_cpu {
            scope.spawn(|| {
                while let Some(job) = next() {
                    let outcome = job.run(logs);
                    report::print_one(&outcome);
                    outcomes
                        .lock()
                        .expect("nothing panics with it")
                        .push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("nothing panicked with it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_is_one_of_so_many() {
        let choice = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            choice(&words)
        };
        assert_eq!(choice(&[]), Ok(Choice::Usual));
        assert_eq!(choice(&["--slow"]), Ok(Choice::Slow { part: 0, parts: 1 }));
        assert_eq!(choice(&["--hosts"]), Ok(Choice::Hosts));
        let last = Choice::Slow { part: 3, parts: 4 };
        assert_eq!(choice(&["--slow", "3/4"]), Ok(last));
        for wrong in ["4/4", "0/0", "-1/4", "3", "a/b"] {
            let refusal = choice(&["--slow", wrong]).expect_err(wrong);
            assert!(refusal.contains(wrong) && refusal.contains("PART/PARTS"));
        }
        assert!(choice(&["--fast"]).is_err());
    }
}
