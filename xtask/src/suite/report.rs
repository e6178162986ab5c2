//! What a person reads of a run: a line of each program, and at the end what failed, what was
//! skipped, the slowest tests and the sum.
//!
//! Never decides what has failed.

use super::job::Outcome;
use super::libtest::Counts;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

/// A line of one program, and all that it said if it failed. In one call, so that several that end
/// at once do not mix.
pub(super) fn print_one(outcome: &Outcome) {
    let Counts { passed, failed, .. } = outcome.counts;
    let seconds = outcome.took.as_secs_f64();
    let line = format!("{seconds:7.1} s  {}: {passed} passed", outcome.name);
    match &outcome.failure {
        None => println!("ok     {line}"),
        // Indented, so that nothing of it is taken for the sum at the end.
        Some(failure) => {
            let failure = failure.replace('\n', "\n    ");
            println!("FAILED {line}, {failed} failed\n    {failure}");
        }
    }
}

/// The end of a run. An error if a test failed.
pub(super) fn print(outcomes: &[Outcome], took: Duration) -> Result<(), String> {
    let mut counts = Counts::default();
    outcomes.iter().for_each(|one| counts.add_all(one.counts));
    print_skipped(outcomes);
    println!("\nThe slowest tests:");
    for (seconds, name) in slowest(outcomes) {
        println!("{seconds:7.1} s  {name}");
    }
    let failed: Vec<&str> = outcomes
        .iter()
        .filter(|outcome| outcome.failure.is_some())
        .map(|outcome| outcome.name.as_str())
        .collect();
    println!("\nall in {:.0} s", took.as_secs_f64());
    if !failed.is_empty() {
        println!("FAILED: {}", failed.join(", "));
    }
    let Counts {
        passed,
        failed: failures,
        ignored,
    } = counts;
    println!("{passed} passed, {failures} failed, {ignored} skipped");
    match failed.len() {
        0 => Ok(()),
        _ => Err("a test failed; what it printed stands above".into()),
    }
}

/// What tests left out: libtest keeps to itself what a test prints that passes.
fn print_skipped(outcomes: &[Outcome]) {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for line in outcomes.iter().flat_map(|outcome| &outcome.skipped) {
        *reasons.entry(line).or_default() += 1;
    }
    if !reasons.is_empty() {
        println!("\nLeft out on this machine, of tests that passed:");
    }
    for (line, count) in reasons {
        println!("{count:3} x {line}");
    }
}

/// The longest of all tests, and commands whose tests are not known one by one.
fn slowest(outcomes: &[Outcome]) -> Vec<(f64, String)> {
    let mut found: Vec<(f64, String)> = Vec::new();
    for outcome in outcomes {
        let name = &outcome.name;
        let tests = outcome.tests.iter();
        found.extend(tests.map(|test| (test.seconds, format!("{name} {}", test.name))));
        if outcome.tests.is_empty() {
            found.push((outcome.took.as_secs_f64(), name.clone()));
        }
    }
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    found.truncate(SLOWEST);
    found
}
