//! Round-trip times of the echo, for orientation: `cargo test -p hythe-rtcore --release --test measure -- --ignored --nocapture`.
//! Figures that count come from `hythe bench core`.

mod support;

use std::time::{Duration, Instant};

use support::{Echo, LONG, World, boards, start};

#[test]
#[ignore = "measures, asserts nothing about time"]
fn round_trips() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        for _ in 0..1000 {
            echo.round_trip(&[0; 64]);
        }
        show(board.name(), "poll", 20_000, || {
            echo.send(&[1; 64]).expect("sent");
            let start = Instant::now();
            loop {
                if echo.pong.try_take().expect("taken").is_some() {
                    break;
                }
                assert!(start.elapsed() < LONG);
                std::hint::spin_loop();
            }
        });
        show(board.name(), "take", 20_000, || {
            drop(echo.round_trip(&[1; 64]))
        });
        show(board.name(), "bell", 500, || {
            let begin = Instant::now();
            drop(echo.round_trip(&[1; 64]));
            let took = begin.elapsed();
            // Both sides go to sleep: the next one is a ring each way.
            std::thread::sleep(Duration::from_millis(20));
            TOOK.set(Some(took));
        });
        drop(echo);
        core.stop().expect("stopped");
    }
}

thread_local! {
    static TOOK: std::cell::Cell<Option<Duration>> = const { std::cell::Cell::new(None) };
}

fn show(board: &str, wait: &str, count: usize, mut trip: impl FnMut()) {
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let begin = Instant::now();
            trip();
            TOOK.take().unwrap_or_else(|| begin.elapsed())
        })
        .collect();
    times.sort();
    let at = |share: f64| times[((count - 1) as f64 * share) as usize];
    println!(
        "{board} {wait}: min {:?} p50 {:?} p99 {:?} p99.9 {:?} max {:?}",
        times[0],
        at(0.5),
        at(0.99),
        at(0.999),
        times[count - 1]
    );
}
