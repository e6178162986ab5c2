//! Segments that Linux has a core make: made, refused, and with the core stopped, killed, or of
//! another program.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::support::segment_core::{Fixture, be_agent, key, p1_boards};
use crate::support::{LONG, World, board, eventually, pattern};
use hythe_rtcore::segment::{SegmentError, Segments};
use hythe_rtcore::tasks::{TaskError, Tasks};
use hythe_rtcore::{Core, CoreOptions};
use hythe_sys::system_v::{CREATE, EXCLUSIVE, PRIVATE};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// A method of `p1`: whether it refuses.
const REFUSE: u32 = 27;

/// Not a test of its own: the agent of the tests below.
#[test]
fn agent() {
    be_agent();
}

/// As `get_on_core`. An emulated core on a busy machine may need more than one try.
fn get_on_core(
    segments: &Segments,
    (key, bytes, flags): (i32, usize, i32),
) -> Result<i32, SegmentError> {
    loop {
        match segments.get_on_core(key, bytes, flags) {
            Err(SegmentError::CoreUnasked { source, .. })
                if matches!(*source, TaskError::Silent { .. }) => {}
            outcome => return outcome,
        }
    }
}

fn number(outcome: Result<i32, SegmentError>) -> Errno {
    let error = outcome.expect_err("refused");
    Errno::from_raw_os_error(error.errno())
}

fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, signal).expect("started by this test");
}

#[test]
fn core_makes_a_segment_that_both_sides_use() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let segments = fixture.segments.clone();
        let plain = fixture.make(PRIVATE, 1);
        for (key, bytes) in [(key(), 5000), (PRIVATE, 4096)] {
            let id = get_on_core(&segments, (key, bytes, CREATE | 0o600)).expect("made");
            let listed = fixture.listed().segments;
            let [_, made] = &listed[..] else {
                panic!("{listed:?}");
            };
            assert_eq!(
                (made.id, made.bytes, made.is_made_on_core),
                (id, bytes, true)
            );
            assert_eq!(made.creator.0, board.name());
            if key != PRIVATE {
                assert_eq!(fixture.on_core.get(key, 0, 0), Ok(id));
                let again = get_on_core(&segments, (key, bytes, CREATE | 0o600));
                assert_eq!(again.expect("found"), id);
                let exclusive = CREATE | EXCLUSIVE | 0o600;
                let refused = get_on_core(&segments, (key, bytes, exclusive));
                assert_eq!(number(refused), Errno::EXIST);
            }
            let here = fixture.attach(id);
            let there = fixture.on_core.attach(id, 0).expect("attached");
            let bytes = pattern(bytes, 3);
            here.write(0, &bytes);
            let count = bytes.len() as u32;
            assert_eq!(fixture.on_core.read(there, 0, count), bytes);
            // The two addresses of its last byte.
            let mut core = Tasks::open(&fixture.world.pool, board.name(), "tester")
                .expect("control")
                .with_bound(LONG);
            let at = bytes.len() as u64 - 1;
            let seen = core.peek(made.page, at).expect("a byte");
            assert_eq!(
                (seen.address, seen.value),
                (there.address + at, *bytes.last().expect("a byte"))
            );
            assert_eq!(fixture.on_core.detach(there), 0);
            segments.remove(id).expect("removed");
        }
        segments.remove(plain).expect("removed");
        fixture.finish();
    }
}

#[test]
fn what_the_core_or_its_agent_refuses_has_the_number_of_shmget() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let segments = fixture.segments.clone();
        let area = fixture.listed().area_bytes as usize;
        let make = CREATE | 0o600;
        let refused = |key, bytes, flags| number(get_on_core(&segments, (key, bytes, flags)));
        assert_eq!(refused(key(), 1, 0o600), Errno::NOENT);
        for bytes in [0, area + 1, usize::MAX] {
            assert_eq!(refused(PRIVATE, bytes, make), Errno::INVAL);
        }
        let all = fixture.make(PRIVATE, area);
        assert_eq!(refused(PRIVATE, 1, make), Errno::NOSPC);
        assert!(fixture.log().contains("no place for a segment of 1 bytes"));
        segments.remove(all).expect("removed");

        let kept = (key(), 1, make);
        let id = get_on_core(&segments, kept).expect("made");
        fixture
            .on_core
            .call(REFUSE, &1_u32.to_le_bytes())
            .expect("told");
        let error = get_on_core(&segments, (PRIVATE, 1, make)).expect_err("refused");
        assert_eq!(error.errno(), Errno::ACCESS.raw_os_error(), "{error}");
        assert!(matches!(error, SegmentError::CoreRefused { .. }), "{error}");
        // What there is the program is not asked for.
        assert_eq!(get_on_core(&segments, kept).expect("found"), id);
        fixture
            .on_core
            .call(REFUSE, &0_u32.to_le_bytes())
            .expect("told");
        let other = get_on_core(&segments, (PRIVATE, 1, make)).expect("made");
        // Outside of the area there is nothing to be looked at.
        let mut core = Tasks::open(&fixture.world.pool, board.name(), "tester")
            .expect("control")
            .with_bound(LONG);
        let pages = (area / 4096) as u64;
        core.peek(pages - 1, 4095).expect("the last byte");
        for (page, offset) in [
            (pages, 0),
            (pages - 1, 4096),
            (0, area as u64),
            (u64::MAX, u64::MAX),
        ] {
            let outside = core.peek(page, offset).expect_err("outside");
            assert!(
                matches!(outside, TaskError::OutsideArea { .. }),
                "{outside}"
            );
        }
        drop(core);
        for id in [id, other] {
            segments.remove(id).expect("removed");
        }
        fixture.finish();
    }
}

#[test]
fn program_that_makes_none_is_said_to_make_none() {
    let Some(board) = board("hosted") else { return };
    for (app, says) in [
        ("decoder", "its program makes none for Linux"),
        ("bench", "has no endpoint `core/control`"),
    ] {
        let world = World::new();
        let options = CoreOptions::default().start_bound(LONG).app(app);
        let core = Core::start(&world.pool, &board, &options).expect("core");
        let segments = Segments::open(&world.pool, None).expect("an area");
        let error = get_on_core(&segments, (PRIVATE, 1, CREATE | 0o600)).expect_err("refused");
        assert_eq!(error.errno(), Errno::NOSPC.raw_os_error());
        assert!(error.to_string().contains(says), "{error}");
        core.stop().expect("stopped");
        let gone = segments.get_on_core(PRIVATE, 1, CREATE | 0o600);
        let gone = gone.expect_err("nobody is there");
        assert_eq!(gone.errno(), Errno::NOSPC.raw_os_error(), "{gone}");
        assert!(gone.to_string().contains("does not run"), "{gone}");
        world.assert_clean();
    }
}

#[test]
fn stopped_core_is_named_and_what_it_made_is_found() {
    for board in p1_boards() {
        let fixture = Fixture::start(&board);
        let segments = &fixture.segments;
        let kept = (key(), 1, CREATE | 0o600);
        let id = get_on_core(segments, kept).expect("made");
        let pid = fixture.core_pid();
        send(pid, Signal::STOP);
        let found = segments.get_on_core(kept.0, kept.1, kept.2);
        let refused = segments.get_on_core(PRIVATE, 1, CREATE | 0o600);
        send(pid, Signal::CONT);
        assert_eq!(found.expect("found"), id);
        let error = refused.expect_err("it is stopped");
        assert_eq!(error.errno(), Errno::NOSPC.raw_os_error());
        let stopped = format!("`{}` has not answered for", board.name());
        let process = format!("its process {pid} is stopped");
        let text = error.to_string();
        assert!(text.contains(&stopped) && text.contains(&process), "{text}");
        // The request may have been made in the meantime: it is nobody's then.
        let made = get_on_core(segments, (PRIVATE, 1, CREATE | 0o600)).expect("made");
        assert!(fixture.ids().contains(&made));
        for id in fixture.ids() {
            segments.remove(id).expect("removed");
        }
        fixture.finish();
    }
}

#[test]
fn killed_core_or_agent_leaves_no_partial_segment() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let (segments, over) = (fixture.segments.clone(), AtomicBool::new(false));
        let (made, refused) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    match segments.get_on_core(PRIVATE, 5000, CREATE | 0o600) {
                        Ok(id) => {
                            segments.remove(id).expect("it is there");
                            made.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            assert_eq!(error.errno(), Errno::NOSPC.raw_os_error(), "{error}");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
            for round in 0..6 {
                let before = made.load(Ordering::Relaxed);
                eventually("more are made", || {
                    made.load(Ordering::Relaxed) > before + round
                });
                match round % 3 {
                    2 => fixture.kill_agent(),
                    _ => fixture.kill_core(),
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        eprintln!("{}: {made:?} made, {refused:?} refused", board.name());
        let left = get_on_core(&fixture.segments, (PRIVATE, 1, CREATE | 0o600)).expect("made");
        for found in fixture.listed().segments {
            assert!(found.is_made_on_core && (found.id == left || found.bytes == 5000));
            fixture.segments.remove(found.id).expect("removed");
        }
        fixture.finish();
    }
}
