//! `hythe latency host` and `cyclictest` (Debian's rt-tests) measure the same machine in turns, and
//! find the same.
//!
//! Run by `make test-latency`, which fails where something is missing; `cargo test` says aloud that
//! it leaves this out, because a minute of real-time threads is no part of every test run.

use std::process::{Command, Stdio};

use crate::support::{Ended, Root, Running};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Set by `make test-latency`.
const ASKED_FOR: &str = "HYTHE_TEST_LATENCY";
/// Each of them, so many times in turns, short and many: a virtual machine may take twice as long
/// to wake a CPU for seconds on end (seen: medians of 15, 26 and 36 us in turns, of both programs),
/// and neighbours meet the same.
const ROUNDS: usize = 41;
const LOOPS: &str = "250";
const INTERVAL_US: &str = "1000";
const PRIORITY: &str = "80";
/// Largest sample in nanoseconds that cyclictest shall count by itself; its output has a line for
/// each.
const HISTOGRAM_NS: &str = "200000";
/// How far the median of a run may be from that of its neighbour: the median of all rounds.
const FACTOR: f64 = 1.5;

#[test]
fn cyclictest_finds_the_same_median() {
    let what = "a comparison with cyclictest";
    if std::env::var_os(ASKED_FOR).is_none() {
        eprintln!("SKIPPED (run by make test-latency): {what}");
        return;
    }
    let root = Root::new();
    for cpu in cpus() {
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // In turns who begins, so that no drift favours one.
            let (own, other) = if round % 2 == 0 {
                let other = cyclictest(&cpu);
                (hythe(&root, &cpu), other)
            } else {
                (hythe(&root, &cpu), cyclictest(&cpu))
            };
            ours.push(own);
            theirs.push(other);
            ratios.push(own as f64 / other as f64);
        }
        println!(
            "CPU {cpu}, medians of {ROUNDS} rounds of {LOOPS} in ns: hythe {ours:?}, cyclictest {theirs:?}"
        );
        ratios.sort_unstable_by(f64::total_cmp);
        let ratio = ratios[ROUNDS / 2];
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "CPU {cpu}: hythe {ours} ns, cyclictest {theirs} ns, ratio of neighbours {ratio:.2}, {ratios:.2?}"
        );
        assert!(
            ratio < FACTOR && ratio > 1.0 / FACTOR,
            "CPU {cpu}: hythe takes {ratio:.2} times as long as cyclictest"
        );
    }
}

/// The first two that may be used: more of the same kind tell no more.
fn cpus() -> Vec<String> {
    let set = sched_getaffinity(None).expect("Linux");
    let allowed = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
    allowed.take(2).map(|cpu| cpu.to_string()).collect()
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Fails where something is not permitted: the two would then measure under different conditions.
fn hythe(root: &Root, cpu: &str) -> u64 {
    let document = root.json(&[
        "latency",
        "host",
        "--strict",
        "--measure",
        "timer",
        "--cpus",
        cpu,
        "--priority",
        PRIORITY,
        "--interval",
        INTERVAL_US,
        "--loops",
        LOOPS,
    ]);
    document["results"][0]["p50"].as_u64().expect("a median")
}

/// One thread, memory locked, an absolute sleep of CLOCK_MONOTONIC, /dev/cpu_dma_latency at 0: as
/// ours.
fn cyclictest(cpu: &str) -> u64 {
    let arguments = [
        "--quiet",
        "--mlockall",
        "--nsecs",
        "--threads=1",
        "--histogram",
        HISTOGRAM_NS,
        "--affinity",
        cpu,
        "--priority",
        PRIORITY,
        "--interval",
        INTERVAL_US,
        "--loops",
        LOOPS,
    ];
    let mut command = Command::new("cyclictest");
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ended: Ended = Running::new(command).end();
    let text = ended.text();
    assert_eq!(
        ended.code,
        Some(0),
        "run scripts/latency-tools.sh? {}",
        ended.errors
    );
    median_of_histogram(&text)
        .unwrap_or_else(|| panic!("no histogram with its median: {}", ended.errors))
}

/// Lines of a value and a count, and the number of those that were too large for a line.
fn median_of_histogram(text: &str) -> Option<u64> {
    let pair = |line: &str| {
        let (value, count) = line.split_once(' ')?;
        Some((
            value.parse::<u64>().ok()?,
            count.trim().parse::<u64>().ok()?,
        ))
    };
    let lines: Vec<(u64, u64)> = text.lines().filter_map(pair).collect();
    let large = text
        .lines()
        .find_map(|line| line.strip_prefix("# Histogram Overflows: "))?;
    let total =
        lines.iter().map(|(_, count)| count).sum::<u64>() + large.trim().parse::<u64>().ok()?;
    let mut below = 0;
    lines.iter().find_map(|(value, count)| {
        below += count;
        (below > 0 && below >= total.div_ceil(2)).then_some(*value)
    })
}

#[test]
fn histogram_of_cyclictest_is_read() {
    let text = "# Histogram\n000000 000000\n000001 000002\n000002 000001\n# Total: 000000003\n# Histogram Overflows: 00002\n";
    assert_eq!(median_of_histogram(text), Some(2));
    assert_eq!(
        median_of_histogram(&text.replace("Overflows: 00002", "Overflows: 00009")),
        None
    );
    assert_eq!(median_of_histogram("# Histogram Overflows: 0\n"), None);
}
