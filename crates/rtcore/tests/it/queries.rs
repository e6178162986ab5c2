//! Requests of a core, answered by Linux servers on channel `query`. A ping with a time-out and a
//! number in front is asked there while a server is attached, and what came of it is on `pong`
//! (`rtos/apps/decoder/README.md`). The servers here reply with the bytes in reverse order.

use crate::support::asker::{
    Asker, GIVEN_UP, LENGTH, LONG_MS, LOST, OK, TIMEOUT, answer_one, reply, reversed,
};
use crate::support::{LONG, Other, World, boards, eventually, kill, pattern, role, signal, start};
use hythe_node::{Node, NodeError, Pool, PortKind, Request, Server, ServerOptions};
use hythe_rtcore::{Board, Core, control};
use rustix::process::Signal;

const LARGEST: usize = 64 << 10;

fn server(node: &Node) -> Server {
    server_of(node, 4)
}

fn server_of(node: &Node, depth: u32) -> Server {
    let options = ServerOptions::default().depth(depth);
    node.server("query", &options).expect("a server")
}

/// A core that asks, and a server in this process that it has seen.
fn served(board: &Board, depth: u32) -> (World, Core, Asker, Node, Server) {
    let world = World::new();
    let core = start(&world, board);
    let mut asker = Asker::open(&world);
    let node = hythe_rtcore::join(&world.pool, "server").expect("joins");
    let mut server = server_of(&node, depth);
    asker.await_server(|| answer_one(&mut server));
    (world, core, asker, node, server)
}

fn take(server: &mut Server) -> Request {
    server.take(LONG).expect("sound").expect("a request")
}

#[test]
fn linux_server_answers_a_core_in_every_size() {
    for board in boards() {
        let (world, core, mut asker, node, mut server) = served(&board, 4);
        let sizes = [0, 1, 2, 64, 3000, 20_000, LARGEST];
        for (id, bytes) in (1..).zip(sizes) {
            let question = pattern(bytes, id.into());
            asker.ask(LONG_MS, id, &question);
            let request = take(&mut server);
            assert_eq!(request.sample().to_vec(), question);
            assert_eq!(
                request.sample().descriptor().place.region,
                core.region(),
                "uncopied"
            );
            assert_eq!(request.sample().references(), 1);
            if bytes == 3000 {
                // In the request's own buffer.
                assert!(request.reply_in_kind().expect("replied"));
                assert_eq!(asker.outcome(), (OK, id, question));
                continue;
            }
            assert!(reply(&server, request).expect("replied"));
            assert_eq!(asker.outcome(), (OK, id, reversed(&question)));
        }
        // What is too long, the core refuses itself.
        asker.ask(LONG_MS, 99, &pattern(LARGEST + 1, 9));
        assert_eq!(asker.outcome(), (LENGTH, 99, vec![]));
        assert_eq!(server.statistics().violations, 0);
        drop((server, node, asker));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn what_is_no_reply_is_refused_and_the_core_is_told() {
    for board in boards() {
        let (world, core, mut asker, node, mut server) = served(&board, 4);
        // Dropped, whole or in parts.
        asker.ask(LONG_MS, 1, b"whole");
        drop(take(&mut server));
        assert_eq!(asker.outcome(), (GIVEN_UP, 1, vec![]));
        asker.ask(LONG_MS, 2, b"in parts");
        drop(take(&mut server).into_parts());
        assert_eq!(asker.outcome(), (GIVEN_UP, 2, vec![]));
        // In a region that the core does not see, or too long.
        asker.ask(LONG_MS, 3, b"elsewhere");
        let request = take(&mut server);
        let elsewhere = node.lease(10).expect("a free slot");
        let refused = request.reply(elsewhere, 10).expect_err("not visible");
        let says = refused.to_string();
        let NodeError::RegionNotVisible { wanted, .. } = refused else {
            panic!("{says}");
        };
        assert_eq!(wanted, core.region());
        assert_eq!(asker.outcome(), (GIVEN_UP, 3, vec![]));
        asker.ask(LONG_MS, 4, b"long");
        let request = take(&mut server);
        let long = server.lease(LARGEST + 1).expect("a free slot");
        let refused = request.reply(long, LARGEST + 1).expect_err("too long");
        assert!(
            matches!(refused, NodeError::TooLargeForCore { bytes, largest, .. }
                if bytes as usize == LARGEST + 1 && largest as usize == LARGEST),
            "{refused}"
        );
        assert_eq!(asker.outcome(), (GIVEN_UP, 4, vec![]));
        asker.ask(LONG_MS, 5, b"fine");
        let (sample, responder) = take(&mut server).into_parts();
        drop(sample);
        let mut lease = responder.lease(3).expect("a free slot");
        assert_eq!(lease.region(), core.region());
        lease.write(0, b"too");
        assert!(responder.reply(lease, 3).expect("replied"));
        assert_eq!(asker.outcome(), (OK, 5, b"too".to_vec()));
        drop((server, node, asker));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn several_requests_are_open_and_answered_in_any_order() {
    for board in boards() {
        let (world, core, mut asker, node, mut server) = served(&board, 4);
        for round in 0..10 {
            let ids = (0..4).map(|number| 100 * round + number);
            ids.clone()
                .for_each(|id| asker.ask(LONG_MS, id, &id.to_le_bytes()));
            let mut requests: Vec<Request> = ids.clone().map(|_| take(&mut server)).collect();
            requests.rotate_left(round as usize % 4);
            for request in requests.into_iter().rev() {
                assert!(reply(&server, request).expect("replied"));
            }
            let mut answered: Vec<u32> = ids
                .clone()
                .map(|_| {
                    let (result, id, answer) = asker.outcome();
                    assert_eq!((result, answer), (OK, reversed(&id.to_le_bytes())));
                    id
                })
                .collect();
            answered.sort_unstable();
            assert_eq!(answered, ids.collect::<Vec<_>>());
        }
        drop((server, node, asker));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn leaving_server_costs_only_its_own_requests() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut asker = Asker::open(&world);
        let nodes = ["first", "second"].map(|name| hythe_rtcore::join(&world.pool, name));
        let nodes = nodes.map(|node| node.expect("joins"));
        let mut servers = nodes.each_ref().map(server);
        for server in &mut servers {
            assert_eq!(server.clients().expect("sound"), 1);
        }
        let [first, second] = &mut servers;
        asker.await_server(|| answer_one(first) || answer_one(second));
        // Both are asked, in turn.
        for id in 0..8 {
            asker.ask(LONG_MS, id, b"turn");
        }
        let mut requests = Vec::new();
        for server in [0, 1].repeat(4) {
            requests.push((server, take(&mut servers[server])));
        }
        for (server, request) in requests {
            assert!(reply(&servers[server], request).expect("replied"));
            assert_eq!(asker.outcome().0, OK);
        }
        // One leaves with requests: those are lost, once. The other's are answered.
        let mut taken = [vec![], vec![]];
        for id in 20.. {
            asker.ask(LONG_MS, id, b"taken");
            eventually("taken", || {
                let mut all = servers.iter_mut().zip(&mut taken);
                all.any(|(server, taken): (&mut Server, &mut Vec<Request>)| {
                    let request = server.try_take().expect("sound");
                    let is_taken = request.is_some();
                    taken.extend(request);
                    is_taken
                })
            });
            if taken.iter().all(|requests| !requests.is_empty()) {
                break;
            }
        }
        let [first, second] = servers;
        let [lost, answered] = taken;
        drop(first);
        for request in lost {
            assert_eq!(asker.outcome().0, LOST);
            assert!(!request.reply_in_kind().expect("no damage"), "nobody waits");
        }
        for request in answered {
            assert!(reply(&second, request).expect("replied"));
            assert_eq!(asker.outcome().0, OK);
        }
        drop((second, nodes, asker));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

/// A server in a process of its own: takes requests, and answers those that say "answer".
#[test]
fn other_server() {
    let Some((pool, _)) = role("other_server") else {
        return;
    };
    serve(&pool);
}

fn serve(pool: &Pool) {
    let node = hythe_rtcore::join(pool, "other").expect("joins");
    let mut server = server(&node);
    let mut kept = Vec::new();
    loop {
        let request = take(&mut server);
        let question = request.sample().to_vec();
        if question.starts_with(b"keep") {
            kept.push(request);
        } else {
            reply(&server, request).expect("replied");
        }
    }
}

#[test]
fn server_that_is_killed_or_stopped_costs_its_own_requests_only() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut asker = Asker::open(&world);
        let other = Other::start("other_server", &world, &board);
        asker.await_server_elsewhere();
        asker.ask(LONG_MS, 1, b"abc");
        assert_eq!(asker.outcome(), (OK, 1, b"cba".to_vec()));
        // Stopped with as many requests as it may have, then killed.
        let before = taken_by_servers(&world);
        for id in 2..6 {
            asker.ask(LONG_MS, id, b"keep it");
        }
        eventually("taken", || taken_by_servers(&world) == before + 4);
        let pid = other.child.id();
        signal(pid, Signal::STOP);
        asker.ask(100, 6, b"keep it");
        assert_eq!(asker.outcome(), (TIMEOUT, 6, vec![]));
        // Another one answers meanwhile.
        let node = hythe_rtcore::join(&world.pool, "server").expect("joins");
        let mut server = server(&node);
        asker.ask(LONG_MS, 7, b"xyz");
        eventually("answered", || answer_one(&mut server));
        assert_eq!(asker.outcome(), (OK, 7, b"zyx".to_vec()));
        other.kill();
        let mut lost: Vec<u32> = (2..6)
            .map(|_| {
                let (result, id, _) = asker.outcome();
                assert_eq!(result, LOST);
                id
            })
            .collect();
        lost.sort_unstable();
        assert_eq!(lost, [2, 3, 4, 5]);
        asker.ask(LONG_MS, 8, b"xyz");
        eventually("answered", || answer_one(&mut server));
        assert_eq!(asker.outcome(), (OK, 8, b"zyx".to_vec()));
        drop((server, node, asker));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

fn taken_by_servers(world: &World) -> u64 {
    let ports = world.pool.snapshot().ports.into_iter();
    let servers = ports.filter(|port| port.kind == PortKind::Server);
    servers.map(|port| port.statistics.messages).sum()
}

#[test]
fn server_without_empty_slots_is_counted() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let node = hythe_rtcore::join(&world.pool, "server").expect("joins");
        let first = server_of(&node, 1);
        let mut held = Vec::new();
        while let Ok(lease) = first.lease(LARGEST) {
            assert_eq!(lease.region(), core.region());
            held.push(lease);
        }
        let counted = || {
            let status = control::status(&world.pool, board.name());
            status.expect("its agent lives").counters.no_slot
        };
        assert_eq!(counted(), 0);
        let mut second = server_of(&node, 1);
        assert_eq!(counted(), 1);
        // Once, however often it looks.
        assert!(second.try_take().expect("sound").is_none());
        assert_eq!(counted(), 1);
        drop((first, second, held, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn late_reply_is_dropped_and_the_server_goes_on() {
    for board in boards() {
        let (world, core, mut asker, node, mut server) = served(&board, 2);
        for id in 1..20 {
            asker.ask(50, id, b"too slow");
            let late = take(&mut server);
            assert_eq!(asker.outcome(), (TIMEOUT, id, vec![]));
            assert!(reply(&server, late).expect("replied"));
        }
        asker.ask(LONG_MS, 30, b"abc");
        let request = take(&mut server);
        assert!(reply(&server, request).expect("replied"));
        assert_eq!(asker.outcome(), (OK, 30, b"cba".to_vec()));
        drop((server, node, asker));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn dead_core_leaves_no_requests_and_next_one_asks() {
    for board in boards() {
        let world = World::new();
        let node = hythe_rtcore::join(&world.pool, "server").expect("joins");
        // Before there is a core.
        let mut server = server(&node);
        let options = hythe_rtcore::CoreOptions::default();
        let options = options.start_bound(LONG).restarts(1);
        let core = hythe_rtcore::Core::start(&world.pool, &board, &options).expect("core");
        let mut asker = Asker::open(&world);
        asker.await_server(|| answer_one(&mut server));
        for id in 0..3 {
            asker.ask(LONG_MS, id, b"open");
        }
        let taken = take(&mut server);
        let pid = core.status().pid;
        kill(pid);
        assert!(core.wait_until(LONG, |status| status.pid != pid && status.restarts == 1));
        // Its number means nothing to the new core.
        eventually("the old session is over", || {
            server.try_take().expect("sound").is_none() && server.clients().expect("sound") == 1
        });
        assert!(!reply(&server, taken).expect("no damage"), "nobody asks");
        drop(asker);
        let mut asker = Asker::open(&world);
        asker.await_server(|| answer_one(&mut server));
        asker.ask(LONG_MS, 9, b"abc");
        eventually("answered", || answer_one(&mut server));
        assert_eq!(asker.outcome(), (OK, 9, b"cba".to_vec()));
        assert_eq!(server.statistics().violations, 0);
        drop((server, node, asker));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
