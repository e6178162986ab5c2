//! `hythe latency board --under xen-…`: the same core alone, beside Linux on its CPU, and with a
//! CPU of its own.
//!
//! Run by `make test-latency`, which fetches Xen and Linux; `cargo test` says aloud that it leaves
//! the boots out. Instructions are counted, so nothing here depends on how fast this machine is.

use std::path::PathBuf;

use crate::support::Root;
use hythe_latency::result::Measurement;
use serde_json::Value;

/// Set by `make test-latency`.
const ASKED_FOR: &str = "HYTHE_TEST_LATENCY";
/// Where it has put Xen and Linux.
const TOOLS: &str = "HYTHE_XEN";
const BOARD: &str = "virt-a53";

fn is_asked_for(what: &str) -> bool {
    let is = std::env::var_os(ASKED_FOR).is_some();
    if !is {
        eprintln!("SKIPPED (run by make test-latency): {what}");
    }
    is
}

fn measured(board: &str, under: &str, load: &str) -> Value {
    measured_with(board, under, load, &[])
}

fn measured_with(board: &str, under: &str, load: &str, more: &[&str]) -> Value {
    let root = Root::new();
    let tools = PathBuf::from(std::env::var_os(TOOLS).expect("make test-latency sets it"));
    let mut command = root.command(&["latency", "board", board, "--json"]);
    command.args(["--under", under, "--load", load, "--timeout", "600"]);
    command.args(more);
    command.arg("--xen-tools").arg(tools);
    let output = command.output().expect("hythe is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{board}/{under}/{load}: {errors}");
    serde_json::from_slice(&output.stdout).expect("a document")
}

fn figure(document: &Value, configuration: &str, metric: &str, name: &str) -> f64 {
    let results = document["results"].as_array().expect("a list");
    let found = results
        .iter()
        .find(|result| is_of(result, configuration) && result["metric"] == metric);
    let found = found.unwrap_or_else(|| panic!("no {metric} of {configuration}"));
    found[name]
        .as_f64()
        .unwrap_or_else(|| panic!("no {name} of {metric}"))
}

/// On whichever board.
fn is_of(result: &Value, configuration: &str) -> bool {
    let case = result["case"]
        .as_str()
        .and_then(|case| case.split_once('/'));
    case.is_some_and(|(_, rest)| rest == configuration)
}

fn ratio(document: &Value, name: &str) -> f64 {
    let ratios = document["ratios"].as_array().expect("a list");
    let found = ratios.iter().find(|ratio| {
        ratio["name"]
            .as_str()
            .is_some_and(|found| found.starts_with(name))
    });
    found.unwrap_or_else(|| panic!("no {name}"))["value"]
        .as_f64()
        .expect("a number")
}

#[test]
fn one_cpu_beside_linux_repeats_and_has_long_tail() {
    if !is_asked_for("FreeRTOS beside Linux on one CPU under Xen") {
        return;
    }
    let [first, second] = [(); 2].map(|()| measured(BOARD, "xen-shared", "hog"));
    assert_eq!(first["results"], second["results"]);
    // A time slice of Linux is milliseconds, everything of FreeRTOS microseconds.
    for metric in [
        "preemption",
        "interrupt_latency",
        "semaphore_shuffle",
        "message_latency",
    ] {
        let worst = ratio(&first, &format!("{metric} max"));
        assert!(worst > 1000.0, "{metric}: {worst}");
    }
    let typical = ratio(&first, "task_switch p50");
    assert!((0.9..1.1).contains(&typical), "{typical}");
    let accounted = ratio(&first, "interrupt_latency p50: alone and exits");
    assert!((0.85..1.15).contains(&accounted), "{accounted}");
    for metric in ["interrupt_latency.outside", "timer_jitter.outside"] {
        shows_slices(&first, metric);
    }
}

/// Linux's time slices, in the samples that met one: again and again, and in between the core has
/// had the CPU for as long.
fn shows_slices(document: &Value, metric: &str) {
    const SLICE_NS: u64 = 5_000_000;
    let results = document["results"].as_array().expect("a list");
    let found = results
        .iter()
        .find(|result| is_of(result, "xen-shared/hog") && result["metric"] == metric);
    let outliers = &found.unwrap_or_else(|| panic!("no {metric}"))["outliers"];
    let of = |outlier: &Value, name: &str| outlier[name].as_u64().expect("a number");
    let slices: Vec<(u64, u64)> = outliers
        .as_array()
        .expect("a list")
        .iter()
        .map(|outlier| (of(outlier, "at_ns"), of(outlier, "value")))
        .filter(|slice| slice.1 > SLICE_NS)
        .collect();
    assert!(slices.len() > 20, "{metric}: {slices:?}");
    for two in slices.windows(2) {
        let between = two[1].0.saturating_sub(two[0].0 + two[0].1);
        assert!(between > SLICE_NS, "{metric}: {two:?}");
    }
}

/// Triggered from the core's own CPU.
const SELF_TRIGGERED: [&str; 6] = [
    "task_switch",
    "preemption",
    "interrupt_latency",
    "semaphore_shuffle",
    "deadlock_break",
    "message_latency",
];

#[test]
fn with_a_cpu_of_its_own_the_core_keeps_its_real_time() {
    if !is_asked_for("FreeRTOS with a CPU of its own under Xen") {
        return;
    }
    // Two at once: what is counted does not depend on how fast it goes.
    let run = |load| measured(BOARD, "xen-partitioned", load);
    let uncounted = || {
        measured_with(
            BOARD,
            "xen-partitioned",
            "io",
            &["--guest-cpu-instructions", "0"],
        )
    };
    let ((idle, io), (hog, uncounted)) = std::thread::scope(|scope| {
        let others = scope.spawn(|| (run("hog"), uncounted()));
        let first = (run("idle"), run("io"));
        (first, others.join().expect("it said why"))
    });
    for document in [&idle, &hog, &io] {
        is_as_alone(document);
        is_counted_as_by_the_clock(document);
    }
    // Whoever counts takes no part.
    let results = io["results"].as_array().expect("a list").iter();
    let by_the_clock = results
        .filter(|result| !is_by_guest_cpu_instructions(result))
        .cloned();
    assert_eq!(by_the_clock.collect::<Value>(), uncounted["results"]);
    for beside in [&hog, &io] {
        for metric in SELF_TRIGGERED {
            does_not_change(metric, &idle, beside);
        }
    }
}

fn is_by_guest_cpu_instructions(result: &Value) -> bool {
    result["metric"]
        .as_str()
        .is_some_and(|metric| metric.ends_with(".guest_cpu_instructions"))
}

/// Of a measure by what the core's CPU executed.
fn guest_cpu_instructions<'d>(document: &'d Value, metric: &str) -> &'d Value {
    let metric = format!("{metric}.guest_cpu_instructions");
    let results = document["results"].as_array().expect("a list");
    let found = results.iter().find(|result| result["metric"] == metric);
    found.unwrap_or_else(|| panic!("no {metric}"))
}

/// Where the other CPU had no turn, instructions are time: nearly everywhere, at the median always.
/// Edges and readings of the clock are apart by the same with Linux beside it and without.
fn is_counted_as_by_the_clock(document: &Value) {
    /// Two ticks of the core's clock of 62.5 MHz: one reading each.
    const RESOLUTION_NS: f64 = 32.0;
    for metric in SELF_TRIGGERED {
        let typical =
            |configuration: &str, metric: &str| figure(document, configuration, metric, "p50");
        let beside = configuration(document);
        let counted = typical(&beside, &format!("{metric}.guest_cpu_instructions"))
            - typical("none/idle", &format!("{metric}.outside"));
        let timed = typical(&beside, metric) - typical("none/idle", metric);
        assert!(
            (counted - timed).abs() <= RESOLUTION_NS,
            "{metric}: {counted} by instructions, {timed} by the clock"
        );
        let own = guest_cpu_instructions(document, metric);
        assert_eq!(own["count"], 10_000, "{metric}");
        // Turns are there, and they are not in the samples: the tail of the core's clock is.
        let turns = &own["conditions"]["samples_with_a_turn_of_another_cpu"];
        assert!(turns.as_u64().is_some_and(|turns| turns < 500), "{turns}");
        let (own, timed) = (
            own["max"].as_f64().expect("a number"),
            figure(document, &beside, metric, "max"),
        );
        assert!(own <= timed + 1000.0, "{metric}: {own} {timed}");
    }
    let accounted = ratio(
        document,
        "interrupt_latency.guest_cpu_instructions p50: alone and exits",
    );
    assert!((0.99..1.01).contains(&accounted), "{accounted}");
}

/// No sample is left out. With as many exits they take as long. How many meet with the core's tick
/// depends on how many instructions the core had from one to the next, which are fewer where Linux
/// has turns, and on chance: where it is about one in a thousand, p99.9 is on either side of it. So
/// it is one of those that were there before, up to five times as often or as rarely.
fn does_not_change(metric: &str, idle: &Value, beside: &Value) {
    let (idle, beside) = (
        guest_cpu_instructions(idle, metric),
        guest_cpu_instructions(beside, metric),
    );
    let p999 = |of: &Value| of["p999"].as_f64().expect("a number");
    for now in by_exits(beside) {
        let with = |before: &&Value| before["exits"] == now["exits"];
        if let Some(before) = by_exits(idle).iter().find(with) {
            let changed = p999(now) / p999(before);
            assert!((0.9..1.1).contains(&changed), "{metric}: {before} {now}");
        }
    }
    let samples = serde_json::from_value::<Measurement>(idle.clone()).expect("a result");
    let samples = samples.samples().expect("its own");
    let before = |quantile| samples.value_at_quantile(quantile) as f64;
    let now = p999(beside);
    assert!(
        (0.9 * before(0.995)..1.1 * before(0.9998)).contains(&now),
        "{metric}: {} {now}",
        p999(idle)
    );
}

fn by_exits(own: &Value) -> &Vec<Value> {
    own["conditions"]["by_exits"].as_array().expect("a list")
}

#[test]
fn two_patched_cpus_run_by_counted_instructions() {
    if !is_asked_for("FreeRTOS on a Cortex-A57 with a CPU of its own under Xen") {
        return;
    }
    let uncounted = ["--guest-cpu-instructions", "0"];
    is_as_alone(&measured_with(
        "virt-a57",
        "xen-partitioned",
        "hog",
        &uncounted,
    ));
}

/// Nothing of Xen is met with but an exit for each interrupt, and the document says of which Xen.
fn is_as_alone(document: &Value) {
    let switch = ratio(document, "task_switch p99.9");
    assert!(switch <= 1.1, "{switch}");
    let accounted = ratio(document, "interrupt_latency p50: alone and exits");
    assert!((0.85..1.15).contains(&accounted), "{accounted}");
    let configuration = configuration(document);
    let exits = |metric| figure(document, &configuration, metric, "exits");
    let interrupts = exits("interrupt_latency");
    assert!((1.0..1.1).contains(&interrupts), "{interrupts}");
    // Hardly any; with credit2 there are five in 40,000 and more, of its timer.
    let stray = exits("task_switch");
    assert!(stray < 1e-4, "{stray}");
    let said = |key: &str| document["conditions"][key].as_str().expect("it is said");
    assert!(said("hypervisor").contains("built from Debian's source with"));
    assert_eq!(said("settings"), "pool null static-memory native-wfi");
    assert!(said("absent.outside").contains("one CPU only"));
}

/// The part of a case behind the board.
fn configuration(document: &Value) -> String {
    let said = |key: &str| document["conditions"][key].as_str().expect("it is said");
    format!("{}/{}", said("configuration"), said("load"))
}

#[test]
fn what_is_missing_or_makes_no_sense_is_named() {
    let root = Root::new();
    let run = |arguments: &[&str]| root.run(&[&["latency", "board"], arguments].concat());
    run(&[BOARD, "--load", "hog"]).failed(2, &["--under"]);
    run(&[BOARD, "--under", "kvm"]).failed(2, &["kvm", "xen-shared"]);
    run(&["hosted", "--under", "xen-shared"]).failed(1, &["hosted", "virt-a53"]);
    run(&["virt-a57", "--under", "xen-partitioned", "--xen", "debian"])
        .failed(1, &["cortex-a57", "--xen built", "--clock host"]);
    run(&[BOARD, "--xen", "debian"]).failed(2, &["--under"]);
    run(&[BOARD, "--under", "xen-shared", "--without", "null"]).failed(2, &["xen-partitioned"]);
    run(&[
        BOARD,
        "--under",
        "xen-shared",
        "--guest-cpu-instructions",
        "5",
    ])
    .failed(2, &["xen-partitioned"]);
    run(&[BOARD, "--under", "xen-shared", "--xen-tools", "/nowhere"])
        .failed(1, &["/nowhere/xen ", "scripts/xen-tools.sh"]);
    run(&[
        BOARD,
        "--under",
        "xen-partitioned",
        "--xen-tools",
        "/nowhere",
    ])
    .failed(1, &["/nowhere/xen-built", "scripts/xen-tools.sh"]);
    assert_eq!(root.traces(), Vec::<PathBuf>::new());
}
