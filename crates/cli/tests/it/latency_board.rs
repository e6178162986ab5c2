//! `hythe latency board`: what is measured on the boards that `make setup` built, and what is said
//! where nothing can be.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::support::{Root, Running, streams};
use serde_json::Value;

/// In the order in which the core takes them.
const METRICS: [&str; 9] = [
    "task_switch",
    "preemption",
    "interrupt_latency",
    "semaphore_shuffle",
    "deadlock_break",
    "message_latency",
    "timer_jitter",
    "clock_read",
    "interrupt_request",
];

/// What it prints. It bounds itself: on a machine that is used by others, too, it takes more than
/// most commands may here.
fn printed(root: &Root, board: &str, more: &[&str]) -> Vec<u8> {
    let mut command = root.command(&["latency", "board", board, "--timeout", "600"]);
    let output = command.args(more).output().expect("hythe is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{board}: {errors}");
    output.stdout
}

fn measured(root: &Root, board: &str) -> Value {
    let printed = printed(root, board, &["--json"]);
    let document: Value = serde_json::from_slice(&printed).expect("a document");
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "latency");
    assert_eq!(root.traces(), Vec::<PathBuf>::new());
    document
}

fn result<'d>(document: &'d Value, metric: &str) -> &'d Value {
    let results = document["results"].as_array().expect("a list");
    let found = results.iter().find(|result| result["metric"] == metric);
    found.unwrap_or_else(|| panic!("no {metric}"))
}

fn figure(result: &Value, name: &str) -> u64 {
    result[name].as_u64().expect("a number")
}

fn check_order(result: &Value) {
    let names = ["min", "p50", "p99", "p999", "max"];
    let figures = names.map(|name| figure(result, name));
    assert!(figures.is_sorted(), "{}: {figures:?}", result["metric"]);
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn emulated_boards_give_the_same_numbers_twice() {
    // The clocks tick once in 40 and in 16 ns.
    let shared = check_repeatable("mps2-an386", 40);
    check_round_trips(&shared, "APB timer 0, 25000000 Hz, by the host's time");
    let alone = check_repeatable("virt-a53", 16);
    let why = alone["conditions"]["absent.round_trip"].as_str();
    assert!(
        why.is_some_and(|why| why.contains("shares no memory")),
        "{alone}"
    );
    let all = alone["results"].as_array().expect("a list");
    assert_eq!(counted(&alone).len(), all.len());
}

fn check_repeatable(board: &str, tick_ns: u64) -> Value {
    let root = Root::new();
    let [first, second] = [(); 2].map(|()| measured(&root, board));
    assert_eq!(counted(&first), counted(&second));
    assert_eq!(first["machine"]["emulated"], true);
    for metric in METRICS {
        let guest = result(&first, metric);
        assert_eq!(guest["case"], format!("{board}/none/idle"));
        assert!(figure(guest, "min") > 0, "{metric}");
        check_order(guest);
        let samples = if metric == "timer_jitter" {
            2000
        } else {
            10_000
        };
        assert_eq!(figure(guest, "count"), samples);
        // The edges lie around what the core's clock measured, with a reading of it on either side.
        // A timer's alarms have no edge at their beginning: how well their instants are known is
        // said.
        let outside = result(&first, &format!("{metric}.outside"));
        assert_eq!(outside["count"], guest["count"]);
        let reading = figure(result(&first, "clock_read.outside"), "p50");
        let known = &outside["conditions"]["programmed_within_ns"];
        assert_eq!(known.is_u64(), metric == "timer_jitter", "{outside}");
        let possible = tick_ns..=reading + tick_ns + known.as_u64().unwrap_or(0);
        // A sample that the core discards has edges all the same: their extremes are not those of
        // the others.
        let names: &[&str] = match metric {
            "timer_jitter" => &["min", "p50", "max"],
            _ => &["p50"],
        };
        for name in names {
            let more = figure(outside, name) - figure(guest, name);
            assert!(possible.contains(&more), "{metric} {name}: {more}");
        }
        check_order(outside);
        assert!(guest["outliers"].is_null(), "a core keeps a histogram only");
        check_outliers(outside);
    }
    check_instants(&first);
    assert!(first["conditions"]["absent.outside"].is_null());
    first
}

/// Time and value of each of the largest samples, in the order of time.
fn outliers(result: &Value) -> Vec<(u64, u64)> {
    let outliers = result["outliers"].as_array().expect("a list");
    let figures = outliers.iter();
    figures
        .map(|outlier| (figure(outlier, "at_ns"), figure(outlier, "value")))
        .collect()
}

/// They fit among each other and to the histogram.
fn check_outliers(result: &Value) {
    let outliers = outliers(result);
    let name = &result["metric"];
    assert!(
        (1..=256).contains(&outliers.len()),
        "{name}: {}",
        outliers.len()
    );
    let largest = outliers.iter().map(|outlier| outlier.1).max();
    let (largest, max) = (largest.unwrap_or(0), figure(result, "max"));
    // The histogram rounds up.
    assert!(
        largest <= max && largest + largest / 5000 + 1 >= max,
        "{name}: {largest}, {max}"
    );
    for two in outliers.windows(2) {
        assert!(two[0].0 + two[0].1 <= two[1].0, "{name}: {two:?} overlap");
    }
    let last = outliers.last().map_or(0, |last| last.0 + last.1);
    let lasted = figure(result, "lasted_ns");
    // Samples follow each other: as long as all of them take, and no longer than the core lets a
    // measure be (`stage.c`).
    let least = figure(result, "count") * figure(result, "min");
    assert!(
        (least.max(last)..60_000_000_000).contains(&lasted),
        "{name}: {last}, {lasted}"
    );
}

/// Their times are the board's: what is late on a core that is alone met a tick, and an alarm is
/// due when its timer says so.
fn check_instants(document: &Value) {
    let said = |name: &str| -> u64 {
        let said = document["conditions"][name].as_str();
        let said = said.unwrap_or_else(|| panic!("no {name}"));
        said.parse().expect("a number")
    };
    let tick_ns = 1_000_000_000 / said("tick_hz");
    for metric in ["preemption", "semaphore_shuffle", "deadlock_break"] {
        let late = outliers(result(document, &format!("{metric}.outside")));
        assert!(late.len() > 3, "{metric}: {late:?}");
        for two in late.windows(2) {
            let beyond = (two[1].0 - two[0].0) % tick_ns;
            let off = beyond.min(tick_ns - beyond);
            // The tick came at any time during each of them.
            assert!(off <= two[0].1.max(two[1].1), "{metric}: {two:?}");
        }
    }
    let period = said("period.timer_jitter") * 1_000_000_000;
    for (due_ns, _) in outliers(result(document, "timer_jitter.outside")) {
        let alarm = (due_ns * said("clock_hz")).div_ceil(period);
        assert!((1..=2000).contains(&alarm), "{alarm}");
        assert_eq!(due_ns, alarm * period / said("clock_hz"));
    }
}

/// Results by counted instructions: a run of the same image gives the same. Round trips go through
/// Linux, in the host's time.
fn counted(document: &Value) -> Vec<&Value> {
    let results = document["results"].as_array().expect("a list");
    let is_counted = |result: &&Value| {
        !result["metric"]
            .as_str()
            .expect("a text")
            .starts_with("round_trip")
    };
    results.iter().filter(is_counted).collect()
}

/// By the core's clock and by that of Linux: a trip is the core's time or that of Linux, and the
/// other's again.
fn check_round_trips(document: &Value, clock: &str) {
    let [from_core, from_linux] =
        ["round_trip", "round_trip_from_linux"].map(|metric| result(document, metric));
    for result in [from_core, from_linux] {
        check_order(result);
        assert!(figure(result, "min") > 0);
        for (name, value) in [("wait", "bell"), ("size_bytes", "8")] {
            let said = &result["conditions"][name];
            let said = said
                .as_str()
                .map_or_else(|| said.to_string(), str::to_owned);
            assert_eq!(said, value);
        }
    }
    assert_eq!(figure(from_core, "count"), 10_000);
    // The first question answers nothing, and on a machine that stands still for a second one is
    // asked anew.
    assert!(figure(from_linux, "count") >= 9_999);
    let said = from_core["conditions"]["clock"].as_str().expect("a text");
    assert!(said.starts_with(clock), "{said}");
    assert_eq!(from_linux["conditions"]["clock"], "CLOCK_MONOTONIC");
    let conditions = &document["conditions"];
    let discarded = conditions["discarded.round_trip"].as_str();
    assert!(discarded.is_some_and(|count| count.parse::<u32>().is_ok()));
    assert!(conditions["limits.round_trip"].is_string(), "{conditions}");
    // Both are the same way to and fro: were one clock not the host's, they would be far apart.
    let [core, linux] = [from_core, from_linux].map(|result| figure(result, "p50") as f64);
    assert!((0.2..5.0).contains(&(core / linux)), "{core} and {linux}");
}

#[test]
fn hosted_board_measures_and_says_that_it_means_nothing() {
    let root = Root::new();
    let document = measured(&root, "hosted");
    let limits = document["conditions"]["limits"].as_str().expect("a text");
    assert!(limits.contains("nothing about latency"), "{limits}");
    for metric in METRICS {
        let result = result(&document, metric);
        check_order(result);
        assert!(figure(result, "count") >= 2000);
        assert!(result["outliers"].is_null());
    }
    let unseen = document["conditions"]["absent.outside"].as_str();
    let unseen = unseen.expect("nobody sees it from outside");
    assert!(unseen.starts_with("board hosted "), "{unseen}");
    assert_eq!(
        document["results"].as_array().map(Vec::len),
        Some(METRICS.len() + 2)
    );
    check_round_trips(&document, "CLOCK_MONOTONIC");
}

/// A folder with some programs, and nothing else.
fn programs(place: &Path, names: &[&str]) {
    fs::create_dir(place).expect("fresh");
    for name in names {
        let path = std::env::var_os("PATH").expect("a path");
        let found = std::env::split_paths(&path).map(|folder| folder.join(name));
        let found = found.into_iter().find(|file| file.is_file());
        symlink(found.expect(name), place.join(name)).expect("fresh");
    }
    // It is not asked for anything here.
    let compiler = place.join("dtc");
    hythe_testing::write_script(&compiler, "#!/bin/sh\nexit 0\n");
}

/// What `scripts/xen-tools.sh` makes, of files that no board can boot.
fn no_xen(root: &Root) -> PathBuf {
    let tools = root.path().join("tools");
    fs::create_dir(&tools).expect("fresh");
    for file in ["xen", "xen.about", "linux", "initramfs"] {
        fs::write(tools.join(file), "never booted").expect("own");
    }
    tools
}

#[test]
fn program_that_a_run_under_xen_lacks_is_named() {
    let root = Root::new();
    let tools = no_xen(&root);
    let run = |programs: PathBuf| {
        let mut command = root.command(&["latency", "board", "virt-a53", "--clock", "host"]);
        command
            .args(["--under", "xen-shared", "--xen-tools"])
            .arg(&tools);
        command.env("PATH", programs);
        Running::new(command).end()
    };
    let without_starter = root.path().join("without-starter");
    programs(&without_starter, &["qemu-system-aarch64"]);
    let without_qemu = root.path().join("without-qemu");
    programs(&without_qemu, &["setpriv"]);
    let without_compiler = root.path().join("without-compiler");
    programs(&without_compiler, &["setpriv", "qemu-system-aarch64"]);
    fs::remove_file(without_compiler.join("dtc")).expect("made above");
    for (place, program, package) in [
        (without_starter, "setpriv", "util-linux"),
        (without_qemu, "qemu-system-aarch64", "qemu-system-arm"),
        (without_compiler, "dtc", "device-tree-compiler"),
    ] {
        let ended = run(place);
        let begins = format!("hythe: {program}: ");
        assert!(ended.errors.starts_with(&begins), "{}", ended.errors);
        ended.failed(1, &[program, package]);
    }
    assert_eq!(root.traces(), Vec::<PathBuf>::new());
}

#[test]
fn guest_that_never_starts_is_waited_for_as_long_as_it_was_said() {
    let root = Root::new();
    if !streams::is_there("dtc", "--version") {
        eprintln!(
            "SKIPPED (no dtc; apt-get install device-tree-compiler): a guest that never starts"
        );
        return;
    }
    let tools = no_xen(&root);
    let tools = tools.to_str().expect("ours");
    let board = [
        "latency",
        "board",
        "virt-a53",
        "--clock",
        "host",
        "--timeout",
        "3",
    ];
    let under = ["--under", "xen-shared", "--xen-tools", tools];
    root.run(&[&board[..], &under].concat()).failed(1, &["3s"]);
    assert_eq!(root.traces(), Vec::<PathBuf>::new());
}

#[test]
fn what_shares_no_memory_is_not_run_as_a_core() {
    for core in [&["virt-a57"][..], &["virt-a53", "--app", "rhealstone"]] {
        Root::new()
            .run(&[&["core", "run"], core].concat())
            .failed(1, &["shares no memory", "hythe latency board"]);
    }
}

#[test]
fn people_get_a_table_with_its_conditions() {
    let text = printed(&Root::new(), "mps2-an386", &[]);
    let text = String::from_utf8(text).expect("a text");
    for expected in [
        "task_switch",
        "p99.9",
        "tick_hz: 250",
        "flags: -std=gnu99 -O2",
        "no claim about hardware",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn boards_that_are_not_there_are_named() {
    let root = Root::new();
    root.run(&["latency", "board", "toaster"])
        .failed(1, &["toaster", "mps2-an386"]);
    root.run(&["latency", "board", "hosted", "--timeout", "0"])
        .failed(2, &["--timeout"]);
    root.run(&["latency", "board", "hosted", "--timeout", "0.01"])
        .failed(1, &["10ms"]);
    assert_eq!(root.traces(), Vec::<PathBuf>::new());
}
