//! Model of the bell: whoever would fall asleep has seen the work, or is woken.

#![cfg(loom)]

use hythe_memory::model::ModelMemory;
use hythe_memory::{Memory, Ordering};
use hythe_queue::Bell;
use loom::sync::Arc;
use loom::thread;

const BELL: Bell = Bell {
    count: 0,
    sleepers: 4,
};
const WORK: usize = 8;
const WORDS: usize = 3;

fn looks_for_work(memory: &ModelMemory) -> bool {
    // Relaxed: what makes the work visible must be the bell.
    memory.load(WORK, Ordering::Relaxed) == 1
}

fn works_and_rings(memory: &ModelMemory) -> bool {
    memory.store(WORK, 1, Ordering::Relaxed);
    BELL.ring(memory)
}

/// The futex sleeps while the count is what the ticket says. The ringer's last word stands when all
/// threads have ended: a sleeper that saw no work must not find its count there.
#[test]
fn loom_no_wake_up_is_lost() {
    loom::model(|| {
        let memory = Arc::new(ModelMemory::new(WORDS, 0));
        let own = Arc::clone(&memory);
        let sleeper = thread::spawn(move || {
            let ticket = BELL.lie_down(&*own);
            (ticket, looks_for_work(&own))
        });
        let woken = works_and_rings(&memory);
        let (ticket, saw) = sleeper.join().expect("sleeper");
        assert!(saw || woken, "asleep beside work");
        assert!(
            saw || !BELL.is_quiet(&*memory, ticket),
            "the wake came before the futex looked"
        );
    });
}

/// A sleeper that finds the count moved does not sleep, and then sees what was rung for.
#[test]
fn loom_a_moved_count_brings_the_work() {
    loom::model(|| {
        let memory = Arc::new(ModelMemory::new(WORDS, 0));
        let own = Arc::clone(&memory);
        let sleeper = thread::spawn(move || {
            let ticket = BELL.lie_down(&*own);
            if !BELL.is_quiet(&*own, ticket) {
                assert!(looks_for_work(&own), "woken for work that is not there");
            }
            BELL.rise(&*own);
        });
        works_and_rings(&memory);
        sleeper.join().expect("sleeper");
        assert!(!BELL.ring(&*memory), "nobody sleeps any more");
    });
}

/// The same for a ring that does not look for sleepers, and for a ticket that already has the new
/// count.
#[test]
fn loom_an_unconditional_ring_brings_the_work() {
    loom::model(|| {
        let memory = Arc::new(ModelMemory::new(WORDS, 0));
        let own = Arc::clone(&memory);
        let sleeper = thread::spawn(move || {
            let ticket = BELL.lie_down(&*own);
            if ticket.count() == 1 || !BELL.is_quiet(&*own, ticket) {
                assert!(looks_for_work(&own), "woken for work that is not there");
            }
        });
        memory.store(WORK, 1, Ordering::Relaxed);
        BELL.ring_always(&*memory);
        sleeper.join().expect("sleeper");
    });
}

/// Two threads of one participant sleep; one rises while the other lies down: the sum stays right,
/// both are woken.
#[test]
fn loom_two_sleepers_share_a_bell() {
    loom::model(|| {
        let memory = Arc::new(ModelMemory::new(WORDS, 0));
        let sleepers: Vec<_> = (0..2)
            .map(|_| {
                let own = Arc::clone(&memory);
                thread::spawn(move || {
                    let ticket = BELL.lie_down(&*own);
                    let saw = looks_for_work(&own);
                    if saw {
                        BELL.rise(&*own);
                    }
                    (ticket, saw)
                })
            })
            .collect();
        works_and_rings(&memory);
        for sleeper in sleepers {
            let (ticket, saw) = sleeper.join().expect("sleeper");
            assert!(
                saw || !BELL.is_quiet(&*memory, ticket),
                "asleep beside work"
            );
        }
    });
}
