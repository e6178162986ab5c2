//! `hythe latency board`: what is measured on the boards that `make setup` built, and what is said where nothing can be.

mod support;

use serde_json::Value;
use support::Root;

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

fn measured(root: &Root, board: &str) -> Value {
    let document = root.json(&["latency", "board", board]);
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "latency");
    assert_eq!(root.traces(), Vec::<std::path::PathBuf>::new());
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
fn emulated_boards_give_the_same_numbers_twice() {
    // The clocks tick once in 40 and in 16 ns.
    check_repeatable("mps2-an386", 40);
    check_repeatable("virt-a53", 16);
}

fn check_repeatable(board: &str, tick_ns: u64) {
    let root = Root::new();
    let [first, second] = [(); 2].map(|()| measured(&root, board));
    assert_eq!(first["results"], second["results"]);
    assert_eq!(first["machine"]["emulated"], true);
    for metric in METRICS {
        let guest = result(&first, metric);
        assert_eq!(guest["case"], format!("{board}/none/idle"));
        assert!(figure(guest, "min") > 0, "{metric}");
        check_order(guest);
        if metric == "timer_jitter" {
            continue;
        }
        assert_eq!(figure(guest, "count"), 10_000);
        // The edges lie around what the core's clock measured, with a reading of it on either side.
        let outside = result(&first, &format!("{metric}.outside"));
        assert_eq!(outside["count"], guest["count"]);
        let more = figure(outside, "p50") - figure(guest, "p50");
        let reading = figure(result(&first, "clock_read.outside"), "p50");
        let possible = tick_ns..=reading + tick_ns;
        assert!(possible.contains(&more), "{metric}: {more}");
        check_order(outside);
    }
}

#[test]
fn the_hosted_board_measures_and_says_that_it_means_nothing() {
    let root = Root::new();
    let document = measured(&root, "hosted");
    let limits = document["conditions"]["limits"].as_str().expect("a text");
    assert!(limits.contains("nothing about latency"), "{limits}");
    for metric in METRICS {
        let result = result(&document, metric);
        check_order(result);
        assert!(figure(result, "count") >= 2000);
    }
    assert_eq!(
        document["results"].as_array().map(Vec::len),
        Some(METRICS.len())
    );
}

#[test]
fn a_board_without_shared_memory_is_not_run_as_a_core() {
    Root::new()
        .run(&["core", "run", "virt-a53"])
        .failed(1, &["shares no memory", "hythe latency board"]);
}

#[test]
fn people_get_a_table_with_its_conditions() {
    let text = Root::new().ok(&["latency", "board", "mps2-an386"]);
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
    assert_eq!(root.traces(), Vec::<std::path::PathBuf>::new());
}
