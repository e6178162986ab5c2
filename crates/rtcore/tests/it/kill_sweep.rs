//! The kill sweep of the core link: each side is killed behind each of its stores into link words.
//!
//! Behind every death: free, held and queued slots sum up, the sides meet again, nothing of the old
//! session arrives, and each surviving client is told or served. Every store that a life makes is
//! visited, or the test fails. Needs the board `hosted`: there the core, too, can be killed at a
//! store.

use crate::support;

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::asker::{Asker, DETACHED, LOST, OK, STALE, TIMEOUT, answer_one};
use crate::support::{DECODER_ENDPOINTS, Echo, LONG, Other, World, board, role, start};
use hythe_node::{Pool, ServerOptions};
use hythe_rtcore::{Board, Core, CoreOptions, control};
use hythe_testing::Polling;

/// Stores that this process still may make.
static LEFT: AtomicU64 = AtomicU64::new(0);

fn die_at_the_last() {
    if LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
        support::kill(std::process::id());
    }
}

/// In a process that is to die behind a store: from now on stores are counted.
fn count_down() {
    let stores = std::env::var("HYTHE_TEST_STORES").expect("stores");
    LEFT.store(stores.parse().expect("a number"), Ordering::SeqCst);
    hythe_rtcore::call_at_each_store(die_at_the_last);
}

fn exchange(pool: &Pool, name: &str, count: u32) {
    let mut echo = Echo::open(pool, name).expect("ports");
    for number in 0..count {
        let sent = [name.as_bytes(), &number.to_le_bytes()].concat();
        assert_eq!(echo.round_trip(&sent).to_vec(), sent);
    }
}

/// The role of a port: attaches, sends, takes, leaves.
#[test]
fn port() {
    if let Some((pool, _)) = role("port") {
        count_down();
        exchange(&pool, "victim", 3);
    }
}

/// The role of a server that a core asks: attaches, gives empty slots, answers, leaves.
#[test]
fn server() {
    if let Some((pool, _)) = role("server") {
        count_down();
        let node = hythe_rtcore::join(&pool, "server").expect("joins");
        let options = ServerOptions::default().depth(2);
        let mut server = node.server("query", &options).expect("a server");
        let mut answered = 0;
        while answered < 3 {
            answered += u32::from(answer_one(&mut server));
        }
    }
}

/// The role of an agent: starts a core, serves it, and stops it when its standard input ends.
#[test]
fn agent() {
    let Some((pool, board)) = role("agent") else {
        return;
    };
    count_down();
    let options = CoreOptions::default().start_bound(LONG);
    let core = Core::start(&pool, &board, &options).expect("core");
    let _ = std::io::read_to_string(std::io::stdin());
    core.stop().expect("stopped");
}

/// The exit code of [`core_agent`] when its core died.
const CORE_DIED: i32 = 3;

/// The role of an agent whose core is killed.
#[test]
fn core_agent() {
    let Some((pool, board)) = role("core_agent") else {
        return;
    };
    let options = CoreOptions::default().start_bound(LONG);
    let ended = Core::start(&pool, &board, &options).and_then(|core| {
        let told = std::thread::spawn(|| std::io::read_to_string(std::io::stdin()));
        // It may die before anybody has seen it up.
        while !told.is_finished() && !core.wait(Duration::from_millis(5)) {}
        core.stop()
    });
    if ended.is_err() {
        std::process::exit(CORE_DIED);
    }
}

/// Has the process made fewer stores than it may? Else it was killed behind its last.
fn finished(mut other: Other) -> bool {
    let status = other.child.wait().expect("waited");
    if !status.success() {
        assert_eq!(status.signal(), Some(9), "{status}");
    }
    status.success()
}

/// Waits until the agent's core is up, or the agent has ended. True: it is up.
fn comes_up(world: &World, agent: &mut Other) -> bool {
    let mut polling = Polling::new("the core is up, or its agent dead");
    while agent.child.try_wait().expect("asked").is_none() {
        let status = control::status(&world.pool, "hosted");
        let log = || control::log(&world.pool, "hosted");
        polling.pause_or_show(|| format!("{status:?} {:?}", log()));
        if status.is_ok_and(|status| status.endpoints.len() == DECODER_ENDPOINTS) {
            return true;
        }
    }
    false
}

#[test]
fn port_that_dies_behind_any_store_leaves_nothing() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let mut visited = 0;
    for stores in 1.. {
        let variable = Some(("HYTHE_TEST_STORES", stores));
        let victim = Other::start_with("port", &world, &board, variable);
        let is_last = finished(victim);
        exchange(&world.pool, "heir", 2);
        let mismatches = world.pool.snapshot().audit.mismatches;
        assert_eq!(mismatches, [], "store {stores}");
        if is_last {
            break;
        }
        visited = stores;
    }
    println!("{visited} stores of a port visited");
    assert!(
        visited > 50,
        "{visited}: the life of a port has more stores"
    );
    world.assert_clean();
    core.stop().expect("stopped");
    world.assert_clean();
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn server_of_a_core_that_dies_behind_any_store_leaves_nothing() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let mut asker = Asker::open(&world);
    let mut visited = 0;
    for stores in 1.. {
        let variable = Some(("HYTHE_TEST_STORES", stores));
        let mut victim = Other::start_with("server", &world, &board, variable);
        let mut id = 0;
        while victim.child.try_wait().expect("asked").is_none() {
            id += 1;
            asker.ask(200, id, b"abc");
            // One outcome for each; an echo while nobody is there.
            let (result, of, answer) = asker.outcome();
            assert_eq!(of, id, "store {stores}");
            match result {
                OK => assert_eq!(answer, b"cba"),
                LOST | TIMEOUT | DETACHED | STALE => assert_eq!(answer, b""),
                200 => assert_eq!(answer, b"abc"),
                other => panic!("store {stores}: {other}"),
            }
        }
        let mismatches = world.pool.snapshot().audit.mismatches;
        assert_eq!(mismatches, [], "store {stores}");
        if finished(victim) {
            break;
        }
        visited = stores;
    }
    println!("{visited} stores of a server visited");
    assert!(
        visited > 50,
        "{visited}: the life of a server has more stores"
    );
    let node = hythe_rtcore::join(&world.pool, "heir").expect("joins");
    let mut server = node
        .server("query", &ServerOptions::default())
        .expect("a server");
    asker.await_server(|| answer_one(&mut server));
    drop((server, node, asker));
    world.assert_clean();
    core.stop().expect("stopped");
    world.assert_clean();
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn agent_that_dies_behind_any_store_leaves_nothing() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let witness = hythe_rtcore::join(&world.pool, "witness").expect("joins");
    let mut visited = 0;
    for stores in 1.. {
        let variable = Some(("HYTHE_TEST_STORES", stores));
        let mut agent = Other::start_with("agent", &world, &board, variable);
        if comes_up(&world, &mut agent) {
            agent.close_input();
        }
        if finished(agent) {
            break;
        }
        visited = stores;
        let core = start(&world, &board);
        exchange(&world.pool, "heir", 2);
        core.stop().expect("stopped");
        world.assert_clean();
    }
    println!("{visited} stores of an agent visited");
    assert!(
        visited > 15,
        "{visited}: the life of an agent has more stores"
    );
    drop(witness);
    world.assert_clean();
}

/// Has a core die behind each of its stores, one after the other; `live` uses each that came up.
/// Returns how many stores there are.
fn die_behind_each_store(world: &World, board: &Board, mut live: impl FnMut(u64)) -> u64 {
    for stores in 1.. {
        let variable = Some(("HYTHE_CORE_STORES", stores));
        let mut agent = Other::start_with("core_agent", world, board, variable);
        if comes_up(world, &mut agent) {
            live(stores);
        }
        agent.close_input();
        let ended = agent.child.wait().expect("waited");
        let mismatches = world.pool.snapshot().audit.mismatches;
        assert_eq!(mismatches, [], "store {stores}");
        if ended.success() {
            return stores - 1;
        }
        assert_eq!(ended.code(), Some(CORE_DIED), "{ended}");
    }
    unreachable!("each life has an end")
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn core_that_dies_behind_any_store_leaves_nothing() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let mut echo = None;
    let visited = die_behind_each_store(&world, &board, |stores| {
        // Ports that live through many cores: each send and take tells of a death, or goes on.
        if echo.is_none() {
            // It may die while they are being opened.
            echo = Echo::open(&world.pool, "user").ok();
        }
        let Some(ports) = &mut echo else { return };
        for number in 0..3_u32 {
            let sent = [
                b"message ".as_slice(),
                &stores.to_le_bytes(),
                &number.to_le_bytes(),
            ];
            let _ = ports.send(&sent.concat());
            let back = ports.pong.take(Duration::from_millis(100)).expect("sound");
            if let Some(back) = back {
                assert_eq!(back.to_vec()[..16], sent.concat()[..16], "of this life");
            }
        }
    });
    let mut ports = echo.expect("ports were opened");
    let core = start(&world, &board);
    assert_eq!(ports.round_trip_anew(b"again").to_vec(), b"again");
    core.stop().expect("stopped");
    drop(ports);
    println!("{visited} stores of a core visited");
    assert!(
        visited > 100,
        "{visited}: the life of a core has more stores"
    );
    world.assert_clean();
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn core_that_asks_and_dies_behind_any_store_leaves_nothing() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let node = hythe_rtcore::join(&world.pool, "server").expect("joins");
    let options = ServerOptions::default().depth(2);
    let mut server = node.server("query", &options).expect("a server");
    let question = [&200_u32.to_le_bytes(), &[7, 0, 0, 0], b"abc".as_slice()].concat();
    let visited = die_behind_each_store(&world, &board, |_| {
        let Ok(mut echo) = Echo::open(&world.pool, "asker") else {
            return;
        };
        for _ in 0..3 {
            let _ = echo.send(&question);
            answer_one(&mut server);
            // An outcome, an echo, or nothing any more.
            let back = echo.pong.take(Duration::from_millis(100)).expect("sound");
            let back = back.map(|back| back.to_vec());
            assert!(back.is_none_or(|back| back.len() == 11 || back.len() == 8));
        }
    });
    println!("{visited} stores of a core that asks visited");
    assert!(
        visited > 150,
        "{visited}: the life of a core has more stores"
    );
    let core = start(&world, &board);
    let mut asker = Asker::open(&world);
    asker.await_server(|| answer_one(&mut server));
    drop((asker, server, node));
    core.stop().expect("stopped");
    world.assert_clean();
}
