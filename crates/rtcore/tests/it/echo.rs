//! A core's endpoints as channels: any size, both directions, no copy, no lost slot, clear
//! refusals.

use crate::support;

use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::support::{Echo, World, boards, other_boards, pattern, start};
use hythe_node::NodeError;
use hythe_rtcore::Board;

#[test]
fn every_size_comes_back_as_it_went() {
    for board in boards() {
        every_size(&board);
    }
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn every_size_comes_back_over_the_other_boards() {
    let boards = other_boards();
    assert!(!boards.is_empty(), "`make setup` builds them");
    for board in boards {
        every_size(&board);
    }
}

fn every_size(board: &Board) {
    let world = World::new();
    let core = start(&world, board);
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    let sizes = [
        1,
        2,
        63,
        64,
        4095,
        3840,
        3841,
        20224,
        20225,
        69376,
        69377,
        1 << 20,
    ];
    for (seed, bytes) in sizes.into_iter().enumerate() {
        let sent = pattern(bytes, seed as u64);
        let back = echo.round_trip(&sent);
        assert_eq!(back.len(), bytes, "{}", board.name());
        assert!(back.to_vec() == sent, "{bytes} bytes over {}", board.name());
    }
    drop(echo);
    core.stop().expect("stopped");
    world.assert_clean();
    // Nothing but the pool itself, its new region and the log.
    let files = world.files();
    let known = |name: &String| {
        ["control", "members", "region", "segments", "link", "log"]
            .contains(&name.split('.').next().unwrap_or(""))
    };
    assert!(files.iter().all(known), "{files:?}");
}

#[test]
fn what_comes_back_is_the_slot_that_went() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        let region = world.pool.region(core.region()).expect("region");
        let file = world
            .pool
            .path()
            .join(format!("region.{}", core.region().0));
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(file)
            .expect("region file");
        for round in 0..20_u8 {
            let mut lease = echo.ping.lease(5000).expect("lease");
            lease.write(0, &[round; 5000]);
            echo.ping.publish(lease, 5000).expect("published");
            // Held by nobody but the core and then the queue: the slot is known by what it holds.
            let held = world.pool.snapshot().held_buffers();
            let places = held.iter().map(|buffer| buffer.place);
            let at = |slot| region.slot_offset(slot).expect("slot") as u64 + 256;
            let mine = places
                .filter(|place| place.region == core.region())
                .find(|place| {
                    let mut found = [0; 5000];
                    file.read_exact_at(&mut found, at(place.slot))
                        .expect("read");
                    found == [round; 5000]
                });
            let mine = mine.expect("the slot that was sent");
            file.write_all_at(&[round ^ 0xFF], at(mine.slot) + 4321)
                .expect("changed");
            let back = echo
                .pong
                .take(support::LONG)
                .expect("taken")
                .expect("an echo");
            assert_eq!(back.descriptor().place, mine, "{}", board.name());
            let mut expected = vec![round; 5000];
            expected[4321] ^= 0xFF;
            assert!(back.to_vec() == expected, "the reader must see the change");
        }
        drop(echo);
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn ten_thousand_round_trips_lose_nothing() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        let mut samples = Vec::new();
        for number in 0..10_000_u32 {
            let back = echo.round_trip(&number.to_le_bytes());
            let mut got = [0; 4];
            back.read(0, &mut got);
            assert_eq!(u32::from_le_bytes(got), number, "{}", board.name());
            // Some are kept for a while, so that slots do not come back in order.
            samples.push(back);
            if samples.len() > 50 {
                samples.swap_remove(number as usize % 50);
            }
        }
        let audit = world.pool.snapshot().audit;
        assert_eq!(audit.mismatches, []);
        assert_eq!(echo.pong.statistics().violations, 0);
        drop((samples, echo));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn sample_outlives_the_core_and_its_agent() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        let kept = echo.round_trip(b"still here");
        core.stop().expect("stopped");
        let core = start(&world, &board);
        assert_eq!(kept.to_vec(), b"still here");
        // The old attachment is void, and nobody has to do anything about it.
        let again = echo.round_trip_anew(b"and again");
        assert_eq!(again.to_vec(), b"and again");
        assert_eq!(kept.to_vec(), b"still here");
        drop((kept, again, echo));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn refusals_name_what_is_wrong() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "first").expect("ports");
        let elsewhere = echo.node.lease(100).expect("lease");
        let unseen = echo.ping.publish(elsewhere, 100).expect_err("not visible");
        let wanted = core.region();
        assert!(matches!(unseen, NodeError::RegionNotVisible { wanted: w, .. } if w == wanted));
        let large = echo.ping.lease((1 << 20) + 1).expect("lease");
        let large = echo
            .ping
            .publish(large, (1 << 20) + 1)
            .expect_err("too large");
        assert!(
            matches!(
                large,
                NodeError::TooLargeForCore {
                    bytes: 1_048_577,
                    largest: 1_048_576,
                    ..
                }
            ),
            "{large}"
        );
        // And the way is as good as before.
        assert_eq!(echo.round_trip(b"fine").to_vec(), b"fine");
        drop(echo);
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn ports_that_were_there_first_meet_the_core() {
    for board in boards() {
        let world = World::new();
        let mut echo = Echo::open(&world.pool, "early").expect("ports");
        assert!(
            echo.pong
                .take(Duration::from_millis(10))
                .expect("nothing")
                .is_none()
        );
        let core = start(&world, &board);
        // A lease from before the core would not be visible to it: the publisher's next lease is.
        let back = echo.round_trip_anew(b"hello");
        assert_eq!(back.to_vec(), b"hello");
        drop((back, echo));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
