//! Processes that are killed: the Linux side of a core, and its agent.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{
    DECODER_ENDPOINTS, Echo, LONG, Other, World, boards, eventually, exists, pattern, role, start,
};
use hythe_rtcore::{Core, CoreError, CoreOptions, control};
use hythe_testing::let_time_pass;

/// The role of a process that sends and takes without a pause, until it is killed.
#[test]
fn linux_side() {
    let Some((pool, _)) = role("linux_side") else {
        return;
    };
    let mut echo = Echo::open(&pool, "victim").expect("ports");
    let mut number = 0_u64;
    loop {
        number += 1;
        // More on the way than are taken, so that there always is something in every queue.
        let _ = echo.send(&[b"old ", number.to_le_bytes().as_slice()].concat());
        if number.is_multiple_of(3) {
            let _ = echo.pong.take(Duration::from_millis(1));
        }
    }
}

/// The role of a process that runs the agent, until it is killed or told to stop.
#[test]
fn agent() {
    let Some((pool, board)) = role("agent") else {
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop)).expect("signal");
    let options = CoreOptions::default().start_bound(LONG);
    let core = Core::start(&pool, &board, &options).expect("core");
    while !stop.load(Ordering::SeqCst) && !core.wait(Duration::from_millis(20)) {}
    core.stop().expect("stopped");
    std::io::stdout().flush().expect("flushed");
}

/// Moment at which a victim dies amid its work.
const IN_THE_MIDDLE: Duration = Duration::from_millis(200);

fn is_attached(world: &World, name: &str) -> bool {
    let snapshot = world.pool.snapshot();
    let attached = snapshot
        .channels
        .iter()
        .flat_map(|channel| channel.attached.into_iter().flatten());
    let names =
        attached.filter_map(|index| snapshot.members.iter().find(|member| member.index == index));
    names.filter(|member| member.name == name).count() == 2
}

#[test]
fn killed_linux_side_leaves_the_endpoints_to_the_next() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        for round in 0..3 {
            let victim = Other::start("linux_side", &world, &board);
            eventually("the victim is attached", || is_attached(&world, "victim"));
            let_time_pass(IN_THE_MIDDLE, "amid its work; each moment is sound");
            victim.kill();
            // The endpoints are free as soon as a living participant has recovered the dead one.
            let mut echo = None;
            eventually("the endpoints are free", || {
                echo = Echo::open(&world.pool, "heir").ok();
                echo.is_some()
            });
            let mut echo = echo.expect("ports");
            for number in 0..100_u32 {
                let sent = [b"new ".as_slice(), &number.to_le_bytes()].concat();
                let back = echo.round_trip(&sent);
                assert_eq!(back.to_vec(), sent, "round {round}: no old message");
            }
            assert_eq!(echo.pong.statistics().violations, 0);
            let mismatches = world.pool.snapshot().audit.mismatches;
            assert_eq!(mismatches, []);
        }
        // While the core lives: also what the heirs had is back.
        world.assert_clean();
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn agent_reclaims_buffers_without_heir() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let victim = Other::start("linux_side", &world, &board);
        eventually("the victim is attached", || is_attached(&world, "victim"));
        let_time_pass(IN_THE_MIDDLE, "amid its work; each moment is sound");
        victim.kill();
        // Its own buffers and those it had lent to the core.
        world.assert_clean();
        // And the core is as good as before.
        let mut echo = Echo::open(&world.pool, "later").expect("ports");
        assert_eq!(echo.round_trip(b"later").to_vec(), b"later");
        drop(echo);
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn killed_agent_takes_its_core_along_and_the_next_starts() {
    for board in boards() {
        let world = World::new();
        // A living participant, to recover the dead.
        let node = hythe_rtcore::join(&world.pool, "witness").expect("node");
        let agent = Other::start("agent", &world, &board);
        eventually("the core is up", || is_up(&world, board.name()));
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        let kept = echo.round_trip(&pattern(3000, 7));
        for number in 0..30_u32 {
            let _ = echo.send(&number.to_le_bytes());
        }
        let core_pid = control::status(&world.pool, board.name())
            .expect("status")
            .core_pid;
        assert!(exists(core_pid));
        agent.kill();
        eventually("the core died with its agent", || !exists(core_pid));
        // The last of its threads may take a moment longer.
        eventually("neither runs", || {
            let down = control::status(&world.pool, board.name()).expect_err("down");
            matches!(down, CoreError::NotRunning { .. })
        });

        let core = start(&world, &board);
        let back = echo.round_trip_anew(b"anew");
        assert_eq!(back.to_vec(), b"anew");
        assert!(
            kept.to_vec() == pattern(3000, 7),
            "a kept sample is still what it was"
        );
        drop((kept, back, echo));
        world.assert_clean();
        core.stop().expect("stopped");
        drop(node);
        world.assert_clean();
    }
}

fn is_up(world: &World, board: &str) -> bool {
    control::status(&world.pool, board).is_ok_and(|status| {
        status.link.is_some_and(|link| link.is_up()) && status.endpoints.len() == DECODER_ENDPOINTS
    })
}

#[test]
fn agent_elsewhere_is_seen_and_stopped() {
    for board in boards() {
        let world = World::new();
        let name = board.name();
        let nothing = control::stop(&world.pool, name, LONG).expect_err("nothing runs");
        assert!(matches!(nothing, CoreError::NotRunning { .. }), "{nothing}");
        let mut agent = Other::start("agent", &world, &board);
        eventually("the core is up", || is_up(&world, name));
        let status = control::status(&world.pool, name).expect("status");
        assert_eq!(status.agent.identity.pid, agent.child.id());
        assert!(exists(status.core_pid));
        assert_eq!(status.link.expect("link").name, "decoder");
        let channels: Vec<_> = status
            .endpoints
            .iter()
            .map(|endpoint| endpoint.channel.as_str())
            .collect();
        assert_eq!(
            channels,
            [
                "mp3",
                "pcm",
                "ping",
                "pong",
                "knock",
                "answer",
                "ask",
                "query",
                "core/control"
            ]
        );
        assert!(
            status
                .endpoints
                .iter()
                .all(|endpoint| endpoint.attached.is_empty())
        );

        let echo = Echo::open(&world.pool, "user").expect("ports");
        let status = control::status(&world.pool, name).expect("status");
        let pong = status
            .endpoints
            .iter()
            .find(|endpoint| endpoint.channel == "pong")
            .expect("pong");
        assert!(
            pong.attached.iter().any(|by| by.starts_with("user (pid")),
            "{pong:?}"
        );
        assert!(pong.held > 0, "the core has empty slots");

        let twice = Core::start(&world.pool, &board, &CoreOptions::default()).expect_err("twice");
        let says = twice.to_string();
        assert!(matches!(twice, CoreError::AlreadyRunning { .. }), "{says}");
        assert!(
            says.contains(&format!("agent-{name} (pid {})", agent.child.id())),
            "{says}"
        );

        let core_pid = status.core_pid;
        control::stop(&world.pool, name, LONG).expect("stopped");
        assert!(!exists(core_pid));
        assert!(
            agent.child.wait().expect("waited").success(),
            "it ended in order"
        );
        let log = control::log(&world.pool, name).expect("log");
        assert!(
            log.contains("link session") && log.contains("agent: the core ended"),
            "{log}"
        );
        drop(echo);
        world.assert_clean();
    }
}
