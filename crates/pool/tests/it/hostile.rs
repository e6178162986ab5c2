//! A hostile peer scribbles over every shared word between any two accesses of honest members: none
//! of them panics, leaves the control file, or goes on for ever, and what was destroyed is told.
//!
//! Seeded and bounded here; `fuzz/` runs the same members on the bytes of a fuzzer. More, or a
//! certain seed: `HYTHE_FUZZ_SEED=17 HYTHE_FUZZ_RUNS=100000 cargo test -p hythe-pool --test it
//! hostile::`.

// One thread, no unsafe code, and hours under Miri.
#![cfg(not(miri))]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::hostile_peer::PeerFault;
use crate::hostile_peer::choices::Choices;
use crate::hostile_peer::member::{Outcomes, Scene};

/// Seeds that once failed, with the fault of the peer.
const KEPT: [(u64, PeerFault); 2] = [
    // A session counter that is set back each time.
    (1, PeerFault::Relentless),
    // A connection whose state changes each time somebody would leave it.
    (3, PeerFault::Stubborn),
];
const RUNS: u64 = 60;
const TURNS: u32 = 120;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

fn run(seed: u64, fault: PeerFault) -> Outcomes {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        Scene::new(Choices::Seed(seed)).run(TURNS, fault)
    }));
    ran.unwrap_or_else(|cause| {
        eprintln!("failed: seed {seed}, {fault:?}; keep it in KEPT");
        resume_unwind(cause)
    })
}

fn run_many(fault: PeerFault) -> Outcomes {
    let (seed, runs) = (
        number("HYTHE_FUZZ_SEED", 1),
        number("HYTHE_FUZZ_RUNS", RUNS),
    );
    let mut outcomes = Outcomes::default();
    for seed in seed..seed + runs {
        outcomes.add(run(seed, fault));
    }
    println!(
        "{fault:?}: seeds {seed} to {}: {outcomes:?}",
        seed + runs - 1
    );
    outcomes
}

#[test]
fn kept_seeds_stay_mended() {
    for (seed, fault) in KEPT {
        run(seed, fault);
    }
}

#[test]
fn scribbles_anywhere_hurt_nobody_and_are_told() {
    let outcomes = run_many(PeerFault::Scattered);
    assert!(outcomes.done > 10 * outcomes.refused / 9, "{outcomes:?}");
    assert!(outcomes.bad_descriptors > 0, "{outcomes:?}");
    assert!(outcomes.damaged > 0, "{outcomes:?}");
    assert!(outcomes.not_a_pool > 0, "{outcomes:?}");
    assert!(outcomes.mismatches > 0, "{outcomes:?}");
}

#[test]
fn word_that_changes_between_two_looks_hurts_nobody() {
    let outcomes = run_many(PeerFault::Aimed);
    assert!(
        outcomes.damaged > 0 && outcomes.mismatches > 0,
        "{outcomes:?}"
    );
}

#[test]
fn cell_that_never_stands_still_keeps_nobody() {
    let outcomes = run_many(PeerFault::Relentless);
    assert!(outcomes.damaged > 0, "{outcomes:?}");
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn cell_in_which_one_bit_never_stands_still_keeps_nobody() {
    let outcomes = run_many(PeerFault::Stubborn);
    assert!(outcomes.damaged > 0, "{outcomes:?}");
}

#[test]
fn without_a_hostile_peer_nothing_is_damaged() {
    let outcomes = run_many(PeerFault::Quiet);
    assert!(outcomes.done > 1000, "{outcomes:?}");
    assert_eq!(
        (outcomes.damaged, outcomes.not_a_pool),
        (0, 0),
        "{outcomes:?}"
    );
    assert_eq!(outcomes.mismatches, 0, "{outcomes:?}");
}
