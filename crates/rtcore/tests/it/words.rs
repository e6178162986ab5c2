//! A core of words alone, in the middle of every step of Linux: honest, lying, or writing over all
//! that it can reach. Whatever it does, every call returns, the ledger adds up after each, nothing
//! is lost at the end, and Linux's own memory is as it was. An honest one is never denied: Linux
//! answers for each reference that it has.
//!
//! Seeded: `HYTHE_FUZZ_SEED=17 HYTHE_FUZZ_ROUNDS=50 cargo test -p hythe-rtcore --test it words`.

use crate::hostile_core::Scene;
use crate::hostile_core::choices::Choices;
use crate::hostile_core::core::CoreFault;

const STEPS: u32 = 1000;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

fn play(fault: CoreFault) {
    let first = number("HYTHE_FUZZ_SEED", 1);
    for seed in first..first + number("HYTHE_FUZZ_ROUNDS", 2) {
        println!("{fault:?}: HYTHE_FUZZ_SEED={seed}");
        let outcome = Scene::new(Choices::Seed(seed), fault).run(STEPS);
        println!("  {outcome:?}");
        assert_eq!(outcome.lies > 0, fault != CoreFault::Honest);
        assert_eq!(outcome.violations > 0, fault != CoreFault::Honest);
        // It was a life, and not a stand-still.
        assert!(outcome.entries > 0 && outcome.messages > 0);
    }
}

#[test]
fn linux_answers_for_each_reference_of_an_honest_core() {
    play(CoreFault::Honest);
}

#[test]
fn core_that_gives_back_without_end_keeps_nobody() {
    let outcome = Scene::new(Choices::Seed(1), CoreFault::Endless).run(STEPS / 4);
    println!("{outcome:?}");
    assert!(outcome.lies > 100 && outcome.violations > 0);
}

#[test]
fn core_that_lies_in_the_middle_of_every_step_does_no_harm() {
    play(CoreFault::Lying);
}

#[test]
fn core_that_writes_over_all_memory_it_reaches_does_no_harm() {
    play(CoreFault::Scribbling);
}
