//! Random sequences from both sides against a simple list, with the core, its agent and a process
//! killed at any step: nothing leaks, and who is left keeps its bytes.

use crate::support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::segment_core::{ENOSPC, Fixture, OnCore, be_agent, p1_boards};
use hythe_memory::Access;
use hythe_rtcore::Board;
use hythe_rtcore::segment::Attached;
use hythe_sys::fork::run_in_child;
use hythe_sys::system_v::{CREATE, PRIVATE};
use hythe_testing::{Dice, let_time_pass};
use rustix::process::{Signal, getpid, kill_process};

const PAGE: usize = 4096;
/// At its begin and its end each segment has so many bytes by which it is known.
const MARK: usize = 16;

/// Not a test of its own: the agent of the tests below.
#[test]
fn agent() {
    be_agent();
}

/// One of the model's segments.
struct Known {
    id: i32,
    bytes: usize,
    seed: u8,
    made_on_core: bool,
    is_removed: bool,
    here: Vec<Attached>,
    there: Vec<OnCore>,
}

impl Known {
    fn is_gone(&self) -> bool {
        self.is_removed && self.here.is_empty() && self.there.is_empty()
    }

    fn mark(&self) -> Vec<u8> {
        vec![self.seed; MARK.min(self.bytes)]
    }

    /// Where its marks are.
    fn places(&self) -> [usize; 2] {
        [0, self.bytes - MARK.min(self.bytes)]
    }
}

struct Model {
    list: Vec<Known>,
    dice: Dice,
    seed: u64,
}

/// What is killed on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kills {
    Core,
    Agent,
}

#[test]
fn sequences_from_both_sides_do_what_a_simple_list_does() {
    for board in p1_boards() {
        for seed in 1..=2 {
            run(&board, seed, 80, None);
        }
    }
}

#[test]
fn core_that_is_killed_at_any_step_leaves_the_list_to_linux() {
    for board in p1_boards() {
        run(&board, 11, 48, Some((Kills::Core, 12)));
    }
}

#[test]
fn agent_that_is_killed_at_any_step_leaves_the_list_to_the_next() {
    for board in p1_boards() {
        run(&board, 21, 48, Some((Kills::Agent, 12)));
    }
}

#[test]
fn process_killed_amid_calls_leaks_nothing() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let mut dice = Dice::new(31);
        let kept = fixture.make(PRIVATE, 5 * PAGE);
        let here = fixture.attach(kept);
        here.write(0, &[7; 5 * PAGE]);
        for round in 0..10 {
            let pid = fixture.core_pid();
            let victim = if round % 2 == 0 {
                pid
            } else {
                fixture.agent.child.id()
            };
            let after = Duration::from_micros(dice.below(4000) as u64);
            let gone = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let_time_pass(after, "a random moment of the work");
                    support::kill(victim);
                    gone.store(true, Ordering::Relaxed);
                });
                fixture.on_core.churn(kept, 5 * PAGE as u32, &gone);
            });
            match round % 2 {
                0 => fixture.await_core_after(pid),
                _ => fixture.start_next_agent(pid),
            }
            let listed = fixture.listed();
            for found in &listed.segments {
                assert_eq!(found.attached_core, 0, "round {round}: {found:?}");
                if found.id != kept {
                    // Made, and its maker was killed before it knew.
                    fixture.segments.remove(found.id).expect("removed");
                }
            }
            assert_eq!(fixture.ids(), [kept], "round {round}");
            assert_eq!(fixture.free_bytes(), listed.area_bytes - 5 * PAGE as u64);
            let mut bytes = [0; 5 * PAGE];
            here.read(0, &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == 7), "round {round}");
        }
        drop(here);
        fixture.finish();
    }
}

/// So many steps; every so many of them something is killed.
fn run(board: &Board, seed: u64, steps: u32, kills: Option<(Kills, u32)>) {
    let mut fixture = Fixture::start(board);
    let mut model = Model {
        list: Vec::new(),
        dice: Dice::new(seed),
        seed,
    };
    for step in 1..=steps {
        let which = format!("{}, seed {seed}, step {step}", board.name());
        model.step(&mut fixture);
        model.check(&mut fixture, &which);
        let killed = kills.filter(|(_, every)| step % every == 0);
        if let Some((killed, _)) = killed {
            match killed {
                Kills::Core => fixture.kill_core(),
                Kills::Agent => fixture.kill_agent(),
            }
            for known in &mut model.list {
                known.there.clear();
            }
            model.list.retain(|known| !known.is_gone());
            model.check(&mut fixture, &format!("{which}, killed"));
        }
    }
    drop(model);
    fixture.finish();
}

impl Model {
    fn step(&mut self, fixture: &mut Fixture) {
        let chosen = self.dice.below(self.list.len().max(1));
        let kind = self.dice.below(12);
        match (kind, self.list.get_mut(chosen)) {
            (3, Some(known)) => known.here.push(fixture.attach(known.id)),
            (4 | 5, Some(known)) => {
                let attached = fixture.on_core.attach(known.id, 0);
                known.there.push(attached.expect("attached"));
            }
            (6, Some(known)) => drop(known.here.pop()),
            (7, Some(known)) => {
                if let Some(there) = known.there.pop() {
                    assert_eq!(fixture.on_core.detach(there), 0);
                }
            }
            (8, Some(known)) if !known.is_removed => {
                fixture.segments.remove(known.id).expect("removed");
                known.is_removed = true;
            }
            (9, Some(known)) if !known.is_removed => {
                assert_eq!(fixture.on_core.remove(known.id), Ok(()));
                known.is_removed = true;
            }
            (10, Some(known)) => write_anew(fixture, known, self.dice.below(256) as u8),
            (11, Some(known)) => die_with_it(fixture, known),
            _ => self.make(fixture),
        }
        self.list.retain(|known| !known.is_gone());
    }

    /// Of any size up to a third of the area, on either side.
    fn make(&mut self, fixture: &mut Fixture) {
        let listed = fixture.listed();
        let bytes = 1 + self.dice.below(listed.area_bytes as usize / 3);
        let fits = bytes.next_multiple_of(PAGE) as u64 <= listed.largest_free_bytes;
        let made_on_core = self.dice.below(2) == 1;
        let flags = CREATE | 0o600;
        let made = match made_on_core {
            true => fixture.on_core.get(PRIVATE, bytes as u32, flags),
            false => {
                let made = fixture.segments.get(PRIVATE, bytes, flags);
                made.map_err(|error| -error.errno())
            }
        };
        assert_eq!(made.err(), (!fits).then_some(ENOSPC), "seed {}", self.seed);
        let Ok(id) = made else { return };
        let mut known = Known {
            id,
            bytes,
            seed: 0,
            made_on_core,
            is_removed: false,
            here: Vec::new(),
            there: Vec::new(),
        };
        match made_on_core {
            true => {
                let attached = fixture.on_core.attach(id, 0);
                known.there.push(attached.expect("attached"));
            }
            false => known.here.push(fixture.attach(id)),
        }
        expect_marks(fixture, &known, "new");
        write_anew(fixture, &mut known, self.dice.below(256) as u8);
        self.list.push(known);
    }

    fn check(&self, fixture: &mut Fixture, which: &str) {
        let listed = fixture.listed();
        let found: Vec<_> = listed
            .segments
            .iter()
            .map(|found| {
                let status = found.status.expect("ours");
                (
                    (found.id, found.bytes, found.is_made_on_core),
                    (status.attached, found.attached_core),
                    status.is_removed,
                )
            })
            .collect();
        let known: Vec<_> = self
            .list
            .iter()
            .map(|known| {
                let (here, there) = (known.here.len() as u64, known.there.len() as u64);
                (
                    (known.id, known.bytes, known.made_on_core),
                    (here + there, there),
                    known.is_removed,
                )
            })
            .collect();
        assert_eq!(found, known, "{which}");
        let taken = self.list.iter();
        let taken: usize = taken.map(|known| known.bytes.next_multiple_of(PAGE)).sum();
        assert_eq!(
            listed.free_bytes,
            listed.area_bytes - taken as u64,
            "{which}"
        );
        for known in &self.list {
            expect_marks(fixture, known, which);
        }
    }
}

/// Nobody has written into it but who was told to, seen from each side that has it attached.
fn expect_marks(fixture: &mut Fixture, known: &Known, which: &str) {
    let expected = known.mark();
    for at in known.places() {
        if let Some(here) = known.here.last() {
            let mut found = vec![1; expected.len()];
            here.read(at, &mut found);
            assert_eq!(found, expected, "{which}: segment {} here", known.id);
        }
        if let Some(there) = known.there.last() {
            let bytes = expected.len() as u32;
            let found = fixture.on_core.read(*there, at as u32, bytes);
            assert_eq!(found, expected, "{which}: segment {} there", known.id);
        }
    }
}

/// Written by the core if it has it, else here.
fn write_anew(fixture: &mut Fixture, known: &mut Known, seed: u8) {
    let before = std::mem::replace(&mut known.seed, seed);
    let mark = known.mark();
    for at in known.places() {
        match (known.there.last(), known.here.last()) {
            (Some(there), _) => fixture.on_core.write(*there, at as u32, &mark),
            (None, Some(here)) => here.write(at, &mark),
            (None, None) => known.seed = before,
        }
    }
}

/// Another process attaches it, writes what stands there, and is killed.
fn die_with_it(fixture: &Fixture, known: &Known) {
    let (mark, places) = (known.mark(), known.places());
    let has_mark = !(known.here.is_empty() && known.there.is_empty());
    let ended = run_in_child(|| {
        let attached = fixture.segments.attach(known.id, Access::Write, None);
        let Ok(attached) = attached else { return 1 };
        if has_mark {
            places.into_iter().for_each(|at| attached.write(at, &mark));
        }
        let _ = kill_process(getpid(), Signal::KILL);
        2
    });
    assert_eq!(ended.expect("forked"), 128 + 9);
}
