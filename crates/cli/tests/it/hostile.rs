//! Commands on a pool that somebody has scribbled over, or is scribbling over: an answer or an
//! error, in time, never a panic.
//!
//! Seeded: `HYTHE_FUZZ_SEED=17 HYTHE_FUZZ_ROUNDS=50 cargo test -p hythe-cli --test it hostile::`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::choices::Choices;
use crate::support::Root;
use hythe_testing::let_time_pass;

/// What Rust's runtime ends a panicking program with.
const PANIC: i32 = 101;

const COMMANDS: [&[&str]; 9] = [
    &["pool", "list"],
    &["pool", "show", "default"],
    &["list"],
    &["list", "--json"],
    &["who"],
    &["who", "--json"],
    &["hz", "way", "--count", "1", "--interval", "0.1"],
    &["sub", "way", "--count", "1", "--timeout", "0.2"],
    &["pub", "way", "/proc/self/stat"],
];

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

/// Lies, mostly in the first megabyte, where the tables are; through the file, as anybody with
/// permission can.
fn scribble(control: &File, choices: &mut Choices, words: u32) {
    let bytes = control.metadata().expect("metadata").len() as u32;
    for _ in 0..words {
        let limit = [12 << 10, 1 << 20, bytes][choices.below(3) as usize].min(bytes);
        let at = u64::from(choices.below(limit / 4)) * 4;
        let lie = match choices.below(6) {
            0 => 0,
            1 => u32::MAX,
            2 => choices.below(8),
            3 => choices.below(0x1_0000),
            4 => 1 << choices.below(32),
            _ => choices.below(u32::MAX),
        };
        // Header and regions are spared nearly always: what is no pool is refused at once, and
        // nothing else looked at.
        if at >= 8192 || choices.below(5000) == 0 {
            let _ = control.write_all_at(&lie.to_le_bytes(), at);
        }
    }
}

fn control(directory: &Path) -> File {
    let user = std::fs::read_dir(directory).expect("a root").next();
    let user = user.expect("a user").expect("read").path();
    let path = user.join("default/control");
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("a pool")
}

fn round(seed: u64) {
    let root = Root::new();
    root.ok(&["pool", "create", "default", "--size", "12M"]);
    let control = control(&root.pools());
    // Somebody is there, so that there is something to lie about.
    let _there = root.start(&["sub", "way", "--timeout", "100"]);
    let moment = Duration::from_millis(50);
    let_time_pass(
        moment,
        "mostly it takes part by then; each state may be forged",
    );
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut own = Choices::Seed(seed);
        let (control, over) = (&control, &over);
        scope.spawn(move || {
            let mut choices = Choices::Seed(seed + 1_000_000);
            while !over.load(Ordering::Relaxed) {
                scribble(control, &mut choices, 50);
                let_time_pass(Duration::from_millis(5), "the pace of forging");
            }
        });
        for command in COMMANDS {
            scribble(control, &mut own, 500);
            let ended = root.run(command);
            println!("seed {seed}, {command:?}: {:?}", ended.code);
            let fine = ended.code.is_some_and(|code| code != PANIC);
            // Or the thread goes on after a failure.
            over.fetch_or(!fine, Ordering::Relaxed);
            assert!(
                fine,
                "seed {seed}, {command:?}: {:?}: {}",
                ended.code, ended.errors
            );
            assert!(
                !ended.errors.contains("panicked"),
                "seed {seed}: {}",
                ended.errors
            );
        }
        over.store(true, Ordering::Relaxed);
    });
    root.ok(&["pool", "remove", "default", "--force"]);
}

#[test]
fn commands_answer_on_a_pool_that_is_scribbled_over() {
    let first = number("HYTHE_FUZZ_SEED", 1);
    for seed in first..first + number("HYTHE_FUZZ_ROUNDS", 3) {
        round(seed);
    }
}
