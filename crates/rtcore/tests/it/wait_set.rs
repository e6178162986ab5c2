//! A channel from a core in one wait with others: its payload wakes, and a core that was started
//! anew is met again.

use std::time::{Duration, Instant};

use crate::support::asker::{Asker, LONG_MS, OK, answer_one, reply};
use crate::support::link_memory::LinkMemory;
use crate::support::{Echo, LONG, World, board, boards, pattern, signal, start};
use hythe_abi::link::core_header;
use hythe_memory::{Memory, Ordering};
use hythe_node::{
    Client, ClientOptions, NodeError, Reply, ServerOptions, SubscriberOptions, Token, WaitSet,
};
use rustix::process::Signal;

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
fn messages_of_restarted_core_wake_wait_set() {
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

/// It holds as much as it may (ADR 0022), so that more waits.
#[test]
fn what_a_subscriber_may_not_take_does_not_make_its_wait_a_spin() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        let mut wait_set = echo.node.wait_set().expect("made");
        wait_set.attach(&mut echo.pong).expect("attached");
        let (mut held, mut last) = (Vec::new(), Instant::now());
        while last.elapsed() < Duration::from_millis(300) {
            // What the core has no place for is refused, and what waits is enough.
            let _ = echo.send(&pattern(1 << 20, 0));
            if let Some(sample) = echo.pong.try_take().expect("sound") {
                held.push(sample);
                last = Instant::now();
            }
        }
        let (start, mut wakes) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(500) {
            let events = wait_set.wait(Duration::from_millis(500)).expect("waits");
            match echo.pong.try_take().expect("sound") {
                Some(late) => held.push(late),
                None => wakes += events.len(),
            }
        }
        assert!(wakes > 0, "nothing waits");
        let most = start.elapsed().as_millis() / 10;
        assert!(wakes as u128 <= most, "woken {wakes} times, at most {most}");
        held.clear();
        assert!(echo.pong.take(LONG).expect("sound").is_some());
        drop((wait_set, echo));
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

fn request(client: &mut Client, payload: &[u8]) {
    let mut lease = client.lease(payload.len()).expect("a free slot");
    lease.write(0, payload);
    client.request(lease, payload.len()).expect("asked");
}

/// What became of a request of the client, which is asked only when it is said to be ready.
fn outcome(wait_set: &mut WaitSet, client: &mut Client) -> Reply {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < LONG, "the client is not told");
        if wait_set.wait(LONG).expect("waits").is_empty() {
            continue;
        }
        if let Some(reply) = client.take(Duration::ZERO).expect("sound") {
            return reply;
        }
    }
}

#[test]
fn replies_and_session_end_of_core_wake_wait_set() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let node = hythe_rtcore::join(&world.pool, "client").expect("joins");
    let mut client = node
        .client("ask", &ClientOptions::default())
        .expect("opens");
    let mut wait_set = node.wait_set().expect("made");
    wait_set.attach(&mut client).expect("attached");
    for _ in 0..3 {
        request(&mut client, b"abc");
        let reply = outcome(&mut wait_set, &mut client)
            .outcome
            .expect("a reply");
        assert_eq!(reply.to_vec(), b"cba");
    }
    signal(core.status().pid, Signal::STOP);
    request(&mut client, b"xyz");
    // No core writes that: its agent begins a session anew.
    let link = LinkMemory::of(&world.pool, core.region());
    let state = link.layout.core_header() + core_header::STATE;
    link.words.store(state, 7, Ordering::Release);
    let told = outcome(&mut wait_set, &mut client).outcome;
    let told = told.expect_err("its session is over");
    assert!(matches!(told, NodeError::ServerLost { .. }), "{told}");
    signal(core.status().pid, Signal::CONT);
    // The steps towards the next session are taken as the wait set asks for them.
    let start = Instant::now();
    while client.servers().expect("sound") == 0 {
        assert!(start.elapsed() < LONG, "no new session");
        wait_set.wait(LONG).expect("waits");
    }
    request(&mut client, b"again");
    let reply = outcome(&mut wait_set, &mut client)
        .outcome
        .expect("a reply");
    assert_eq!(reply.to_vec(), b"niaga");
    drop((reply, wait_set, client, node));
    core.stop().expect("stopped");
    world.assert_clean();
}
