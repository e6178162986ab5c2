//! Cores that cannot be started say why, and leave nothing behind.

use crate::support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{World, boards};
use hythe_rtcore::{Board, Core, CoreError, CoreOptions};

/// A copy of a board's folder that a test may change; removed when dropped.
struct Copied(PathBuf);

impl Copied {
    fn of(board: &Board) -> Self {
        let image = board.image(board.default_app());
        let from = image.parent().expect("a folder");
        let thread = format!("{:?}", std::thread::current().id());
        let name = format!("hythe-board-{}-{thread}", std::process::id());
        let to = std::env::temp_dir().join(name).join(board.name());
        std::fs::create_dir_all(&to).expect("folder");
        for file in ["board.toml", "decoder.elf"] {
            hythe_testing::copy_program(from.join(file), to.join(file));
        }
        Self(to)
    }

    fn edit(&self, from: &str, to: &str) -> Board {
        let path = self.0.join("board.toml");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains(from), "{from}");
        std::fs::write(&path, text.replace(from, to)).expect("written");
        Board::read(&self.0).expect("still a board")
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if let Some(folder) = self.0.parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn start(world: &World, board: &Board, bound: Duration) -> CoreError {
    let options = CoreOptions::default().start_bound(bound);
    Core::start(&world.pool, board, &options).expect_err("it cannot start")
}

fn assert_nothing_left(world: &World) {
    world.assert_clean();
    let members = world.pool.snapshot().members;
    assert!(members.is_empty(), "{members:?}");
    assert!(
        world
            .files()
            .iter()
            .all(|name| !name.starts_with("doorbell")),
        "{:?}",
        world.files()
    );
}

#[test]
fn unknown_board_is_named_with_the_known() {
    let unknown = Board::find("no-such-board").expect_err("unknown");
    assert!(unknown.to_string().contains("no-such-board"), "{unknown}");
    assert!(matches!(unknown, CoreError::UnknownBoard { .. }));
    assert!(matches!(
        Board::find("../hosted"),
        Err(CoreError::UnknownBoard { .. })
    ));
    let nothing = Board::read(Path::new("/proc/self")).expect_err("no board there");
    assert!(matches!(nothing, CoreError::BadBoard { .. }), "{nothing}");
}

#[test]
fn missing_image_and_a_missing_program_are_named() {
    for board in boards() {
        let world = World::new();
        let copied = Copied::of(&board);
        std::fs::remove_file(copied.0.join("decoder.elf")).expect("removed");
        let error = start(
            &world,
            &Board::read(&copied.0).expect("board"),
            Duration::from_secs(1),
        );
        assert!(matches!(error, CoreError::NotRunnable { .. }));
        assert!(
            error.to_string().contains("decoder.elf is not built"),
            "{error}"
        );
        assert!(error.to_string().contains("cargo xtask boards"), "{error}");
        assert_nothing_left(&world);
    }
    let Some(board) = support::board("mps2-an386") else {
        return;
    };
    let world = World::new();
    let copied = Copied::of(&board);
    let board = copied.edit(
        "[[\"qemu-system-arm\", \"qemu-system-arm\"]",
        "[[\"qemu-system-none\", \"qemu-none\"]",
    );
    let error = start(&world, &board, Duration::from_secs(1));
    assert!(
        error
            .to_string()
            .contains("qemu-system-none is not installed: sudo apt-get install qemu-none"),
        "{error}"
    );
    assert_nothing_left(&world);
}

#[test]
fn wrong_image_is_told_with_what_was_said() {
    for board in boards() {
        let world = World::new();
        let copied = Copied::of(&board);
        // Hosted: a program that says something and ends. Emulated: no image at all, which the
        // emulator complains about.
        let image = copied.0.join("decoder.elf");
        std::fs::write(&image, "#!/bin/sh\necho not a core >&2\nexit 7\n").expect("written");
        let error = start(
            &world,
            &Board::read(&copied.0).expect("board"),
            Duration::from_secs(20),
        );
        match &error {
            CoreError::Died { how, log, .. } => {
                assert!(
                    how.contains("exit status") || board.is_emulated(),
                    "{error}"
                );
                assert!(!log.is_empty(), "{error}");
            }
            CoreError::NoAnswer { .. } => assert!(board.is_emulated(), "{error}"),
            other => panic!("{other}"),
        }
        assert_nothing_left(&world);
    }
}

#[test]
fn core_that_never_connects_is_given_up() {
    let Some(board) = support::board("hosted") else {
        return;
    };
    let world = World::new();
    let copied = Copied::of(&board);
    std::fs::write(
        copied.0.join("decoder.elf"),
        "#!/bin/sh\necho waiting\nexec sleep 600\n",
    )
    .expect("written");
    let error = start(
        &world,
        &Board::read(&copied.0).expect("board"),
        Duration::from_millis(500),
    );
    assert!(
        matches!(
            &error,
            CoreError::NoAnswer {
                what: "connect its doorbell",
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("agent: started process"),
        "{error}"
    );
    assert_nothing_left(&world);
}

#[test]
fn start_that_is_not_wanted_any_more_ends_long_before_its_bound() {
    let Some(board) = support::board("hosted") else {
        return;
    };
    let world = World::new();
    let copied = Copied::of(&board);
    std::fs::write(copied.0.join("decoder.elf"), "#!/bin/sh\nexec sleep 600\n").expect("written");
    let board = Board::read(&copied.0).expect("board");
    // Without a look at `give_up` this test would not end within an hour.
    let options = CoreOptions::default().start_bound(Duration::from_secs(3600));
    let error = Core::start_unless(&world.pool, &board, &options, || true).expect_err("given up");
    assert!(matches!(error, CoreError::GivenUp { .. }), "{error}");
    assert_nothing_left(&world);
}

#[test]
fn link_with_too_little_room_is_refused_by_the_core() {
    for board in boards() {
        let world = World::new();
        let copied = Copied::of(&board);
        let board = copied.edit("endpoints = 12", "endpoints = 2");
        let error = start(&world, &board, Duration::from_secs(60));
        assert!(matches!(&error, CoreError::Refused { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("more endpoints than the link has room for"),
            "{error}"
        );
        assert_nothing_left(&world);
    }
}

#[test]
fn another_layout_under_the_same_name_is_refused() {
    for board in boards() {
        let world = World::new();
        support::start(&world, &board).stop().expect("stopped");
        let fewer = (
            "slot_bytes = 1052672\ncount = 6",
            "slot_bytes = 1052672\ncount = 5",
        );
        for (is_of, (from, to)) in [
            ("other slot classes", fewer),
            ("the segments", ("[run.segments]", "[run.unknown]")),
        ] {
            let copied = Copied::of(&board);
            let error = start(&world, &copied.edit(from, to), Duration::from_secs(60));
            assert!(matches!(&error, CoreError::RegionDiffers { .. }), "{error}");
            assert!(error.to_string().contains(is_of), "{error}");
            assert_nothing_left(&world);
        }
    }
}
