//! The program as a person runs it: the document's shape, what it refuses, what it leaves behind.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::long_run::{LongRun, send};
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hythe_testing::let_time_pass;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

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

/// What a reader of the document may rely on, in the words of `hythe bench ipc`.
const CASES: &[&str] = &[
    "floor/poll/untouched",
    "floor/poll/filled",
    "floor/block/untouched",
    "floor/block/filled",
    "protocol/poll/untouched",
    "protocol/poll/filled",
    "hythe/poll/untouched",
    "hythe/poll/filled",
    "hythe/block/untouched",
    "hythe/block/filled",
    "hythe/adaptive/untouched",
    "hythe/adaptive/filled",
    "iceoryx2/poll/untouched",
    "iceoryx2/poll/filled",
    "iceoryx2/block/untouched",
    "iceoryx2/block/filled",
    "unix/poll/filled",
    "unix/block/filled",
    "pipe/poll/filled",
    "pipe/block/filled",
    "sysv/block/filled",
];
/// Of small messages, and of none.
const SMALL_CASES: &[(&str, &str, u64)] = &[
    ("hythe/poll/request", "round_trip", 64),
    ("hythe/block/request", "round_trip", 64),
    ("floor/poll/single", "rate", 64),
    ("protocol/poll/single", "rate", 64),
    ("protocol/poll/batched", "rate", 64),
    ("hythe/poll/single", "rate", 64),
    ("iceoryx2/poll/single", "rate", 64),
    ("hythe/poll/batched", "rate", 64),
    ("hythe/poll/fan-1", "publish", 64),
    ("hythe/poll/fan-2", "publish", 64),
    ("hythe/poll/fan-4", "publish", 64),
    ("hythe/poll/fan-8", "publish", 64),
    ("iceoryx2/poll/fan-1", "publish", 64),
    ("iceoryx2/poll/fan-2", "publish", 64),
    ("iceoryx2/poll/fan-4", "publish", 64),
    ("iceoryx2/poll/fan-8", "publish", 64),
    ("hythe/poll/further_subscriber", "publish", 64),
    ("iceoryx2/poll/further_subscriber", "publish", 64),
    ("floor/create", "duration", 64 << 20),
    ("hythe/create", "duration", 64 << 20),
    ("hythe/join", "duration", 0),
    ("hythe/join-prefaulted", "duration", 0),
    ("hythe/connect", "duration", 0),
    ("hythe/pool-tables", "tables", 64 << 20),
    ("hythe/idle-node", "private_memory", 0),
];
/// Of large messages.
const STREAMS: &[&str] = &[
    "floor/poll/stream-4",
    "floor/poll/stream-32",
    "hythe/poll/stream-4",
    "hythe/poll/stream-32",
];
/// What needs no other programs: those that are installed would be measured, too.
const SYSTEMS: &str = "floor,protocol,hythe,iceoryx2,unix,pipe,sysv";
/// What is measured where it was built for release, and else skipped with a reason.
const OPTIONAL: &str = "hythe/c-";
/// Both sides on one CPU.
const SHARED_CASES: &[&str] = &[
    "floor/block/untouched",
    "hythe/block/untouched",
    "hythe/adaptive/untouched",
];

#[test]
fn every_case_runs_and_the_document_has_its_shape() {
    let root = root();
    let output = bench(root.path(), &["--json", "--quick", "--systems", SYSTEMS])
        .output()
        .expect("it runs");
    let document = document(&output);
    check_head(&document);
    let results = document["results"].as_array().expect("results");
    let skipped = skipped(&document);
    if one_cpu() {
        assert!(skipped.iter().any(|why| why.contains("would spin")));
    } else {
        let optional = |why: &&str| why.starts_with(OPTIONAL);
        assert!(skipped.iter().all(optional), "{skipped:?}");
        check_cases(results);
        check_ratios(&document["ratios"]);
    }
    results.iter().for_each(check_result);
    assert!(is_empty(root.path()), "a pool stayed behind");
}

fn skipped(document: &Value) -> Vec<&str> {
    let skipped = document["conditions"]["skipped"].as_array();
    let skipped = skipped.expect("a list").iter();
    skipped.filter_map(Value::as_str).collect()
}

fn check_head(document: &Value) {
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "ipc");
    let command = format!("hythe-bench ipc --json --quick --systems {SYSTEMS}");
    assert_eq!(document["command"], command);
    assert_eq!(
        document["conditions"]["date"].as_str().map(str::len),
        Some(10)
    );
    assert!(document["commit"].as_str().is_some_and(|id| id.len() >= 7));
    let machine = &document["machine"];
    assert!(machine["cpu"].is_string() && machine["kernel"].is_string());
    assert!(machine["cpus"].as_u64().is_some_and(|cpus| cpus > 0));
    assert_eq!(machine["emulated"], false);
    let pinned = document["conditions"]["pinned"].as_array();
    assert!(one_cpu() || pinned.is_some_and(|cpus| cpus.len() == 2));
}

/// Each of them once, and nothing else.
fn check_cases(results: &[Value]) {
    let count = |case: &str, metric: &str, size: u64, is_shared: bool| {
        let is_it = |row: &&Value| {
            let pinned = &row["conditions"]["pinned"];
            (row["case"] == case && row["metric"] == metric)
                && (row["size_bytes"] == size && (pinned[0] == pinned[1]) == is_shared)
        };
        results.iter().filter(is_it).count()
    };
    for case in CASES {
        for size in [64, 65_536] {
            assert_eq!(count(case, "round_trip", size, false), 1, "{case} {size}");
        }
    }
    for (case, metric, size) in SMALL_CASES {
        assert_eq!(count(case, metric, *size, false), 1, "{case}");
    }
    for case in SHARED_CASES {
        assert_eq!(count(case, "round_trip", 64, true), 1, "{case} shared");
    }
    for case in STREAMS {
        for metric in ["rate", "reuse_distance"] {
            assert_eq!(count(case, metric, 65_536, false), 1, "{case} {metric}");
        }
    }
    let is_optional = |row: &&Value| {
        let case = row["case"].as_str();
        case.is_some_and(|case| case.starts_with(OPTIONAL))
    };
    let optional = results.iter().filter(is_optional).count();
    let fixed = 2 * CASES.len() + SMALL_CASES.len() + SHARED_CASES.len();
    let all = fixed + 2 * STREAMS.len() + optional;
    assert_eq!(results.len(), all);
}

fn check_result(result: &Value) {
    let case = result["case"].as_str().expect("a case");
    assert!(result["conditions"]["pinned"].is_array(), "{case}");
    let count = result["count"].as_u64().expect("a count");
    assert!(count > 0, "{case}");
    if let Some(value) = result["value"].as_f64() {
        // What one subscriber more costs is a difference: on a busy machine it may come out as
        // anything.
        let is_difference = case.ends_with("/further_subscriber");
        assert!(is_difference || value > 0.0, "{case}: {value}");
        let unit = match result["metric"].as_str() {
            Some("rate") => "msg/s",
            Some("reuse_distance") => "slots",
            Some("tables" | "private_memory" | "file_size") => "B",
            _ => "ns",
        };
        assert_eq!(result["unit"], unit, "{case}");
        check_stream(result);
        return;
    }
    assert_eq!(result["unit"], "ns", "{case}");
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

/// A ring is written in turn; whoever chooses its slots needs no more than a pool has of that size.
fn check_stream(result: &Value) {
    if result["metric"] != "reuse_distance" {
        return;
    }
    let value = result["value"].as_f64().expect("a value");
    match result["case"].as_str() {
        Some("floor/poll/stream-4") => assert_eq!(value, 6.0),
        Some("floor/poll/stream-32") => assert_eq!(value, 34.0),
        _ => assert!((1.0..=1024.0).contains(&value), "{result}"),
    }
}

/// One for each bar that the project has set itself.
fn check_ratios(ratios: &Value) {
    let ratios = ratios.as_array().expect("ratios");
    let has = |name: &str, size: u64| {
        let mut matching = ratios
            .iter()
            .filter(|ratio| ratio["name"] == name && ratio["size_bytes"] == size);
        matching.any(|ratio| ratio["value"].is_number())
    };
    let sized = [
        "hythe/floor poll untouched p50",
        "hythe/floor poll filled p50",
        "hythe/protocol poll untouched p50",
        "protocol/floor poll filled p50",
        "hythe/floor block untouched p50",
        "iceoryx2/hythe poll untouched p50",
        "iceoryx2/hythe block untouched p50",
        "hythe adaptive/poll untouched p50",
        "unix/hythe block filled p50",
        "sysv/hythe block filled p50",
    ];
    let small = [
        "hythe adaptive/block shared untouched p50",
        "hythe poll request/untouched p50",
        "hythe block request/untouched p50",
        "hythe/floor poll single rate",
        "hythe/protocol poll single rate",
        "hythe/protocol poll batched rate",
        "iceoryx2/hythe poll single rate",
        "hythe poll batched/single rate",
        "iceoryx2/hythe poll fan-8 publish p50",
        "iceoryx2/hythe poll further_subscriber publish",
    ];
    for name in sized {
        assert!(has(name, 64) && has(name, 65_536), "{name}");
    }
    for name in small {
        assert!(has(name, 64), "{name}");
    }
    for name in [
        "hythe poll untouched p50 largest/smallest size",
        "hythe/floor poll stream-4 rate",
        "hythe/floor poll stream-32 rate",
    ] {
        assert!(has(name, 65_536), "{name}");
    }
    assert!(has("hythe/floor create p50", 64 << 20));
}

#[test]
fn missing_peer_is_left_out_with_its_package() {
    let root = root();
    let run = |systems| {
        let arguments = ["--json", "--quick", "--sizes", "64", "--patterns", "filled"];
        let mut command = bench(root.path(), &arguments);
        command.args(["--waits", "poll", "--systems", systems]);
        // Nobody else's programs are found.
        command.env("PATH", root.path()).output().expect("it runs")
    };
    if one_cpu() {
        eprintln!("skipped: on one CPU nothing that spins is measured");
        return;
    }
    let beside = document(&run("hythe,openmpi,mpich,aeron"));
    let said = skipped(&beside);
    for package in ["openmpi-bin", "mpich", "openjdk-17-jdk-headless"] {
        let named = format!("(package {package})");
        assert!(said.iter().any(|why| why.contains(&named)), "{said:?}");
    }
    assert_eq!(beside["results"].as_array().map(Vec::len), Some(1));
    let alone = run("mpich");
    let why = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert_eq!(alone.status.code(), Some(2), "{why}");
    assert!(why.contains("(package mpich)"), "{why}");
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
        "at most 1",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn command_refuses_meaningless_options() {
    let root = root();
    for arguments in [
        ["--sizes", "12"].as_slice(),
        &["--count", "0"],
        &["--systems", "unix", "--patterns", "untouched"],
        &["--only", "hythe/poll/unheard"],
    ] {
        let output = bench(root.path(), arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

/// Of one system.
fn long_run(root: &Path, system: &str) -> LongRun {
    LongRun::start(
        bench(root, &["--json", "--count", "1000000000", "--rounds", "1"])
            .args(["--seconds", "600", "--sizes", "64", "--waits", "block"])
            .args(["--patterns", "filled", "--systems", system]),
    )
}

fn is_echo(pid: u32) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command.split(|&byte| byte == 0).nth(1) == Some(b"echo")
}

#[test]
fn killed_peer_is_a_lost_peer_for_every_system() {
    let root = root();
    for system in ["floor", "hythe", "iceoryx2", "unix", "pipe", "sysv"] {
        let run = long_run(root.path(), system);
        let echo = run.child(is_echo);
        let moment = Duration::from_millis(100);
        let_time_pass(
            moment,
            "in the middle of it, or at its start: both are noticed",
        );
        send(Signal::KILL, echo);
        let mark = format!("hythe_bench_{}_", run.id());
        let said = run.complaint();
        assert!(said.contains("the peer is lost"), "{system}: {said}");
        assert!(is_empty(root.path()), "{system}: a pool stayed behind");
        for folder in [Path::new("/dev/shm"), &std::env::temp_dir()] {
            let mut names = std::fs::read_dir(folder).expect("a folder").flatten();
            let stayed = names.find(|file| file.file_name().to_string_lossy().starts_with(&mark));
            assert!(stayed.is_none(), "{system}: {stayed:?}");
        }
    }
}

#[test]
fn signal_ends_it_in_order() {
    let root = root();
    let run = long_run(root.path(), "hythe");
    let echo = run.child(is_echo);
    let moment = Duration::from_millis(100);
    let_time_pass(
        moment,
        "in the middle of it, or at its start: both end in order",
    );
    send(Signal::TERM, run.id());
    // While messages come nobody looks up: the peer is ended, too, as a terminal would. Where none
    // came yet it may have ended with the run.
    let echo = Pid::from_raw(echo.cast_signed()).expect("a process");
    let ended = kill_process(echo, Signal::TERM);
    assert!(matches!(ended, Ok(()) | Err(Errno::SRCH)), "{ended:?}");
    let said = run.complaint();
    assert!(said.contains("stopped by a signal"), "{said}");
    assert!(is_empty(root.path()), "a pool stayed behind");
}
