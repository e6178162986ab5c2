//! Models of the counted cell (loom): a participant dies right before or after its swap, others go
//! on changing the cell, somebody asks meanwhile; the answer is what happened.
//!
//! The steps are the real ones, with their journal. A death is a step that stops: the recoverer
//! that asks has joined the thread, as it has learned of a death from the operating system.

mod attending;
mod oldest;
pub(crate) mod packed;

use core::ops::Range;

use hythe_abi::pool::{ControlLayout, Limits, intent, participant};
use hythe_memory::model::ModelMemory;
use hythe_memory::{Memory, Ordering};
use loom::sync::Arc;
use loom::thread;

use crate::cell;
use crate::control::Control;
use crate::counted::{Counted, Mark};
use crate::journal::{self, Operation, Step};
use crate::ledger::LedgerSlot;
use crate::member::recovery;
use crate::{Member, MemberIndex};
use packed::Packed;

const LIMITS: Limits = Limits {
    participants: 3,
    channels: 1,
    ports: 1,
    connections: 1,
    queue_segments: 1,
    slots: 2,
};
/// The participants: two that may die, and one that lives on.
const A: u8 = 0;
const B: u8 = 1;
const LIVING: u8 = 2;
/// The slot that everyone is after, and another.
const X: LedgerSlot = LedgerSlot(0);
const Y: LedgerSlot = LedgerSlot(1);
/// Stands for the payload of X: plain memory, at a place that the steps do not use.
const PAYLOAD: usize = 0;
const INTENT_BYTES: usize = intent::ROW + 8;
/// A number far from all that a model counts up to, and the mark it leaves: see [`alias`].
const ROUND: u32 = 1 << 19;

/// A step that somebody died in.
#[derive(Clone, Copy)]
struct Death {
    step: Step,
    mark: Mark,
}

type Shared = Arc<Control<Packed>>;

/// Everyone holds four references to both slots, and no cell carries a mark.
fn control() -> Shared {
    let layout = ControlLayout::new(LIMITS).expect("layout");
    let mut places = Vec::new();
    for member in 0..LIMITS.participants as usize {
        let intent = layout.participant(member) + participant::INTENT;
        places.push(intent..intent + INTENT_BYTES);
        let witness = layout.witness(member, 0);
        places.push(witness..witness + 16);
        places.extend([X, Y].map(|slot| eight(layout.hold(member, slot.0 as usize))));
    }
    places.extend([X, Y].map(|slot| eight(layout.slot_cell(slot.0 as usize))));
    let cells: usize = places.iter().map(Range::len).sum();
    places.push(eight(PAYLOAD));
    let bytes = cells + 8;
    let memory = ModelMemory::with_plain(bytes / 4, cells / 8, cells..bytes);
    let memory = Packed { memory, places };
    let control = Arc::new(Control::over(memory, layout));
    for slot in [X, Y] {
        stand(
            &control,
            slot,
            Counted {
                count: 12,
                by: 0,
                sequence: 0,
                upper: 1,
            },
        );
        for member in [A, B, LIVING] {
            let held = Counted {
                count: 4,
                by: 0,
                sequence: 0,
                upper: 0,
            };
            control.ledger().set_hold(MemberIndex(member), slot, held);
        }
    }
    control
}

const fn eight(at: usize) -> Range<usize> {
    at..at + 8
}

fn stand(control: &Shared, slot: LedgerSlot, cell: Counted) {
    control.memory().store_cell(
        control.ledger().slot_at(slot),
        cell.to_bits(),
        Ordering::Relaxed,
    );
}

fn member(index: u8) -> Member {
    Member::impersonate(MemberIndex(index), 1, 0)
}

/// Begins to release some references, and dies before the swap.
fn die_before(control: &Shared, index: u8, slot: LedgerSlot, count: u32) -> Death {
    let position = control.ledger().slot(slot).1.0;
    let step = Step {
        slot: slot.0,
        count,
        position,
        ..Step::default()
    };
    let mark = journal::begin(control, MemberIndex(index), Operation::Release, step);
    Death { step, mark }
}

/// Releases some references, and dies behind the swap.
fn die_after(control: &Shared, index: u8, slot: LedgerSlot, count: u32) -> Death {
    let death = die_before(control, index, slot, count);
    let at = control.ledger().slot_at(slot);
    let less = |cell: Counted| Some((cell.count - count, cell.upper));
    cell::change(control.memory(), control.layout(), at, death.mark, less).expect("a change");
    death
}

fn happened(control: &Shared, death: Death) -> bool {
    recovery::happened(control, Operation::Release, death.step, death.mark)
}

/// One of the living does something to the slot, and survives.
fn go_on(control: &Shared, slot: LedgerSlot) {
    member(LIVING)
        .release(control, slot, 1)
        .expect("it holds some");
}

/// Makes a cell, or a participant, look as if 2^19 steps had passed: the next number of `by` has
/// the mark of its first step.
fn alias(control: &Shared, by: u8) -> Counted {
    let at = journal::at(control, by) + intent::SEQUENCE;
    control.memory().store(at, ROUND, Ordering::Relaxed);
    Counted {
        count: 12,
        by,
        sequence: 1,
        upper: 1,
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(body);
}

/// Runs the last deed of `A` beside `others`, and answers what is known of it afterwards, while
/// `others` may go on.
fn last_deed(
    control: &Shared,
    deed: fn(&Shared) -> Death,
    others: fn(&Shared),
) -> (Death, thread::JoinHandle<()>) {
    let (dying, living) = (Arc::clone(control), Arc::clone(control));
    let dying = thread::spawn(move || deed(&dying));
    let living = thread::spawn(move || others(&living));
    (dying.join().expect("the dead"), living)
}

#[test]
fn loom_a_swap_is_remembered_when_others_replace_it() {
    model(|| {
        let control = control();
        let (death, living) = last_deed(
            &control,
            |control| die_after(control, A, X, 1),
            |control| {
                go_on(control, X);
                go_on(control, X);
            },
        );
        assert!(happened(&control, death), "forgotten");
        living.join().expect("the living");
        assert!(happened(&control, death), "forgotten later");
        assert_eq!(control.ledger().slot(X).0, 9);
    });
}

#[test]
fn loom_a_swap_that_did_not_come_is_not_made_up() {
    model(|| {
        let control = control();
        // The cell still carries the mark that A's next step would take.
        let stale = alias(&control, A);
        stand(&control, X, stale);
        let (death, living) = last_deed(
            &control,
            |control| die_before(control, A, X, 1),
            |control| go_on(control, X),
        );
        assert!(!happened(&control, death), "made up");
        living.join().expect("the living");
        assert!(!happened(&control, death), "made up later");
    });
}

#[test]
fn loom_older_marks_do_not_wipe_the_memory_out() {
    model(|| {
        let control = control();
        die_after(&control, A, Y, 1);
        journal::end(&control, MemberIndex(A));
        let (death, living) = last_deed(
            &control,
            |control| die_after(control, A, X, 1),
            |control| {
                go_on(control, X);
                go_on(control, Y);
            },
        );
        assert!(happened(&control, death), "forgotten");
        living.join().expect("the living");
        assert!(happened(&control, death), "forgotten later");
    });
}

#[test]
fn loom_a_mark_of_2_19_steps_ago_elsewhere_proves_nothing() {
    model(|| {
        let control = control();
        let mut stale = alias(&control, A);
        // Two steps on, since A takes a step that finds nothing to do at Y before the one that it
        // dies in.
        stale.sequence = 2;
        stand(&control, Y, stale);
        let (death, living) = last_deed(
            &control,
            |control| {
                die_before(control, A, Y, 1);
                journal::end(control, MemberIndex(A));
                die_before(control, A, X, 1)
            },
            |control| go_on(control, Y),
        );
        assert_eq!(death.mark.number, ROUND + 2);
        assert!(!happened(&control, death), "made up");
        living.join().expect("the living");
        assert!(!happened(&control, death), "made up later");
    });
}

#[test]
fn loom_a_mark_of_2_19_steps_ago_that_is_gone_proves_nothing() {
    model(|| {
        let control = control();
        let stale = alias(&control, A);
        stand(&control, X, stale);
        let (death, living) = last_deed(
            &control,
            |control| {
                // The old mark goes; then A takes the number that it stood for. The living may
                // still have it in mind.
                member(B).release(control, X, 1).expect("it holds some");
                die_before(control, A, X, 1)
            },
            |control| go_on(control, X),
        );
        assert!(!happened(&control, death), "made up");
        living.join().expect("the living");
        assert!(!happened(&control, death), "made up later");
    });
}

#[test]
fn loom_two_deaths_in_one_cell_are_told_apart() {
    model(|| {
        let control = control();
        let own = Arc::clone(&control);
        let other = thread::spawn(move || die_after(&own, B, X, 1));
        let (death, living) = last_deed(
            &control,
            |control| die_after(control, A, X, 1),
            |control| go_on(control, X),
        );
        assert!(happened(&control, death), "A forgotten");
        let death = other.join().expect("the other dead");
        assert!(happened(&control, death), "B forgotten");
        living.join().expect("the living");
        assert_eq!(control.ledger().slot(X).0, 9);
    });
}

#[test]
fn loom_a_death_behind_another_is_remembered() {
    model(|| {
        let control = control();
        // B is dead already, behind its swap: whoever comes next looks twice.
        let earlier = die_after(&control, B, X, 1);
        let (death, living) = last_deed(
            &control,
            |control| die_after(control, A, X, 1),
            |control| go_on(control, X),
        );
        assert!(happened(&control, death), "A forgotten");
        assert!(happened(&control, earlier), "B forgotten");
        living.join().expect("the living");
        assert_eq!(control.ledger().slot(X).0, 9);
    });
}

/// The next lease takes the mark of the last release away without a witness: its generation is the
/// proof.
#[test]
fn loom_a_last_release_is_remembered_by_the_next_lease() {
    model(|| {
        let control = control();
        stand(
            &control,
            X,
            Counted {
                count: 4,
                by: 0,
                sequence: 0,
                upper: 1,
            },
        );
        control.ledger().set_hold(
            MemberIndex(LIVING),
            X,
            Counted {
                count: 0,
                by: 0,
                sequence: 0,
                upper: 0,
            },
        );
        let (death, living) = last_deed(
            &control,
            |control| die_after(control, A, X, 4),
            |control| {
                let leased = member(LIVING).lease(control, X).expect("no damage");
                if leased.is_some() {
                    member(LIVING)
                        .duplicate(control, X, 1)
                        .expect("it holds one");
                }
            },
        );
        assert!(happened(&control, death), "forgotten");
        living.join().expect("the living");
        assert!(happened(&control, death), "forgotten later");
    });
}

/// The payload counts as plain memory: its last reader is done before its next writer begins.
#[test]
fn loom_a_lease_comes_behind_the_last_release() {
    model(|| {
        let control = control();
        stand(
            &control,
            X,
            Counted {
                count: 4,
                by: 0,
                sequence: 0,
                upper: 1,
            },
        );
        let own = Arc::clone(&control);
        let reader = thread::spawn(move || {
            own.memory().load(PAYLOAD, Ordering::Relaxed);
            member(A).release(&own, X, 4).expect("it holds four");
        });
        let mut writer = member(LIVING);
        control.ledger().set_hold(
            MemberIndex(LIVING),
            X,
            Counted {
                count: 0,
                by: 0,
                sequence: 0,
                upper: 0,
            },
        );
        while writer.lease(&*control, X).expect("no damage").is_none() {
            thread::yield_now();
        }
        control.memory().store(PAYLOAD, 1, Ordering::Relaxed);
        reader.join().expect("reader");
    });
}
