//! A core that is killed and started again: ports meet it again by themselves, no old message
//! arrives, no slot is lost.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{Echo, LONG, World, boards, eventually, exists, kill, other_boards, start};
use hythe_node::{NodeError, PublisherOptions, SubscriberOptions};
use hythe_rtcore::{Board, Core, CoreError, CoreOptions, CoreState};
use hythe_testing::let_time_pass;

/// Which life of the core a message was sent in, and its number.
fn tagged(life: u32, number: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&life.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Of the core: the first, and one after each kill.
const LIVES: usize = 4;

#[test]
fn killed_core_comes_back_without_its_past() {
    for board in boards() {
        kill_and_restart(&board);
    }
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn other_boards_come_back_without_their_past() {
    for board in other_boards() {
        kill_and_restart(&board);
    }
}

fn kill_and_restart(board: &Board) {
    const KILLS: u32 = LIVES as u32 - 1;
    let world = World::new();
    let options = CoreOptions::default().start_bound(LONG).restarts(KILLS);
    let core = Core::start(&world.pool, board, &options).expect("core");
    let (life, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let received: [AtomicU32; LIVES] = Default::default();
    let is_used = |life: u32| {
        let count = || received[life as usize].load(Ordering::SeqCst);
        eventually("messages of this life come back", || count() > 20);
    };
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send_until(&world, &life, &over));
        let receiver = scope.spawn(|| receive_until(&world, &life, &over, &received));
        for kills in 1..=KILLS {
            // With messages in flight: the sender keeps the window full.
            is_used(kills - 1);
            let pid = core.status().pid;
            kill(pid);
            eventually("the core is dead", || !exists(pid));
            // From here on, whatever was sent before is of an old life.
            life.store(kills, Ordering::SeqCst);
            let again = |status: &hythe_rtcore::CoreStatus| {
                status.restarts == kills && status.state == CoreState::Up && status.pid != pid
            };
            assert!(core.wait_until(LONG, again), "{:?}", core.status());
        }
        is_used(KILLS);
        over.store(true, Ordering::SeqCst);
        let sent = sender.join().expect("sender");
        receiver.join().expect("receiver");
        eprintln!(
            "{}: sent {sent:?}, received {received:?} by life",
            board.name()
        );
    });
    core.stop().expect("stopped");
    world.assert_clean();
}

/// Sends without a pause; returns how much in each life.
fn send_until(world: &World, life: &AtomicU32, over: &AtomicBool) -> Vec<u32> {
    let node = hythe_rtcore::join(&world.pool, "sender").expect("node");
    let mut ping = node
        .publisher("ping", &PublisherOptions::default())
        .expect("port");
    let mut sent = vec![0; LIVES];
    let mut number = 0;
    while !over.load(Ordering::SeqCst) {
        // Read before the lease: a message carries the life it was begun in, or an earlier one,
        // never a later.
        let now = life.load(Ordering::SeqCst);
        let mut lease = match ping.lease(8) {
            Ok(lease) => lease,
            Err(NodeError::Pool(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        number += 1;
        lease.write(0, &tagged(now, number));
        match ping.publish(lease, 8) {
            Ok(_) => sent[now as usize] += 1,
            // The core is down: it will be back.
            Err(NodeError::CoreSilent { .. }) => {
                let_time_pass(Duration::from_millis(1), "between two tries");
            }
            Err(error) => panic!("{error}"),
        }
    }
    sent
}

/// Takes what comes, and counts it by the life it is of; a message must be of the life in which it
/// was handed to the core.
fn receive_until(
    world: &World,
    life: &AtomicU32,
    over: &AtomicBool,
    received: &[AtomicU32; LIVES],
) {
    let node = hythe_rtcore::join(&world.pool, "receiver").expect("node");
    let mut pong = node
        .subscriber("pong", &SubscriberOptions::default())
        .expect("port");
    let mut session = 0;
    let mut last = (0, 0);
    while !over.load(Ordering::SeqCst) {
        let before = life.load(Ordering::SeqCst);
        let Some(sample) = pong.take(Duration::from_millis(20)).expect("taken") else {
            continue;
        };
        let mut bytes = [0; 8];
        sample.read(0, &mut bytes);
        let [life_at_send, number] =
            [0, 4].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")));
        received[life_at_send as usize].fetch_add(1, Ordering::SeqCst);
        assert!(
            (life_at_send, number) > last,
            "nothing comes twice, and nothing goes back"
        );
        last = (life_at_send, number);
        if life_at_send > session {
            session = life_at_send;
        }
        // A message of a life that had ended before this take began could only come out of a dead
        // core's queue. One exception: it was leased before the core died and published after the
        // next had started.
        if before > life_at_send {
            assert!(
                before - life_at_send == 1,
                "life {life_at_send} in life {before}"
            );
        }
    }
    assert_eq!(pong.statistics().violations, 0);
}

#[test]
fn entries_of_dead_core_are_not_read() {
    for board in boards() {
        let world = World::new();
        let options = CoreOptions::default().start_bound(LONG).restarts(1);
        let core = Core::start(&world.pool, &board, &options).expect("core");
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        echo.round_trip(b"warm");
        for number in 0..20 {
            echo.send(&tagged(0, number)).expect("sent");
        }
        // All of them have come back by now, and nobody has taken one.
        echo.ping.flush(LONG).expect("flushed");
        let pid = core.status().pid;
        kill(pid);
        let again = |status: &hythe_rtcore::CoreStatus| {
            status.restarts == 1 && status.state == CoreState::Up
        };
        assert!(core.wait_until(LONG, again), "{:?}", core.status());
        let back = echo.round_trip_anew(&tagged(1, 0));
        assert_eq!(back.to_vec(), tagged(1, 0));
        assert_eq!(
            echo.pong.statistics().messages,
            2,
            "nothing of the old life was taken"
        );
        drop((back, echo));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn without_leave_to_restart_the_agent_ends_and_says_why() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        echo.round_trip(b"warm");
        kill(core.status().pid);
        assert!(core.wait(LONG));
        let status = core.status();
        assert_eq!(status.state, CoreState::Stopped);
        assert!(
            status
                .reason
                .is_some_and(|reason| reason.contains("SIGKILL"))
        );
        let down = echo.send(b"nobody").expect_err("down");
        assert!(matches!(down, NodeError::CoreSilent { .. }), "{down}");
        assert!(
            echo.pong
                .take(Duration::from_millis(50))
                .expect("nothing")
                .is_none()
        );
        let error = core.stop().expect_err("it had died");
        assert!(
            matches!(&error, CoreError::Died { how, .. } if how.contains("SIGKILL")),
            "{error}"
        );
        drop(echo);
        world.assert_clean();
    }
}
