//! The conformance programs of Debian's source package posixtestsuite for `sem_*` and `mq_*`, built
//! against `hythe_sem_*` and `hythe_mq_*` by a header that maps the names, and run between
//! processes.
//!
//! What comes out must be what `posix_expected.txt` says of each file: `pass`, `pass, races` and of
//! what, or `n/a` and why.
//! The programs are fetched, never committed (`scripts/posixtestsuite.sh`).
//! `HYTHE_POSIX=write` prints the list as it is found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::stage::{Stage, repository};
use hythe::{Pool, PoolOptions};
use hythe_testing::Polling;

const EXPECTED: &str = include_str!("../posix_expected.txt");
/// No program takes a tenth of it.
const BOUND: Duration = Duration::from_secs(60);
/// Of a program that fails where its processes are not scheduled as it expects, whoever has written
/// the functions; how often it may be started until it passes.
const RACES: &str = "pass, races: ";
const TRIES: usize = 10;
const FAMILIES: [&str; 2] = ["sem_", "mq_"];
/// Programs that mostly sleep: more than there are CPUs.
const AT_ONCE: usize = 6;

/// What is expected of a file: `pass`, or why it cannot apply.
fn expected() -> BTreeMap<String, String> {
    let lines = EXPECTED.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(file, outcome)| (file.to_owned(), outcome.trim().to_owned()))
        .collect()
}

/// The suite, if this machine's sources of packages have it.
fn fetched() -> Option<PathBuf> {
    let folder = repository().join("target/posixtestsuite");
    let mut fetch = Command::new(repository().join("scripts/posixtestsuite.sh"));
    if !fetch
        .arg(&folder)
        .status()
        .is_ok_and(|ended| ended.success())
    {
        eprintln!("SKIPPED: Debian's source package posixtestsuite cannot be fetched");
        return None;
    }
    Some(folder.join("source"))
}

/// Every file of C for a function of the two families, by its name in the suite.
fn files(suite: &Path) -> Vec<String> {
    let interfaces = suite.join("conformance/interfaces");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(&interfaces).expect("the suite").flatten() {
        let function = folder.file_name().to_string_lossy().into_owned();
        if !FAMILIES.iter().any(|family| function.starts_with(family)) {
            continue;
        }
        for file in std::fs::read_dir(folder.path())
            .expect("a folder")
            .flatten()
        {
            let name = file.file_name().to_string_lossy().into_owned();
            if name.ends_with(".c") {
                found.push(format!("{function}/{name}"));
            }
        }
    }
    found.sort();
    found
}

/// How a program ended, in a word.
fn outcome(stage: &Stage, suite: &Path, file: &str) -> String {
    let name = file.replace('/', "-").replace(".c", "");
    let program = stage.root().join(&name);
    let source = suite.join("conformance/interfaces").join(file);
    let mut compile = Command::new("gcc");
    compile
        .args(["-std=gnu99", "-w", "-pthread", "-D_GNU_SOURCE", "-include"])
        .arg(repository().join("bindings/c/tests/posix_names.h"))
        .arg("-I")
        .arg(suite.join("include"))
        .args(stage.flags(&["--cflags"]))
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .args(stage.flags(&["--libs"]))
        .args(["-lrt", "-lm"]);
    let compiled = compile.output().expect("gcc");
    if !compiled.status.success() {
        let said = String::from_utf8_lossy(&compiled.stderr);
        return format!(
            "does not compile: {}",
            said.lines().nth(1).unwrap_or_default()
        );
    }
    let root = stage.root().join(format!("{name}.pools"));
    std::fs::create_dir(&root).expect("a place");
    let options = PoolOptions::new("default").root(&root).bytes(12 << 20);
    Pool::open_or_create(&options).expect("a pool");
    let ended = run_bounded(stage.command(&program).env("HYTHE_ROOT", &root));
    let _ = std::fs::remove_dir_all(&root);
    ended
}

fn run_bounded(command: &mut Command) -> String {
    let said = tempfile::NamedTempFile::new().expect("a file");
    let output = said.reopen().expect("the file");
    let errors = output.try_clone().expect("the file");
    let command = command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let mut child = command.spawn().expect("started");
    let (begun, mut polling) = (Instant::now(), Polling::new("the end of a test"));
    loop {
        if let Some(status) = child.try_wait().expect("asked") {
            if status.code() == Some(0) {
                return "pass".to_owned();
            }
            let said = std::fs::read_to_string(said.path()).unwrap_or_default();
            return format!("{status}: {}", said.trim().replace('\n', "; "));
        }
        if begun.elapsed() > BOUND {
            let _ = child.kill();
            let _ = child.wait();
            return "does not end".to_owned();
        }
        polling.pause();
    }
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn programs_end_as_expected() {
    let Some(suite) = fetched() else { return };
    let stage = Stage::install();
    let all = files(&suite);
    let expected = expected();
    let only = std::env::var("HYTHE_POSIX_ONLY").unwrap_or_default();
    let left = Mutex::new(
        all.iter()
            .filter(|file| file.contains(&only))
            .rev()
            .collect::<Vec<_>>(),
    );
    let found = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no panic").pop();
                    let Some(file) = next else { break };
                    let known = expected.get(file.as_str());
                    let outcome = match known {
                        Some(reason) if reason.starts_with("n/a: ") => reason.clone(),
                        Some(passes) if passes.starts_with(RACES) => {
                            let tries = || outcome(&stage, &suite, file);
                            let mut ends = std::iter::repeat_with(tries).take(TRIES);
                            if ends.any(|ended| ended == "pass") {
                                passes.clone()
                            } else {
                                format!("fails {TRIES} times")
                            }
                        }
                        _ => outcome(&stage, &suite, file),
                    };
                    found
                        .lock()
                        .expect("no panic")
                        .insert(file.clone(), outcome);
                }
            });
        }
    });
    let found = found.into_inner().expect("no panic");
    if std::env::var_os("HYTHE_POSIX").is_some() {
        for (file, outcome) in &found {
            println!("{file} {outcome}");
        }
        return;
    }
    let passed = found.values().filter(|outcome| *outcome == "pass").count();
    println!(
        "{} files: {passed} pass, {} do not apply",
        found.len(),
        found.len() - passed
    );
    assert_eq!(found, expected);
}
