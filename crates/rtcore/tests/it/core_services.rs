//! What an agent serves its core over `core/services`: who it is for, and which versions of it
//! there are.

use crate::support::segment_core::{EEXIST, EINVAL, SegmentCore, key, p1_boards};
use crate::support::{LONG, World, eventually};
use hythe_node::{ChannelType, ClientOptions, ServerOptions};
use hythe_rtcore::segment::Segments;
use hythe_rtcore::{Board, Core, CoreOptions};
use hythe_sys::system_v::{CREATE, PRIVATE};

fn start(world: &World, board: &Board, name: Option<&str>) -> Core {
    let mut options = CoreOptions::default().start_bound(LONG).app("p1");
    if let Some(name) = name {
        options = options.name(name);
    }
    Core::start(&world.pool, board, &options).expect("core")
}

fn version(version: u32) -> ChannelType {
    ChannelType {
        name: "hythe.services".to_owned(),
        bytes: 32,
        align: 1,
        version,
    }
}

fn log(world: &World, name: &str) -> String {
    let path = world.pool.path().join(format!("log.{name}"));
    std::fs::read_to_string(path).expect("a log")
}

#[test]
fn another_version_is_refused_as_an_incompatible_channel() {
    for board in p1_boards() {
        let world = World::new();
        let core = start(&world, &board, None);
        let node = hythe_rtcore::join(&world.pool, "other").expect("joins");
        let client = ClientOptions::default().carries(version(2));
        let refused = node.client("core/services", &client).expect_err("newer");
        let said = refused.to_string();
        assert!(said.contains("carries hythe.services version 1"), "{said}");
        assert!(said.contains("wants hythe.services version 2"), "{said}");
        let server = ServerOptions::default().carries(version(2));
        let refused = node.server("core/services", &server).expect_err("newer");
        assert!(refused.refusal().is_some(), "{refused}");
        drop(node);
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn channel_of_another_type_is_not_served_and_the_log_says_so() {
    for board in p1_boards() {
        let world = World::new();
        let node = hythe_rtcore::join(&world.pool, "first").expect("joins");
        let other = ClientOptions::default().carries(version(2));
        let client = node.client("core/services", &other).expect("the first");
        let core = start(&world, &board, None);
        eventually("the log says what is wrong", || {
            let log = log(&world, board.name());
            log.contains("its services do not run") && log.contains("version 2")
        });
        // It serves as ever.
        let mut calls = SegmentCore::open(&node);
        let result = calls.call(1, b"abc").expect("a result");
        assert_eq!(result, b"cba");
        drop((client, calls, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn each_core_has_services_and_segments_of_its_own() {
    for board in p1_boards() {
        let world = World::new();
        let names = ["left", "right"];
        let cores = names.map(|name| start(&world, &board, Some(name)));
        let node = hythe_rtcore::join(&world.pool, "both").expect("joins");
        let mut calls =
            names.map(|name| SegmentCore::open_on(&node, &format!("{name}/core/calls")));
        for core in &mut calls {
            eventually("it is served", || core.get(PRIVATE, 0, 0) == Err(EINVAL));
        }
        let key = key();
        let id = calls[0].get(key, 1, CREATE | 0o600).expect("made");
        // Where the other core does not see it, the key is taken.
        assert_eq!(calls[1].get(key, 1, CREATE | 0o600), Err(EEXIST));
        assert_eq!(calls[1].attach(id, 0).map(drop), Err(EINVAL));
        let own = calls[1].get(PRIVATE, 1, CREATE | 0o600).expect("made");
        let there = calls[1].attach(own, 0).expect("attached");
        let listed = Segments::open(&world.pool, None).expect("areas").list();
        let mut listed = listed.expect("listed");
        listed.sort_by(|a, b| a.board.cmp(&b.board));
        let ids: Vec<_> = listed
            .iter()
            .map(|of| {
                (
                    of.board.as_str(),
                    of.segments[0].id,
                    of.segments[0].attached_core,
                )
            })
            .collect();
        assert_eq!(ids, [("left", id, 0), ("right", own, 1)]);
        assert_eq!(calls[1].detach(there), 0);
        assert_eq!(calls[0].remove(id), Ok(()));
        assert_eq!(calls[1].remove(own), Ok(()));
        drop((calls, node));
        for core in cores {
            core.stop().expect("stopped");
        }
        world.assert_clean();
    }
}

#[test]
fn large_slots_stay_free_for_others() {
    for board in p1_boards() {
        let world = World::new();
        let core = start(&world, &board, None);
        let node = hythe_rtcore::join(&world.pool, "tester").expect("joins");
        let mut calls = SegmentCore::open(&node);
        eventually("it is served", || calls.get(PRIVATE, 0, 0) == Err(EINVAL));
        drop((calls, node));
        // The agent has given the core its empty slots: of the smallest class, and a few that a
        // message of 64 KiB fits.
        let sizes = || -> Vec<u32> {
            let held = world.pool.snapshot().held_buffers().into_iter();
            let of_core = held.filter(|slot| slot.place.region == core.region());
            let mut sizes: Vec<u32> = of_core.map(|slot| slot.slot_bytes).collect();
            sizes.sort_unstable();
            sizes
        };
        eventually("as many as it may ask at once", || sizes().len() == 28);
        assert_eq!(sizes()[..24], [4096; 24]);
        assert_eq!(sizes()[24..], [69_632; 4]);
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
