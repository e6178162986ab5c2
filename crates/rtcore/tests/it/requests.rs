//! Requests that a core answers, over channel `ask`: a reply has the bytes of its request in
//! reverse order, and an empty request gets none.

use std::time::{Duration, Instant};

use crate::support::link_memory::LinkMemory;
use crate::support::{LONG, World, board, boards, eventually, kill, pattern, signal, start};
use hythe_abi::link::core_header;
use hythe_memory::{Memory, Ordering};
use hythe_node::{Client, ClientOptions, Node, NodeError, ServerLoss};
use hythe_rtcore::{Core, CoreOptions, LinkTimeouts, control};
use hythe_testing::Polling;
use rustix::process::Signal;

fn client(node: &Node) -> Client {
    let options = ClientOptions::default();
    node.client("ask", &options).expect("a client")
}

fn ask(client: &mut Client, payload: &[u8]) -> Result<Vec<u8>, NodeError> {
    let mut lease = client.lease(payload.len())?;
    lease.write(0, payload);
    let reply = client.call(lease, payload.len(), LONG)?;
    Ok(reply.to_vec())
}

fn reversed(payload: &[u8]) -> Vec<u8> {
    payload.iter().rev().copied().collect()
}

#[test]
fn client_that_waits_for_a_silent_core_keeps_no_other_waiting() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let start_as = |name| {
        let options = CoreOptions::default().start_bound(LONG).name(name);
        Core::start(&world.pool, &board, &options).expect("core")
    };
    let (silent, sound) = (start_as("silent"), start_as("sound"));
    let timeouts = LinkTimeouts::default().attach(LONG / 2);
    let node = hythe_rtcore::join_with(&world.pool, "clients", timeouts).expect("joins");
    let open = |channel| node.client(channel, &ClientOptions::default());
    signal(silent.status().pid, Signal::STOP);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| open("silent/ask").expect("a client"));
        eventually("its session is proposed", || {
            let status = control::status(&world.pool, "silent").expect("its agent lives");
            let flows = status.link.map(|link| link.flows).unwrap_or_default();
            flows.iter().any(|flow| flow.session != 0)
        });
        let mut client = open("sound/ask").expect("a client");
        assert!(!waits.is_finished(), "it waited as long");
        assert_eq!(ask(&mut client, b"abc").expect("a reply"), b"cba");
        signal(silent.status().pid, Signal::CONT);
        let mut client = waits.join().expect("opens");
        assert_eq!(ask(&mut client, b"xyz").expect("a reply"), b"zyx");
    });
    drop(node);
    silent.stop().expect("stopped");
    sound.stop().expect("stopped");
    world.assert_clean();
}

#[test]
fn client_calls_end_in_time_beside_silent_core() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let short = Duration::from_millis(100);
    // What none of the calls may wait for.
    let attach = LONG / 2;
    let timeouts = LinkTimeouts::default().attach(attach);
    let node = hythe_rtcore::join_with(&world.pool, "client", timeouts).expect("joins");
    let options = ClientOptions::default().send_timeout(short);
    let mut client = node.client("ask", &options).expect("a client");
    let core = start(&world, &board);
    signal(core.status().pid, Signal::STOP);
    let start = Instant::now();
    assert_eq!(client.servers().expect("sound"), 0);
    assert!(start.elapsed() < attach, "{:?}", start.elapsed());
    for _ in 0..2 {
        assert!(!client.wait_for_servers(1, short).expect("sound"));
        assert!(client.take(short).expect("sound").is_none());
        let silent = ask(&mut client, b"abc").expect_err("it is stopped");
        assert!(matches!(silent, NodeError::CoreSilent { .. }), "{silent}");
        assert!(silent.to_string().contains("is stopped"), "{silent}");
    }
    // Where the core will see it, and with space for its reply.
    let mut lease = client.lease(3).expect("a free slot");
    assert_eq!(lease.region(), core.region());
    assert!(lease.capacity() >= 1 << 16, "{}", lease.capacity());
    assert!(start.elapsed() < attach, "{:?}", start.elapsed());
    signal(core.status().pid, Signal::CONT);
    assert!(client.wait_for_servers(1, LONG).expect("sound"));
    lease.write(0, b"abc");
    let reply = client.call(lease, 3, LONG).expect("a reply");
    assert_eq!(reply.to_vec(), b"cba");
    drop((reply, client, node));
    core.stop().expect("stopped");
    world.assert_clean();
}

#[test]
fn ended_session_is_reported_and_core_answers_in_next() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let pid = core.status().pid;
    let node = hythe_rtcore::join(&world.pool, "client").expect("joins");
    let mut client = client(&node);
    assert_eq!(ask(&mut client, b"abc").expect("a reply"), b"cba");
    signal(pid, Signal::STOP);
    let mut lease = client.lease(3).expect("a free slot");
    lease.write(0, b"xyz");
    let lost = client.request(lease, 3).expect("asked");
    // No core writes that: its agent begins a session anew.
    let link = LinkMemory::of(&world.pool, core.region());
    let state = link.layout.core_header() + core_header::STATE;
    link.words.store(state, 7, Ordering::Release);
    let told = client.wait(lost, LONG).expect_err("its session is over");
    assert!(matches!(told, NodeError::ServerLost { .. }), "{told}");
    signal(pid, Signal::CONT);
    assert!(client.wait_for_servers(1, LONG).expect("sound"));
    assert_eq!(ask(&mut client, b"again").expect("a reply"), b"niaga");
    assert_eq!(core.status().pid, pid, "the core's process is the same");
    drop((client, node));
    core.stop().expect("stopped");
    world.assert_clean();
}

#[test]
fn core_answers_every_size() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let node = hythe_rtcore::join(&world.pool, "client").expect("joins");
        let mut client = client(&node);
        for (round, bytes) in [1, 2, 64, 3000, 20_000, 1 << 16].into_iter().enumerate() {
            let payload = pattern(bytes, round as u64);
            let mut lease = client.lease(bytes).expect("a free slot");
            assert_eq!(lease.region(), core.region());
            lease.write(0, &payload);
            let reply = client.call(lease, bytes, LONG).expect("a reply");
            assert_eq!(reply.descriptor().place.region, core.region());
            assert_eq!(reply.to_vec(), reversed(&payload));
        }
        // None is promised for an empty one.
        let none = ask(&mut client, b"").expect_err("no reply");
        assert!(matches!(none, NodeError::Unanswered { .. }), "{none}");
        let says = none.to_string();
        assert!(says.contains("the core behind `ask`"), "{says}");
        // What is elsewhere, or too large, is refused with values.
        let elsewhere = node.lease(10).expect("a free slot");
        let elsewhere = client.request(elsewhere, 10).expect_err("not visible");
        assert!(
            matches!(elsewhere, NodeError::RegionNotVisible { .. }),
            "{elsewhere}"
        );
        let large = client.lease((1 << 16) + 1).expect("a free slot");
        let large = client.request(large, (1 << 16) + 1).expect_err("too large");
        assert!(
            matches!(large, NodeError::TooLargeForCore { .. }),
            "{large}"
        );
        assert_eq!(ask(&mut client, b"fine").expect("a reply"), b"enif");
        drop((client, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn eight_clients_ask_at_once_and_each_gets_its_own_replies() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let nodes: Vec<Node> = (0..8)
            .map(|number| hythe_rtcore::join(&world.pool, &format!("client {number}")))
            .map(|node| node.expect("joins"))
            .collect();
        let mut clients: Vec<Client> = nodes.iter().map(client).collect();
        for round in 0..10_u32 {
            let mut pending = Vec::new();
            for (number, client) in clients.iter_mut().enumerate() {
                for part in 0..2_u32 {
                    let payload = format!("{round} {number} {part}").into_bytes();
                    let mut lease = client.lease(payload.len()).expect("a free slot");
                    lease.write(0, &payload);
                    let request = client.request(lease, payload.len()).expect("asked");
                    pending.push((number, request, payload));
                }
            }
            for (number, request, payload) in pending.into_iter().rev() {
                let reply = clients[number].wait(request, LONG).expect("sound");
                let reply = reply.expect("a reply");
                assert_eq!(reply.to_vec(), reversed(&payload));
            }
        }
        drop((clients, nodes));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn core_that_dies_tells_its_clients_and_the_next_one_answers() {
    for board in boards() {
        let world = World::new();
        let node = hythe_rtcore::join(&world.pool, "client").expect("joins");
        let mut client = client(&node);
        let none = ask(&mut client, b"too early").expect_err("no server");
        assert!(matches!(none, NodeError::NoServer { .. }), "{none}");
        let options = CoreOptions::default().start_bound(LONG).restarts(1);
        let core = Core::start(&world.pool, &board, &options).expect("core");
        assert!(client.wait_for_servers(1, LONG).expect("sound"));
        assert_eq!(ask(&mut client, b"abc").expect("a reply"), b"cba");

        let pid = core.status().pid;
        // Stopped first, so that it dies with what it was asked.
        signal(pid, Signal::STOP);
        let mut lease = client.lease(3).expect("a free slot");
        lease.write(0, b"xyz");
        let lost = client.request(lease, 3).expect("asked");
        kill(pid);
        let told = client.wait(lost, LONG).expect_err("its server is lost");
        assert!(
            matches!(
                told,
                NodeError::ServerLost {
                    reason: ServerLoss::Went,
                    ..
                }
            ),
            "{told}"
        );
        assert!(core.wait_until(LONG, |status| status.pid != pid && status.restarts == 1));
        let mut polling = Polling::new("an answer of the next core");
        loop {
            match ask(&mut client, b"again") {
                Ok(reply) => break assert_eq!(reply, b"niaga"),
                Err(NodeError::NoServer { .. } | NodeError::ServerLost { .. }) => {
                    polling.pause();
                }
                Err(other) => panic!("{other}"),
            }
        }
        drop((client, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
