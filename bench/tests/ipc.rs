//! The program as a person runs it: the document's shape, what it refuses, what it leaves behind.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde_json::Value;

/// For what must happen soon; far more than it takes.
const BOUND: Duration = Duration::from_secs(60);

fn bench(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hythe-bench"));
    command.arg("ipc").args(arguments).env("HYTHE_ROOT", root);
    command
}

fn root() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").expect("a directory for pools")
}

/// On a busy machine the floor may be disturbed: the document is there all the same, and says so.
fn document(output: &Output) -> Value {
    let complaint = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}; it said: {complaint}"));
    let invalid = document["conditions"]["invalid"].as_str();
    assert_eq!(output.status.success(), invalid.is_none(), "{complaint}");
    if let Some(why) = invalid {
        assert!(why.contains("bounce"), "{why}");
        assert!(complaint.contains(why), "{complaint}");
    }
    document
}

fn one_cpu() -> bool {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) == 1
}

fn is_empty(root: &Path) -> bool {
    let mut users = std::fs::read_dir(root).expect("the root").flatten();
    users.all(|user| {
        std::fs::read_dir(user.path())
            .expect("a user")
            .next()
            .is_none()
    })
}

#[test]
fn every_case_runs_and_the_document_has_its_shape() {
    let root = root();
    let small = ["--json", "--count", "300", "--rounds", "2"];
    let output = bench(root.path(), &small)
        .args(["--seconds", "4", "--sizes", "8,65536"])
        .output()
        .expect("it runs");
    let document = document(&output);
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "ipc");
    let command = document["command"].as_str().expect("a command");
    assert!(
        command.starts_with("hythe-bench ipc --json --count 300"),
        "{command}"
    );
    assert!(document["commit"].as_str().is_some_and(|id| id.len() >= 7));
    let machine = &document["machine"];
    assert!(machine["cpu"].is_string() && machine["kernel"].is_string());
    assert!(machine["cpus"].as_u64().is_some_and(|cpus| cpus > 0));
    assert_eq!(machine["emulated"], false);
    let results = document["results"].as_array().expect("results");
    let skipped = document["conditions"]["skipped"]
        .as_array()
        .expect("skipped");
    if one_cpu() {
        assert!(!skipped.is_empty());
    } else {
        // 14 cases there and back at two sizes, 2 one way.
        assert_eq!((results.len(), skipped.len()), (14 * 2 + 2, 0));
        assert_eq!(
            document["conditions"]["pinned"].as_array().map(Vec::len),
            Some(2)
        );
    }
    results.iter().for_each(check_result);
    check_ratios(&document["ratios"]);
    assert!(is_empty(root.path()), "a pool stayed behind");
}

fn check_result(result: &Value) {
    let case = result["case"].as_str().expect("a case");
    assert_eq!(case.split('/').count(), 3, "{case}");
    assert!(result["conditions"]["pinned"].is_array(), "{case}");
    let count = result["count"].as_u64().expect("a count");
    if case.ends_with("/single") {
        assert_eq!(
            (&result["metric"], &result["unit"]),
            (&"rate".into(), &"msg/s".into())
        );
        assert_eq!(result["size_bytes"], 64);
        assert_eq!(count, 2 * 3000, "{case}");
        assert!(result["value"].as_f64().is_some_and(|rate| rate > 0.0));
        return;
    }
    assert_eq!(
        (&result["metric"], &result["unit"]),
        (&"round_trip".into(), &"ns".into())
    );
    assert!((2 * 20..=2 * 300).contains(&count), "{case}: {count}");
    let figure = |name: &str| {
        result[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{case} {name}"))
    };
    let figures = ["min", "p50", "p99", "p999", "max"].map(figure);
    assert!(figures[0] > 0 && figures.is_sorted(), "{case}: {figures:?}");
    let text = result["histogram"].as_str().expect("a histogram");
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut &bytes.expect("base64")[..])
        .expect("an HdrHistogram");
    assert_eq!(histogram.len(), count, "{case}");
}

fn check_ratios(ratios: &Value) {
    let ratios = ratios.as_array().expect("ratios");
    let has = |name: &str, size: u64| {
        let mut matching = ratios
            .iter()
            .filter(|ratio| ratio["name"] == name && ratio["size_bytes"] == size);
        matching.any(|ratio| ratio["value"].as_f64().is_some_and(|value| value > 0.0))
    };
    for size in [8, 65_536] {
        assert!(has("hythe/floor block untouched p50", size));
        assert!(has("unix/hythe block filled p50", size));
        assert!(one_cpu() || has("hythe/floor poll untouched p50", size));
    }
    assert!(one_cpu() || has("hythe/floor poll single rate", 64));
}

#[test]
fn without_json_it_is_a_table() {
    let root = root();
    let output = bench(root.path(), &["--count", "50", "--rounds", "1"])
        .args(["--sizes", "64", "--waits", "block", "--seconds", "2"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for expected in [
        "floor/block/untouched",
        "pipe/block/filled",
        "p99.9",
        "ratio",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn what_makes_no_sense_is_wrong_use() {
    let root = root();
    for arguments in [
        ["--sizes", "12"].as_slice(),
        &["--count", "0"],
        &["--systems", "unix", "--patterns", "untouched"],
    ] {
        let output = bench(root.path(), arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

/// A run that would last long, of one system; killed when dropped.
struct LongRun(Child);

impl LongRun {
    fn of(root: &Path, system: &str) -> Self {
        let child = bench(root, &["--json", "--count", "1000000000", "--rounds", "1"])
            .args(["--seconds", "600", "--sizes", "64", "--waits", "block"])
            .args(["--patterns", "filled", "--systems", system])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Self(child.expect("it starts"))
    }

    /// The process that echoes, once it is there.
    fn echo(&self) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", self.0.id());
        let start = Instant::now();
        loop {
            let children = std::fs::read_to_string(&path).unwrap_or_default();
            let first = children.split_ascii_whitespace().next();
            if let Some(pid) = first.and_then(|pid| pid.parse().ok()) {
                return pid;
            }
            assert!(start.elapsed() < BOUND, "no second process");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it said on standard error, after it has ended by itself with exit code 1.
    fn complaint(mut self) -> String {
        use std::io::Read;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().expect("waited") {
                break status;
            }
            assert!(start.elapsed() < BOUND, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(1));
        let mut said = String::new();
        let mut stderr = self.0.stderr.take().expect("its standard error");
        stderr.read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for LongRun {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn send(signal: rustix::process::Signal, pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
    rustix::process::kill_process(pid, signal).expect("sent");
}

#[test]
fn a_killed_peer_is_a_lost_peer_for_every_system() {
    let root = root();
    for system in ["floor", "hythe", "unix", "pipe"] {
        let run = LongRun::of(root.path(), system);
        let echo = run.echo();
        // In the middle of it, or at its start: both must be noticed.
        std::thread::sleep(Duration::from_millis(100));
        send(rustix::process::Signal::KILL, echo);
        let said = run.complaint();
        assert!(said.contains("the peer is lost"), "{system}: {said}");
        assert!(is_empty(root.path()), "{system}: a pool stayed behind");
    }
}

#[test]
fn a_signal_ends_it_in_order() {
    let root = root();
    let run = LongRun::of(root.path(), "hythe");
    let echo = run.echo();
    std::thread::sleep(Duration::from_millis(100));
    send(rustix::process::Signal::TERM, run.0.id());
    // While messages come nobody looks up: the peer is ended, too, as a terminal would.
    send(rustix::process::Signal::TERM, echo);
    let said = run.complaint();
    assert!(said.contains("stopped by a signal"), "{said}");
    assert!(is_empty(root.path()), "a pool stayed behind");
}
