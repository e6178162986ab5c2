//! A hostile core: somebody scribbles over every word of the link while ports on both of its ends
//! are in use. Nobody panics or is kept for ever, and the ledger, which a core never touches, has
//! lost nothing at the end.
//!
//! Seeded: `HYTHE_FUZZ_SEED=17 HYTHE_FUZZ_ROUNDS=50 cargo test -p hythe-rtcore --test hostile`.

#[path = "../../pool/tests/hostile_peer/choices.rs"]
#[allow(dead_code, reason = "bytes are the fuzzer's")]
mod choices;
mod support;
#[path = "../../pool/tests/hostile_peer/words.rs"]
#[allow(dead_code, reason = "the words of a link are simply all of them")]
mod words;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use choices::Choices;
use hythe_memory::{Access, Mapped, Memory};
use hythe_node::{NodeError, Pool, PublisherOptions, RegionIndex, SubscriberOptions};
use hythe_rtcore::{Board, Core, CoreOptions};
use support::{Echo, LONG, World, board};

const ROUND: Duration = Duration::from_secs(2);
const TIME_LIMIT: Duration = Duration::from_millis(50);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

/// The words of a link, as the core has them.
fn link(pool: &Pool, region: RegionIndex) -> Mapped {
    let geometry = pool.region(region).expect("region");
    let place = geometry.link.expect("a link");
    let kind = if place.offset == 0 { "link" } else { "region" };
    let path = pool.path().join(format!("{kind}.{}", region.0));
    let file = std::fs::File::options().read(true).write(true).open(path);
    let bytes = place.bytes as usize;
    Mapped::file(file.expect("file"), place.offset, bytes, Access::Write).expect("mapped")
}

fn scribble(memory: &Mapped, seed: u64, over: &AtomicBool) -> u64 {
    let mut choices = Choices::Seed(seed);
    let mut scribbles = 0;
    while !over.load(Ordering::Relaxed) {
        for _ in 0..choices.below(8) {
            // The first lines of the sections are lied about as often as all the rest.
            let bytes = [memory.bytes() as u32, 1024][choices.below(2) as usize];
            let at = choices.below(bytes / 4) as usize * 4;
            let found = memory.load(at, Ordering::Relaxed);
            memory.store(at, words::lie(found, &mut choices), Ordering::Relaxed);
            scribbles += 1;
        }
        std::thread::sleep(Duration::from_micros(choices.below(30_000).into()));
    }
    scribbles
}

/// What the ports were told, and how long the longest call took.
#[derive(Debug, Default)]
struct Told {
    answers: BTreeMap<String, u32>,
    longest: Duration,
}

impl Told {
    fn note<T>(&mut self, name: &str, call: impl FnOnce() -> Result<T, NodeError>) -> Option<T> {
        let start = Instant::now();
        let outcome = call();
        self.longest = self.longest.max(start.elapsed());
        let answer = match &outcome {
            Ok(_) => name.to_owned(),
            Err(error) => {
                let said = format!("{error:?}");
                let end = said.find([' ', '{', '"']).unwrap_or(said.len());
                said[..end].to_owned()
            }
        };
        *self.answers.entry(answer).or_default() += 1;
        outcome.ok()
    }

    fn work(&mut self, echo: &mut Echo) {
        let start = Instant::now();
        while start.elapsed() < ROUND {
            if let Some(mut lease) = self.note("lease", || echo.ping.lease(1000)) {
                lease.write(0, &[1; 1000]);
                self.note("publish", || echo.ping.publish(lease, 1000));
            }
            let taken = self.note("take", || echo.pong.take(TIME_LIMIT));
            drop(taken.flatten().map(|sample| sample.to_vec()));
        }
        self.note("flush", || echo.ping.flush(TIME_LIMIT));
    }
}

fn round(board: &Board, seed: u64) {
    let world = World::new();
    let options = CoreOptions::default().start_bound(LONG);
    let core = Core::start(&world.pool, board, &options).expect("core");
    let memory = link(&world.pool, core.region());
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    echo.round_trip(b"sound so far");
    let over = AtomicBool::new(false);
    let mut told = Told::default();
    let scribbles = std::thread::scope(|scope| {
        let hostile = scope.spawn(|| scribble(&memory, seed, &over));
        told.work(&mut echo);
        over.store(true, Ordering::Relaxed);
        hostile.join().expect("no panic")
    });
    println!(
        "seed {seed} on {}: {scribbles} scribbles, {told:?}",
        board.name()
    );
    println!("  violations: {}", echo.pong.statistics().violations);
    // New ports, too, come to some end.
    let node = echo.node.clone();
    drop(echo);
    told.note("publisher", || {
        node.publisher("ping", &PublisherOptions::default())
    });
    told.note("subscriber", || {
        node.subscriber("pong", &SubscriberOptions::default())
    });
    drop(node);
    // The core may have refused to go on, or to stop when asked; then it is ended.
    let _ = core.stop();
    world.assert_clean();
}

#[test]
fn a_hostile_core_harms_nobody() {
    let Some(board) = board("hosted") else {
        return;
    };
    let first = number("HYTHE_FUZZ_SEED", 1);
    for seed in first..first + number("HYTHE_FUZZ_ROUNDS", 2) {
        let (done, ended) = channel();
        let board = board.clone();
        let played = std::thread::spawn(move || {
            round(&board, seed);
            let _ = done.send(());
        });
        // A panic ends it, too; only who is kept does not.
        let kept = ended.recv_timeout(4 * LONG);
        let is_kept = kept == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        assert!(!is_kept, "seed {seed}: somebody is kept");
        played.join().expect("no panic");
    }
}
