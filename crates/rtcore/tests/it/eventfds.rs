//! A doorbell whose rings do not pass the agent: processes have the two eventfds of the core.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    DECODER_ENDPOINTS, Echo, LONG, Other, World, board, eventually, exists, kill, role, start,
};
use hythe_node::{Interest, NodeError, SubscriberOptions};
use hythe_rtcore::{Board, Core, CoreError, CoreOptions, CoreState, LinkTimeouts, control};
use hythe_sys::fork::run_in_child;
use hythe_testing::{WatchedThread, watched};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};

/// The board whose doorbell is a device with events.
const BOARD: &str = "virt-a53";

/// The role of a process that runs the agent of a core that outlives it.
#[test]
fn agent() {
    let Some((pool, board)) = role("agent") else {
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop)).expect("signal");
    let options = CoreOptions::default()
        .start_bound(LONG)
        .outlives_agent(true);
    let core = Core::start(&pool, &board, &options).expect("core");
    while !stop.load(Ordering::SeqCst) && !core.wait(Duration::from_millis(20)) {}
    core.stop().expect("stopped");
}

/// An agent in another process, and its core, which goes in any case when this does.
struct Agent {
    other: Other,
    core_pid: u32,
}

impl Agent {
    fn start(world: &World, board: &Board) -> Self {
        let other = Other::start("agent", world, board);
        eventually("the core is up", || {
            let status = control::status(&world.pool, board.name());
            status.is_ok_and(|status| {
                status.link.is_some_and(|link| link.is_up())
                    && status.endpoints.len() == DECODER_ENDPOINTS
            })
        });
        let core_pid = control::status(&world.pool, BOARD).expect("up").core_pid;
        Self { other, core_pid }
    }

    fn signal(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.other.child), signal).expect("sent");
        match signal {
            Signal::KILL => drop(self.other.child.wait().expect("waited")),
            Signal::STOP => eventually("every thread of it has stopped", || self.is_stopped()),
            _ => {}
        }
    }

    fn is_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.other.child.id()));
        let mut threads = threads.expect("it is there").flatten();
        threads.all(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            status.contains("State:\tT")
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if exists(self.core_pid) {
            kill(self.core_pid);
        }
    }
}

/// Whether the core rings the ports that are attached without the agent.
fn doorbells(world: &World) -> Vec<bool> {
    let status = control::status(&world.pool, BOARD).expect("running");
    let link = status.link.expect("a link");
    let attached = link.flows.iter().filter(|flow| flow.session != 0);
    attached.map(|flow| flow.has_doorbell).collect()
}

/// Sends and takes so often, and on until a ring has ended enough sleeps. An answer that is there
/// before the sleep ends none, so how many there are is chance.
fn round_trips(echo: &mut Echo, count: u32) {
    const ENOUGH: u64 = 10;
    let (sleeps, start) = (echo.pong.sleeps(), Instant::now());
    let mut number = 0_u32;
    while number < count || echo.pong.sleeps() < sleeps + ENOUGH {
        let sent = number.to_le_bytes();
        assert_eq!(echo.round_trip(&sent).to_vec(), sent);
        number += 1;
        let rung = echo.pong.sleeps() - sleeps;
        assert!(
            start.elapsed() < LONG,
            "only {rung} sleeps were ended by a ring"
        );
    }
}

/// As [`round_trips`], where nobody rings.
fn round_trips_without_rings(echo: &mut Echo, count: u32) {
    for number in 0..count {
        let sent = number.to_le_bytes();
        assert_eq!(echo.round_trip(&sent).to_vec(), sent);
    }
}

#[test]
fn stopped_agent_is_not_in_the_wake_path() {
    let Some(board) = board(BOARD) else {
        return;
    };
    let world = World::that_never_spins();
    let mut agent = Agent::start(&world, &board);
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    echo.round_trip(b"warm");
    assert_eq!(doorbells(&world), [true, true]);
    agent.signal(Signal::STOP);
    round_trips(&mut echo, 1000);
    agent.signal(Signal::CONT);
    drop(echo);
    control::stop(&world.pool, BOARD, LONG).expect("stopped");
    world.assert_clean();
}

#[test]
fn core_goes_on_without_its_agent_until_the_next_starts_it_anew() {
    let Some(board) = board(BOARD) else {
        return;
    };
    let world = World::that_never_spins();
    let mut agent = Agent::start(&world, &board);
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    let kept = echo.round_trip(b"kept");
    // With messages on the way.
    for number in 0..20_u32 {
        echo.send(&number.to_le_bytes()).expect("sent");
    }
    agent.signal(Signal::KILL);
    while echo
        .pong
        .take(Duration::from_millis(200))
        .expect("taken")
        .is_some()
    {}
    round_trips(&mut echo, 200);
    let alone = control::status(&world.pool, BOARD).expect_err("no agent");
    assert!(
        matches!(alone, CoreError::WithoutAgent { core_pid, .. } if core_pid == agent.core_pid),
        "{alone}"
    );
    assert!(exists(agent.core_pid));

    let core = start(&world, &board);
    assert!(!exists(agent.core_pid), "two cores on one memory");
    let back = echo.round_trip_anew(b"anew");
    assert_eq!(
        (back.to_vec(), kept.to_vec()),
        (b"anew".to_vec(), b"kept".to_vec())
    );
    assert_eq!(doorbells(&world), [true, true]);
    drop((back, kept, echo));
    core.stop().expect("stopped");
    world.assert_clean();
}

#[test]
fn core_without_agent_is_stopped() {
    let Some(board) = board(BOARD) else {
        return;
    };
    let world = World::that_never_spins();
    let mut agent = Agent::start(&world, &board);
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    echo.round_trip(b"warm");
    agent.signal(Signal::KILL);
    control::stop(&world.pool, BOARD, LONG).expect("stopped");
    assert!(!exists(agent.core_pid));
    let none = control::stop(&world.pool, BOARD, LONG).expect_err("nothing runs");
    assert!(matches!(none, CoreError::NotRunning { .. }), "{none}");
    let down = echo.send(b"nobody").expect_err("down");
    assert!(matches!(down, NodeError::CoreSilent { .. }), "{down}");
    drop(echo);
    world.assert_clean();
}

#[test]
fn process_without_eventfds_rings_through_agent() {
    let Some(board) = board(BOARD) else {
        return;
    };
    let world = World::that_never_spins();
    let mut agent = Agent::start(&world, &board);
    let region = world.pool.snapshot().regions.len() - 1;
    let socket = world.pool.path().join(format!("eventfds.{region}"));
    let mode = std::fs::metadata(&socket).expect("a socket").permissions();
    assert_eq!(
        mode.mode() & 0o777,
        0o600,
        "for the owner's processes alone"
    );
    // As of an agent that knows no eventfds.
    std::fs::remove_file(&socket).expect("own");
    let mut first = Echo::open(&world.pool, "first").expect("ports");
    assert_eq!(doorbells(&world), [false, false]);
    round_trips(&mut first, 100);
    drop(first);
    agent.signal(Signal::TERM);
    assert!(agent.other.child.wait().expect("waited").success());
    world.assert_clean();

    // An agent that is stopped answers nobody; the core itself looks now and then.
    let mut agent = Agent::start(&world, &board);
    agent.signal(Signal::STOP);
    // So it is with less time to attach than an agent may take: half of it is for the core. Tried
    // less often than connections may wait for the agent: who finds no place does not wait.
    let timeouts = LinkTimeouts::default().attach(Duration::from_millis(500));
    let hasty = hythe_rtcore::join_with(&world.pool, "hasty", timeouts).expect("joins");
    let opened = (0..32).any(|_| {
        let opened = hasty.subscriber("pong", &SubscriberOptions::default());
        if let Err(error) = &opened {
            assert!(matches!(error, NodeError::CoreSilent { .. }), "{error}");
        }
        opened.is_ok()
    });
    assert!(opened, "its agent has all of its time");
    drop(hasty);
    let mut second = Echo::open(&world.pool, "second").expect("ports");
    assert_eq!(doorbells(&world), [false, false]);
    round_trips_without_rings(&mut second, 3);
    agent.signal(Signal::CONT);
    drop(second);
    let mut third = Echo::open(&world.pool, "third").expect("ports");
    assert_eq!(doorbells(&world), [true, true]);
    round_trips(&mut third, 3);
    drop(third);
    control::stop(&world.pool, BOARD, LONG).expect("stopped");
    assert_eq!(
        world
            .files()
            .iter()
            .find(|name| name.starts_with("eventfds")),
        None
    );
    world.assert_clean();
}

/// Eventfds and epoll instances of this process.
fn event_files() -> usize {
    let own = std::fs::read_dir("/proc/self/fd").expect("own");
    let kinds = own.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let event = |kind: &std::path::PathBuf| kind.to_string_lossy().starts_with("anon_inode:[event");
    kinds.filter(event).count()
}

/// A process of its own counts them: other tests of this program have some, too.
#[test]
fn restarts_and_ports_leave_no_eventfds_behind() {
    let Some(board) = board(BOARD) else {
        return;
    };
    let world = World::that_never_spins();
    let mut counter = Other::start("counter", &world, &board);
    assert!(counter.child.wait().expect("waited").success());
    world.assert_clean();
}

/// The role of a process that has a core that is killed again and again.
#[test]
fn counter() {
    let Some((pool, board)) = role("counter") else {
        return;
    };
    let options = CoreOptions::default().start_bound(LONG).restarts(3);
    let core = Core::start(&pool, &board, &options).expect("core");
    let before = event_files();
    let node = hythe_rtcore::join(&pool, "node").expect("node");
    let joined = event_files();
    // Of each participant: that which ends its watcher, the two of the core, and what one thread
    // sleeps on: an epoll instance, and the eventfd to which its bell is forwarded, twice.
    const EACH: usize = 6;
    for restarts in 0..=3 {
        let mut echo = Echo::open(&pool, "echo").expect("ports");
        echo.round_trip_anew(b"once");
        let mut other = Echo::open(&pool, "other").expect("ports");
        other.round_trip_anew(b"twice");
        let now = event_files();
        assert!(
            now > joined && now <= joined + 2 * EACH,
            "{joined}, then {now}"
        );
        if restarts == 3 {
            break;
        }
        kill(core.status().pid);
        let again = |status: &hythe_rtcore::CoreStatus| {
            status.restarts == restarts + 1 && status.state == CoreState::Up
        };
        assert!(core.wait_until(LONG, again), "{:?}", core.status());
        // With both lives behind it.
        echo.round_trip_anew(b"again");
        drop((echo, other));
        assert_eq!(event_files(), joined, "after {restarts} restarts");
    }
    drop(node);
    assert_eq!(event_files(), before);
    core.stop().expect("stopped");
}

/// One write by the core wakes all who wait for it: nobody takes it from another.
#[test]
fn every_waiter_hears_the_core() {
    let Some(board) = board(BOARD) else {
        return;
    };
    let world = World::that_never_spins();
    let core = start(&world, &board);
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    let node = hythe_rtcore::join(&world.pool, "others").expect("node");
    let options = SubscriberOptions::default().depth(4);
    let others: Vec<_> = (0..3)
        .map(|_| node.subscriber("pong", &options).expect("a port"))
        .collect();
    std::thread::scope(|scope| {
        let (watched, threads): (Vec<_>, Vec<_>) = others
            .into_iter()
            .map(|mut other| {
                let (thread, take) = watched(move || {
                    for number in 0..100_u32 {
                        let sample = other.take(LONG).expect("taken").expect("a message");
                        assert_eq!(sample.to_vec(), number.to_le_bytes());
                    }
                    other.sleeps()
                });
                (thread, scope.spawn(take))
            })
            .unzip();
        for number in 0..100_u32 {
            let back = echo.round_trip(&number.to_le_bytes());
            assert_eq!(back.to_vec(), number.to_le_bytes());
            // So that none of the others misses one.
            watched.iter().for_each(WatchedThread::until_asleep);
        }
        for thread in threads {
            let rung = thread.join().expect("done");
            assert!(rung >= 1, "only {rung} sleeps were ended by a ring");
        }
    });
    drop((echo, node));
    core.stop().expect("stopped");
    world.assert_clean();
}

/// Also where the wait set is waited for by its own descriptor, and nothing bounds that wait.
#[test]
fn wait_set_with_files_hears_the_core() {
    let Some(board) = board(BOARD) else {
        return;
    };
    let world = World::that_never_spins();
    let core = start(&world, &board);
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    let mut wait_set = echo.node.wait_set().expect("made");
    let quiet = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("made");
    let token = wait_set.attach(&mut echo.pong).expect("attached");
    wait_set
        .attach_fd(&quiet, Interest::Readable)
        .expect("attached");
    for number in 0..200_u32 {
        // Until nothing is ready: then the descriptor is not, either.
        while !wait_set.wait(Duration::ZERO).expect("waits").is_empty() {}
        echo.send(&number.to_le_bytes()).expect("sent");
        let back = loop {
            let mut ready = [PollFd::new(&wait_set, PollFlags::IN)];
            let bound = rustix::event::Timespec {
                tv_sec: LONG.as_secs() as i64,
                tv_nsec: 0,
            };
            assert_eq!(poll(&mut ready, Some(&bound)), Ok(1), "message {number}");
            let events = wait_set.wait(Duration::ZERO).expect("waits");
            assert!(events.iter().all(|event| event.token() == token));
            if let Some(back) = echo.pong.try_take().expect("sound") {
                break back;
            }
        };
        assert_eq!(back.to_vec(), number.to_le_bytes());
    }
    drop((wait_set, echo));
    core.stop().expect("stopped");
    world.assert_clean();
}

/// What the child does with its copies of epoll instances it does to the parent's.
#[test]
fn forked_child_takes_no_doorbell_away() {
    let Some(board) = board(BOARD) else {
        return;
    };
    let world = World::that_never_spins();
    let core = start(&world, &board);
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    round_trips(&mut echo, 20);
    let belongings = std::cell::RefCell::new(Some(echo));
    let child = || {
        drop(belongings.borrow_mut().take());
        0
    };
    assert_eq!(run_in_child(child).expect("forked"), 0);
    let mut echo = belongings.into_inner().expect("still here");
    round_trips(&mut echo, 200);
    drop(echo);
    core.stop().expect("stopped");
    world.assert_clean();
}
