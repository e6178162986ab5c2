//! A channel from a core in one wait with others: its payload wakes, and a core that was started
//! anew is met again.

mod support;

use std::time::{Duration, Instant};

use hythe_node::{ServerOptions, SubscriberOptions, Token, WaitSet};
use support::asker::{Asker, LONG_MS, OK, answer_one, reply};
use support::{Echo, LONG, World, boards, pattern, start};

/// Waits until the core's port has something, taking from it only when it is said to be ready.
fn receive(
    wait_set: &mut WaitSet,
    token: Token,
    echo: &mut Echo,
    bound: Duration,
) -> Option<Vec<u8>> {
    let start = Instant::now();
    while start.elapsed() < bound {
        let events = wait_set.wait(bound).expect("waits");
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
fn what_a_core_sends_wakes_a_wait_set_also_after_it_was_started_anew() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        let options = SubscriberOptions::default();
        let mut idle = echo.node.subscriber("idle", &options).expect("opens");
        let mut wait_set = echo.node.wait_set().expect("made");
        wait_set.attach(&mut idle).expect("attached");
        let token = wait_set.attach(&mut echo.pong).expect("attached");
        for seed in 0..3 {
            let sent = pattern(5000, seed);
            echo.send(&sent).expect("published");
            let back = receive(&mut wait_set, token, &mut echo, LONG);
            assert!(back == Some(sent), "{}", board.name());
        }
        core.stop().expect("stopped");
        let core = start(&world, &board);
        let sent = pattern(700, 9);
        // A message that is sent before the way back has met the new core is one that nobody
        // listens for.
        let begun = Instant::now();
        let mut back = None;
        while back.as_ref() != Some(&sent) {
            assert!(begun.elapsed() < LONG, "no echo of a new core");
            let _ = echo.send(&sent);
            let bound = Duration::from_millis(200);
            back = receive(&mut wait_set, token, &mut echo, bound);
        }
        drop((wait_set, idle, echo));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn what_a_core_asks_wakes_a_wait_set() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut asker = Asker::open(&world);
        let node = hythe_rtcore::join(&world.pool, "server").expect("joins");
        let options = ServerOptions::default();
        let mut server = node.server("query", &options).expect("a server");
        asker.await_server(|| answer_one(&mut server));
        let mut wait_set = node.wait_set().expect("made");
        let token = wait_set.attach(&mut server).expect("attached");
        for id in 0..3 {
            asker.ask(LONG_MS, id, b"abc");
            let start = Instant::now();
            let request = loop {
                assert!(start.elapsed() < LONG, "nobody asks");
                let events = wait_set.wait(LONG).expect("waits");
                assert!(events.iter().all(|event| event.token() == token));
                if let Some(request) = server.try_take().expect("sound") {
                    break request;
                }
            };
            assert!(reply(&server, request).expect("replied"));
            assert_eq!(asker.outcome(), (OK, id, b"cba".to_vec()));
        }
        drop((wait_set, server, node, asker));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
