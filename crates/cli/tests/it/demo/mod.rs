//! `hythe demo` as a user runs it: on both boards, with all sorts of files, and with everything
//! going wrong.
//!
//! Every test has a root of its own for pools, so that "nothing left behind" can be seen. Boards
//! and recording come from `make setup`; without them the tests fail, because then the product does
//! not work.

mod across;
mod formats;
mod refusals;
pub(crate) mod world;

use world::{World, exact};

#[test]
fn hosted_board_plays_sample_for_sample() {
    let world = World::new();
    let file = world.recording("plain.mp3", &["-t", "2"]);
    let verdict = world.demo(&["--board", "hosted", &file]);
    exact(&verdict);
    assert_eq!(verdict["board"], "hosted");
    world.is_clean();
}

#[test]
fn emulated_board_plays_sample_for_sample() {
    let world = World::new();
    let file = world.recording("plain.mp3", &["-t", "2"]);
    let verdict = world.demo(&["--board", "mps2-an386", &file]);
    exact(&verdict);
    assert_eq!(verdict["emulated"], true);
    world.is_clean();
}

#[test]
fn table_names_each_hop_with_its_copies() {
    let world = World::new();
    let file = world.recording("plain.mp3", &["-t", "1"]);
    let verdict = world.demo(&["--board", "hosted", &file]);
    let hops = verdict["hops"].as_array().expect("hops");
    let of = |name: &str, key: &str| {
        let hop = hops
            .iter()
            .find(|hop| hop["name"] == name)
            .expect("the hop");
        hop[key].as_u64().expect("a number")
    };
    for (name, copies) in [("storage", 1), ("process", 0), ("core", 0), ("media", 1)] {
        assert_eq!(of(name, "cpu_copies"), copies, "{name}");
        assert!(of(name, "buffers") > 0, "{name}");
        assert!(of(name, "bytes") > 0, "{name}");
        assert!(of(name, "p50_ns") <= of(name, "p99_ns"), "{name}");
    }
    let text = world.demo_text(&["--board", "hosted", &file]);
    for word in [
        "storage",
        "process",
        "core",
        "media",
        "CPU COPIES",
        "SHA-256",
    ] {
        assert!(text.contains(word), "{word} in {text}");
    }
    world.is_clean();
}
