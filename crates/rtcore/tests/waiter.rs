//! A channel from a core in one wait with others: its payload wakes, and a core that was started anew is met again.

mod support;

use std::time::{Duration, Instant};

use hythe_node::{SubscriberOptions, Token, Waiter};
use support::{Echo, LONG, World, boards, pattern, start};

/// Waits until the core's port has something, taking from it only when it is said to be ready.
fn receive(waiter: &mut Waiter, token: Token, echo: &mut Echo, bound: Duration) -> Option<Vec<u8>> {
    let start = Instant::now();
    while start.elapsed() < bound {
        let events = waiter.wait(bound).expect("waits");
        assert!(events.iter().all(|event| event.token() == token));
        if !events.is_empty()
            && let Some(sample) = echo.pong.try_take().expect("sound")
        {
            return Some(sample.to_vec());
        }
    }
    None
}

#[test]
fn what_a_core_sends_wakes_a_waiter_also_after_it_was_started_anew() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        let options = SubscriberOptions::default();
        let mut idle = echo.node.subscriber("idle", &options).expect("opens");
        let mut waiter = echo.node.waiter().expect("made");
        waiter.attach(&mut idle).expect("attached");
        let token = waiter.attach(&mut echo.pong).expect("attached");
        for seed in 0..3 {
            let sent = pattern(5000, seed);
            echo.send(&sent).expect("published");
            let back = receive(&mut waiter, token, &mut echo, LONG);
            assert!(back == Some(sent), "{}", board.name());
        }
        core.stop().expect("stopped");
        let core = start(&world, &board);
        let sent = pattern(700, 9);
        // A message that is sent before the way back has met the new core is one that nobody listens for.
        let begun = Instant::now();
        let mut back = None;
        while back.as_ref() != Some(&sent) {
            assert!(begun.elapsed() < LONG, "no echo of a new core");
            let _ = echo.send(&sent);
            let bound = Duration::from_millis(200);
            back = receive(&mut waiter, token, &mut echo, bound);
        }
        drop((waiter, idle, echo));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
