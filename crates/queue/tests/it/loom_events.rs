//! Models of a listener's cell: no event is lost, whoever takes one sees what was written before
//! it, and nobody sleeps over one.

#![cfg(loom)]

use hythe_memory::model::ModelMemory;
use hythe_memory::{Memory, Ordering};
use hythe_queue::{Bell, EventCell};
use loom::sync::Arc;
use loom::thread;

/// Cells come first: cell 0 is the listener's. Words behind it: the bell, and what two notifiers
/// write before they notify.
const AT: usize = 0;
const BELL: Bell = Bell {
    count: 8,
    sleepers: 12,
};
const WRITTEN: [usize; 2] = [16, 20];
const WORDS: usize = 6;

fn opened() -> (Arc<ModelMemory>, EventCell) {
    let memory = ModelMemory::new(WORDS, 1);
    EventCell::begin(&memory, AT);
    let cell = EventCell::now(&memory, AT);
    (Arc::new(memory), cell)
}

fn writes_and_raises(memory: &ModelMemory, cell: EventCell, who: usize, events: u64) -> bool {
    memory.store(WRITTEN[who], 1, Ordering::Relaxed);
    assert_eq!(cell.raise(memory, events), Ok(()));
    BELL.ring(memory)
}

fn wrote(memory: &ModelMemory, who: usize) -> bool {
    // Relaxed: what makes it visible must be the cell.
    memory.load(WRITTEN[who], Ordering::Relaxed) == 1
}

/// An event is raised while it stands already: what was written before it is seen by whoever takes
/// it, or it stands again.
#[test]
fn loom_a_coalesced_event_brings_what_was_written_before() {
    loom::model(|| {
        let (memory, cell) = opened();
        assert_eq!(cell.raise(&*memory, 1), Ok(()));
        let own = Arc::clone(&memory);
        let notifier = thread::spawn(move || {
            writes_and_raises(&own, cell, 0, 1);
        });
        let own = Arc::clone(&memory);
        let listener = thread::spawn(move || {
            assert_eq!(cell.take(&*own), 1);
            wrote(&own, 0)
        });
        let seen = listener.join().expect("listener");
        notifier.join().expect("notifier");
        assert!(
            seen || cell.take(&*memory) == 1,
            "no event is left for what was not seen"
        );
    });
}

/// Two events raised at once are both there.
#[test]
fn loom_no_event_overwrites_another() {
    loom::model(|| {
        let (memory, cell) = opened();
        let own = Arc::clone(&memory);
        let notifier = thread::spawn(move || writes_and_raises(&own, cell, 0, 1));
        writes_and_raises(&memory, cell, 1, 2);
        let first = cell.take(&*memory);
        notifier.join().expect("notifier");
        assert_eq!(first | cell.take(&*memory), 3);
    });
}

/// A listener that finds nothing and lies down is woken, or never falls asleep.
#[test]
fn loom_nobody_sleeps_over_an_event() {
    loom::model(|| {
        let (memory, cell) = opened();
        let own = Arc::clone(&memory);
        let listener = thread::spawn(move || {
            let ticket = BELL.lie_down(&*own);
            let taken = cell.take(&*own);
            assert!(taken == 0 || wrote(&own, 0), "an event of nobody");
            (ticket, taken)
        });
        let woken = writes_and_raises(&memory, cell, 0, 1);
        let (ticket, taken) = listener.join().expect("listener");
        let asleep = taken == 0 && BELL.is_quiet(&*memory, ticket);
        assert!(!asleep && (taken == 1 || woken), "asleep beside an event");
    });
}
