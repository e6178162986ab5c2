//! Segments that Linux and a core use together: found, attached, removed and refused from either
//! side.

use crate::support;

use std::time::Duration;

use crate::support::segment_core::{
    EEXIST, EFAULT, EINVAL, ENOENT, ENOSPC, Fixture, OnCore, SHM_RDONLY, be_agent, key, p1_boards,
};
use crate::support::{eventually, pattern};
use hythe_sys::system_v::{self, CREATE, EXCLUSIVE, PRIVATE};
use hythe_testing::let_time_pass;

const PAGE: u32 = 4096;
/// What one call carries.
const PIECE: usize = 48 << 10;

/// Not a test of its own: the agent of the tests below.
#[test]
fn agent() {
    be_agent();
}

/// Where something is to be read in a segment of that size: its first bytes, its last ones.
fn pieces(bytes: usize) -> [(usize, usize); 2] {
    let piece = bytes.min(PIECE);
    [(0, piece), (bytes - piece, piece)]
}

#[test]
fn both_sides_read_segments_of_all_sizes() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let area = fixture.listed().area_bytes as usize;
        assert!(area >= 4 << 20, "{area}");
        for (made_on_core, bytes) in [1, 4095, 4096, 4097, 100_000, 4 << 20, area]
            .into_iter()
            .flat_map(|bytes| [(false, bytes), (true, bytes)])
        {
            let key = key();
            let flags = CREATE | EXCLUSIVE | 0o600;
            let id = match made_on_core {
                true => fixture.on_core.get(key, bytes as u32, flags),
                false => Ok(fixture.segments.get(key, bytes, flags).expect("made")),
            };
            let id = id.expect("made");
            // Found by key from either side.
            assert_eq!(fixture.on_core.get(key, 0, 0), Ok(id));
            assert_eq!(fixture.segments.get(key, bytes, 0).expect("found"), id);
            let listed = fixture.listed().segments.remove(0);
            assert_eq!((listed.id, listed.is_made_on_core), (id, made_on_core));
            if made_on_core {
                assert_eq!(listed.creator.0, board.name());
            }
            let here = fixture.attach(id);
            let there = fixture.on_core.attach(id, 0).expect("attached");
            assert_eq!((there.bytes as usize, here.len()), (bytes, bytes));
            assert_eq!(there.address % u64::from(PAGE), 0);
            assert_eq!(here.address() % PAGE as usize, 0);
            assert_ne!(there.address, here.address() as u64);
            same_bytes(&mut fixture, &here, there);
            assert_eq!(fixture.on_core.detach(there), 0);
            drop(here);
            assert_eq!(fixture.on_core.remove(id), Ok(()));
            assert_eq!(fixture.free_bytes(), area as u64);
        }
        fixture.finish();
    }
}

fn same_bytes(fixture: &mut Fixture, here: &hythe_rtcore::segment::Attached, there: OnCore) {
    for (seed, (at, bytes)) in (1..).zip(pieces(here.len())) {
        let mut found = vec![1; bytes];
        if seed == 1 {
            here.read(at, &mut found);
            assert!(found.iter().all(|byte| *byte == 0), "not zeroed");
        }
        let (ours, theirs) = (pattern(bytes, seed), pattern(bytes, 100 + seed));
        here.write(at, &ours);
        assert_eq!(fixture.on_core.read(there, at as u32, bytes as u32), ours);
        fixture.on_core.write(there, at as u32, &theirs);
        here.read(at, &mut found);
        assert_eq!(found, theirs);
    }
}

#[test]
fn page_belongs_to_one_segment() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let made = [
            fixture.make(PRIVATE, 1),
            fixture
                .on_core
                .get(PRIVATE, 1, CREATE | 0o600)
                .expect("made"),
            fixture.make(PRIVATE, PAGE as usize + 1),
        ];
        let there = made.map(|id| fixture.on_core.attach(id, 0).expect("attached"));
        let pages = made.map(|id| fixture.on_core.status(id).expect("there").page);
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            assert_ne!(pages[a], pages[b]);
            let (low, high) = if pages[a] < pages[b] { (a, b) } else { (b, a) };
            let distance = u64::from(pages[high] - pages[low]) * u64::from(PAGE);
            assert_eq!(there[high].address - there[low].address, distance);
        }
        let here = made.map(|id| fixture.attach(id));
        for (seed, attached) in (1..).zip(&here) {
            // Up to the end of its last page.
            attached.write(
                0,
                &vec![seed; attached.len().next_multiple_of(PAGE as usize)],
            );
        }
        for (seed, attached) in (1..).zip(&here) {
            let mut found = vec![0; attached.len().next_multiple_of(PAGE as usize)];
            attached.read(0, &mut found);
            assert!(found.iter().all(|byte| *byte == seed), "segment {seed}");
        }
        drop(here);
        fixture.finish();
    }
}

#[test]
fn core_is_refused_with_the_numbers_of_the_system_calls() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let area = fixture.listed().area_bytes as u32;
        let taken = key();
        let id = fixture.make(taken, 5000);
        let core = &mut fixture.on_core;
        assert_eq!(core.get(taken, 1, CREATE | EXCLUSIVE | 0o600), Err(EEXIST));
        assert_eq!(core.get(taken, 5001, 0), Err(EINVAL));
        assert_eq!(core.get(key(), 1, 0), Err(ENOENT));
        assert_eq!(core.get(PRIVATE, 0, CREATE), Err(EINVAL));
        assert_eq!(core.get(PRIVATE, area + 1, CREATE), Err(EINVAL));
        assert_eq!(core.get(PRIVATE, u32::MAX, CREATE), Err(EINVAL));
        assert_eq!(
            core.get(PRIVATE, 1, CREATE | 0o4000),
            Err(EINVAL),
            "huge pages"
        );
        assert_eq!(
            core.get(PRIVATE, 1, i32::MIN),
            Err(EINVAL),
            "an unknown bit"
        );
        // Dual or not, and where, is for Linux to say.
        assert_eq!(core.get(taken, 0, 0x30000), Ok(id));
        for unknown in [-1, id ^ 0x4000, i32::MIN] {
            assert_eq!(core.attach(unknown, 0).map(drop), Err(EINVAL), "{unknown}");
            assert_eq!(core.status(unknown).map(drop), Err(EINVAL), "{unknown}");
            assert_eq!(core.set(unknown, [0, 0, 0o600]), Err(EINVAL), "{unknown}");
            assert_eq!(core.remove(unknown), Err(EINVAL), "{unknown}");
        }
        assert_eq!(core.attach(id, 1).map(drop), Err(EINVAL), "an unknown flag");
        assert_eq!(core.control(id, 3, [0; 3]).map(drop), Err(EINVAL));
        assert_eq!(
            core.set(id, [0, 0, 0o1600]),
            Err(EINVAL),
            "more than a mode"
        );
        let attached = core.attach(id, 0).expect("attached");
        assert_eq!(core.detach(attached), 0);
        assert_eq!(core.detach(attached), EINVAL, "twice");
        // One that no core sees.
        let plain_key = key();
        let plain = system_v::open(plain_key, 1, CREATE | 0o600).expect("made");
        assert_eq!(core.get(plain_key, 1, CREATE | 0o600), Err(EEXIST));
        assert_eq!(core.attach(plain, 0).map(drop), Err(EINVAL));
        assert_eq!(core.remove(plain), Err(EINVAL));
        system_v::remove(plain).expect("removed");
        // What was refused has changed nothing.
        assert_eq!(fixture.ids(), [id]);
        assert_eq!(fixture.free_bytes(), u64::from(area - 2 * PAGE));
        fixture.finish();
    }
}

#[test]
fn full_table_is_reported_to_core_and_logged() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let area = fixture.listed().area_bytes as u32;
        let made = fixture.on_core.get(PRIVATE, area - PAGE, CREATE | 0o600);
        let id = made.expect("made");
        let full = fixture.on_core.get(PRIVATE, 2 * PAGE, CREATE | 0o600);
        assert_eq!(full, Err(ENOSPC));
        eventually("the log names what is free", || {
            let log = fixture.log();
            let mut lines = log.lines().filter(|line| line.starts_with("agent: "));
            lines.any(|line| line.contains("4096 bytes free, the largest piece 4096"))
        });
        assert_eq!(fixture.on_core.remove(id), Ok(()));
        let mut ids = Vec::new();
        for _ in 0..128 {
            ids.push(
                fixture
                    .on_core
                    .get(PRIVATE, 1, CREATE | 0o600)
                    .expect("made"),
            );
        }
        assert_eq!(fixture.on_core.get(PRIVATE, 1, CREATE | 0o600), Err(ENOSPC));
        assert_eq!(fixture.ids(), ids);
        eventually("the log names the limit", || {
            fixture.log().contains("128 segments, which is the limit")
        });
        for id in ids {
            fixture.segments.remove(id).expect("removed");
        }
        fixture.finish();
    }
}

#[test]
fn core_detaches_from_what_it_has_and_no_more() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let id = fixture.make(PRIVATE, 5000);
        // As many as `p1` has places for, in any order.
        let mut attached: Vec<OnCore> = (0..64)
            .map(|_| fixture.on_core.attach(id, 0).expect("attached"))
            .collect();
        let status = fixture.on_core.status(id).expect("there");
        assert_eq!((status.attached, status.attached_core), (64, 64));
        let here = fixture.attach(id);
        let listed = fixture.listed().segments.remove(0);
        let all = listed.status.expect("ours").attached;
        assert_eq!((all, listed.attached_core), (65, 64));
        for left in (0..64_u32).rev() {
            let one = attached.swap_remove(left as usize / 2);
            assert_eq!(fixture.on_core.detach(one), 0);
            let status = fixture.on_core.status(id).expect("there");
            assert_eq!((status.attached, status.attached_core), (left + 1, left));
        }
        drop(here);
        fixture.finish();
    }
}

#[test]
fn status_rights_and_removal_while_the_core_has_it_attached() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let key = key();
        let id = fixture
            .on_core
            .get(key, 5000, CREATE | 0o640)
            .expect("made");
        let there = fixture.on_core.attach(id, 0).expect("attached");
        let status = fixture.on_core.status(id).expect("there");
        let user = rustix::process::geteuid().as_raw();
        assert_eq!((status.key, status.bytes, status.mode), (key, 5000, 0o640));
        assert_eq!((status.uid, status.made_on), (user, 1));
        assert_eq!(status.creator, fixture.agent.child.id());
        // The kernel's own call says the same.
        let kernel = fixture.segments.status(id).expect("there");
        assert_eq!((kernel.attached, kernel.mode), (1, 0o640));
        assert_eq!(
            fixture.on_core.set(id, [status.uid, status.gid, 0o604]),
            Ok(())
        );
        assert_eq!(fixture.segments.status(id).expect("there").mode, 0o604);

        fixture.on_core.write(there, 0, b"kept");
        assert_eq!(fixture.on_core.remove(id), Ok(()));
        let status = fixture.on_core.status(id).expect("attached still");
        assert_eq!((status.key, status.mode), (0, 0o1604));
        let missing = fixture
            .segments
            .get(key, 0, 0)
            .expect_err("no key any more");
        assert_eq!(missing.errno(), -ENOENT);
        // Another may have the key, and has other pages.
        let other = fixture.make(key, 5000);
        assert_eq!(fixture.ids(), [id, other]);
        let here = fixture.attach(other);
        here.write(0, b"else");
        assert_eq!(fixture.on_core.read(there, 0, 4), b"kept");
        // By its id it can be attached as long as it is there.
        let late = fixture.attach(id);
        let mut bytes = [0; 4];
        late.read(0, &mut bytes);
        assert_eq!(&bytes, b"kept");
        drop(late);
        assert_eq!(fixture.ids(), [id, other]);
        // The core's last shmdt removes the entry.
        assert_eq!(fixture.on_core.detach(there), 0);
        assert_eq!(fixture.ids(), [other]);
        drop(here);
        fixture.finish();
    }
}

#[test]
fn removed_segment_ends_with_last_attachment() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        for core_is_last in [true, false] {
            let id = fixture.make(PRIVATE, 70_000);
            let here = fixture.attach(id);
            let there = fixture.on_core.attach(id, 0).expect("attached");
            fixture.segments.remove(id).expect("removed");
            here.write(69_998, b"ab");
            assert_eq!(fixture.on_core.read(there, 69_998, 2), b"ab");
            assert_eq!(fixture.ids(), [id]);
            if core_is_last {
                drop(here);
                assert_eq!(fixture.ids(), [id]);
                assert_eq!(fixture.on_core.read(there, 69_998, 2), b"ab");
                assert_eq!(fixture.on_core.detach(there), 0);
            } else {
                assert_eq!(fixture.on_core.detach(there), 0);
                assert_eq!(fixture.ids(), [id]);
                drop(here);
            }
            assert_eq!(fixture.ids(), []);
        }
        fixture.finish();
    }
}

#[test]
fn ranges_outside_of_an_attachment_are_refused_at_each_edge() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let id = fixture.make(PRIVATE, 5000);
        let core = &mut fixture.on_core;
        let there = core.attach(id, 0).expect("attached");
        let inside = [(0, 0), (0, 1), (0, 5000), (4999, 1), (5000, 0), (1, 4999)];
        for (offset, bytes) in inside {
            assert_eq!(core.check(there, offset, bytes, 0), 0, "{offset} {bytes}");
        }
        let outside = [
            (-1, 0),
            (-1, 1),
            (-1, 2),
            (0, 5001),
            (4999, 2),
            (5000, 1),
            (5001, 0),
            (4096, 4096),
            (1, u32::MAX),
            (5000, u32::MAX),
            (i64::MIN, 1),
            (i64::MAX, u32::MAX),
            (-4096, u32::MAX),
        ];
        // Addresses of 32 bits wrap: those two are the first byte there.
        let is_wide = there.address > u64::from(u32::MAX);
        for (offset, bytes) in outside {
            if is_wide || i32::try_from(offset).is_ok() {
                assert_eq!(
                    core.check(there, offset, bytes, 0),
                    EFAULT,
                    "{offset} {bytes}"
                );
            }
        }
        // Reading only: a promise, and the check that keeps it.
        let read_only = core.attach(id, SHM_RDONLY).expect("attached");
        assert_eq!(core.check(read_only, 0, 5000, SHM_RDONLY), 0);
        assert_eq!(
            core.check(read_only, 0, 1, 0),
            support::segment_core::EACCES
        );
        assert_eq!(core.check(read_only, 0, 5001, 0), EFAULT);
        assert_eq!(core.detach(there), 0);
        assert_eq!(core.check(there, 0, 0, 0), EFAULT, "detached");
        fixture.finish();
    }
}

#[test]
fn two_makers_of_one_key_get_one_segment() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let mut firsts = [0, 0];
        for round in 0..60 {
            let (key, flags) = (key(), CREATE | EXCLUSIVE | 0o600);
            let segments = fixture.segments.clone();
            let barrier = std::sync::Barrier::new(2);
            let (here, there) = std::thread::scope(|scope| {
                let maker = scope.spawn(|| {
                    barrier.wait();
                    let_time_pass(Duration::from_micros(50 * round), "the core takes longer");
                    segments
                        .get(key, 3000, flags)
                        .map_err(|error| -error.errno())
                });
                barrier.wait();
                let there = fixture.on_core.get(key, 3000, flags);
                (maker.join().expect("a maker"), there)
            });
            let (id, winner) = match (here, there) {
                (Ok(id), Err(EEXIST)) => (id, 0),
                (Err(EEXIST), Ok(id)) => (id, 1),
                other => panic!("{other:?}"),
            };
            firsts[winner] += 1;
            assert_eq!(fixture.ids(), [id]);
            let without_exclusive = fixture.on_core.get(key, 3000, CREATE | 0o600);
            assert_eq!(without_exclusive, Ok(id));
            fixture.segments.remove(id).expect("removed");
        }
        eprintln!(
            "{}: Linux first {}, the core {}",
            board.name(),
            firsts[0],
            firsts[1]
        );
        fixture.finish();
    }
}
