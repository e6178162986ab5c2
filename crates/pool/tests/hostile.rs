//! A hostile peer scribbles over every shared word between any two accesses of honest members: none
//! of them panics, leaves the control file, or goes on for ever, and what was destroyed is told.
//!
//! Seeded and bounded here; `fuzz/` runs the same members on the bytes of a fuzzer. More, or a
//! certain seed: `HYTHE_FUZZ_SEED=17 HYTHE_FUZZ_RUNS=100000 cargo test -p hythe-pool --test
//! hostile`.

// One thread, no unsafe code, and hours under Miri.
#![cfg(not(any(loom, miri)))]

mod hostile_peer;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use hostile_peer::Manner;
use hostile_peer::choices::Choices;
use hostile_peer::member::{Scene, Told};

/// Seeds that once failed, with the manner.
const KEPT: [(u64, Manner); 2] = [
    // A session counter that is set back each time.
    (1, Manner::Relentless),
    // A connection whose state changes each time somebody would leave it.
    (3, Manner::Stubborn),
];
const RUNS: u64 = 60;
const TURNS: u32 = 120;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

fn run(seed: u64, manner: Manner) -> Told {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        Scene::new(Choices::Seed(seed)).run(TURNS, manner)
    }));
    ran.unwrap_or_else(|cause| {
        eprintln!("failed: seed {seed}, {manner:?}; keep it in KEPT");
        resume_unwind(cause)
    })
}

fn run_many(manner: Manner) -> Told {
    let (seed, runs) = (
        number("HYTHE_FUZZ_SEED", 1),
        number("HYTHE_FUZZ_RUNS", RUNS),
    );
    let mut told = Told::default();
    for seed in seed..seed + runs {
        told.add(run(seed, manner));
    }
    println!("{manner:?}: seeds {seed} to {}: {told:?}", seed + runs - 1);
    told
}

#[test]
fn kept_seeds_stay_mended() {
    for (seed, manner) in KEPT {
        run(seed, manner);
    }
}

#[test]
fn scribbles_anywhere_hurt_nobody_and_are_told() {
    let told = run_many(Manner::Scattered);
    assert!(told.done > 10 * told.refused / 9, "{told:?}");
    assert!(told.bad_descriptors > 0, "{told:?}");
    assert!(told.damaged > 0, "{told:?}");
    assert!(told.not_a_pool > 0, "{told:?}");
    assert!(told.mismatches > 0, "{told:?}");
}

#[test]
fn a_word_that_changes_between_two_looks_hurts_nobody() {
    let told = run_many(Manner::Aimed);
    assert!(told.damaged > 0 && told.mismatches > 0, "{told:?}");
}

#[test]
fn a_cell_that_never_stands_still_keeps_nobody() {
    let told = run_many(Manner::Relentless);
    assert!(told.damaged > 0, "{told:?}");
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn a_cell_in_which_one_bit_never_stands_still_keeps_nobody() {
    let told = run_many(Manner::Stubborn);
    assert!(told.damaged > 0, "{told:?}");
}

#[test]
fn without_a_hostile_peer_nothing_is_damaged() {
    let told = run_many(Manner::Quiet);
    assert!(told.done > 1000, "{told:?}");
    assert_eq!((told.damaged, told.not_a_pool), (0, 0), "{told:?}");
    assert_eq!(told.mismatches, 0, "{told:?}");
}
