//! The tasks of a core that runs `p1`: listed, started, stopped and killed by name, and each
//! refusal.

use crate::support;

use std::time::Duration;

use crate::support::control::{P1, p1_boards};
use crate::support::{Echo, LONG, World, boards, eventually};
use hythe_node::{ServerOptions, Subscriber, SubscriberOptions};
use hythe_rtcore::tasks::{TaskError, TaskState, Tasks};
use hythe_rtcore::{Core, CoreError, CoreOptions};

/// What the task `spinner` takes.
const SPINNER_BUFFERS: u32 = 3;

/// The core has seen the port: it has fresh slots to fill.
fn counted(p1: &P1) -> Subscriber {
    let counted = p1.node.subscriber("count", &SubscriberOptions::default());
    counted.expect("a subscriber")
}

/// Number and argument of the next message of `counter`.
fn take(counted: &mut Subscriber) -> (u32, Vec<u8>) {
    let message = counted.take(LONG).expect("sound").expect("a message");
    let bytes = message.to_vec();
    let (number, argument) = bytes.split_first_chunk::<4>().expect("a number");
    (u32::from_le_bytes(*number), argument.to_vec())
}

#[test]
fn tasks_of_a_core_are_listed() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        p1.assert_answers();
        let tasks = p1.tasks.list().expect("a list");
        let names: Vec<&str> = tasks.iter().map(|task| &*task.name).collect();
        let expected = [
            "service", "methods", "echo", "echo", "echo", "counter", "spinner", "worker", "worker",
            "worker", "worker",
        ];
        assert_eq!(names, expected);
        let numbers: Vec<u32> = tasks.iter().map(|task| task.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let service = &tasks[0];
        assert_eq!(service.state, TaskState::Running, "it is the one that says");
        assert!(service.is_permanent && service.run_time > Duration::ZERO);
        assert!(
            tasks[1..]
                .iter()
                .all(|task| task.priority < service.priority)
        );
        for task in &tasks[..5] {
            assert_eq!((task.starts, task.kills), (1, 0), "{task:?}");
            assert!(task.state.lives(), "{task:?}");
            // Some of it is used, and some free; where a thread has the stack nobody knows.
            let used = task
                .stack_free_least_bytes
                .map(|free| task.stack_bytes - free);
            match board.name() {
                "hosted" => assert_eq!(used, None),
                _ => assert!(used.is_some_and(|used| used > 0 && used < task.stack_bytes)),
            }
        }
        for task in &tasks[5..] {
            assert_eq!((task.state, task.starts), (TaskState::Stopped, 0));
            assert_eq!(task.run_time, Duration::ZERO);
        }
        // One that waits for nothing but a message does.
        eventually("an echo waits", || {
            p1.named("echo")[0].state == TaskState::Blocked
        });
        p1.finish();
    }
}

#[test]
fn task_is_started_with_an_argument_stopped_and_started_again() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        let mut counted = counted(&p1);
        for (life, argument) in (1..).zip(["", "from Linux", &"x".repeat(63)]) {
            let number = p1.tasks.start("counter", argument).expect("started");
            let task = p1.one("counter");
            assert_eq!((task.number, task.starts), (number, life));
            assert!(task.state.lives(), "{task:?}");
            assert_eq!(take(&mut counted), (0, argument.as_bytes().to_vec()));
            assert_eq!(take(&mut counted), (1, argument.as_bytes().to_vec()));
            assert_eq!(p1.tasks.stop("counter").expect("stopped"), number);
            let task = p1.one("counter");
            assert_eq!((task.state, task.held), (TaskState::Stopped, 0));
            assert!(task.run_time > Duration::ZERO, "{task:?}");
            while counted.try_take().expect("sound").is_some() {}
        }
        // By its number, too.
        let number = p1.one("counter").number.to_string();
        p1.tasks.start(&number, "").expect("started");
        assert_eq!(take(&mut counted).0, 0);
        let killed = p1.tasks.kill(&number).expect("killed");
        assert_eq!(killed.number.to_string(), number);
        let task = p1.one("counter");
        assert_eq!((task.state, task.kills), (TaskState::Killed, 1));
        p1.tasks.start("counter", "again").expect("started");
        p1.tasks.stop("counter").expect("stopped");
        drop(counted);
        p1.finish();
    }
}

#[test]
fn each_refusal_says_why() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        let tasks = &mut p1.tasks;
        for refused in [
            tasks.start("nothing", "").map(|_| ()),
            tasks.stop("nothing").map(|_| ()),
            tasks.kill("count").map(|_| ()),
            tasks.kill("counters").map(|_| ()),
            tasks.start("99", "").map(|_| ()),
            tasks.start("0", "").map(|_| ()),
            tasks.start("4294967298", "").map(|_| ()),
        ] {
            let Err(TaskError::Unknown { known, .. }) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(
                known,
                ["service", "methods", "echo", "counter", "spinner", "worker"]
            );
        }
        let stopped = tasks.stop("counter").expect_err("it does not run");
        assert!(matches!(stopped, TaskError::NotRunning { .. }), "{stopped}");
        let killed = tasks.kill("counter").expect_err("it does not run");
        assert!(matches!(killed, TaskError::NotRunning { .. }), "{killed}");
        tasks.start("counter", "").expect("started");
        let again = tasks.start("counter", "").expect_err("it runs");
        assert!(matches!(again, TaskError::Runs { .. }), "{again}");
        let many = tasks.start("echo", "").expect_err("all run");
        assert!(
            matches!(many, TaskError::TooMany { count: 3, .. }),
            "{many}"
        );
        for permanent in [
            tasks.stop("service").map(|_| ()),
            tasks.kill("service").map(|_| ()),
            tasks.kill("methods").map(|_| ()),
        ] {
            let permanent = permanent.expect_err("the program needs it");
            assert!(
                matches!(permanent, TaskError::Permanent { .. }),
                "{permanent}"
            );
        }
        let long = tasks
            .start("spinner", &"x".repeat(64))
            .expect_err("too long");
        assert!(
            matches!(long, TaskError::ArgumentTooLong { bytes: 64, .. }),
            "{long}"
        );
        for name in [String::new(), "x".repeat(33)] {
            let bad = tasks.kill(&name).expect_err("no name");
            assert!(matches!(bad, TaskError::BadName { .. }), "{bad}");
        }
        tasks.stop("counter").expect("stopped");
        p1.assert_answers();
        p1.finish();
    }
}

#[test]
fn killed_endless_task_returns_its_buffers() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        let counted = counted(&p1);
        let options = ServerOptions::default().depth(4);
        let mut server = p1.node.server("core/asks", &options).expect("a server");
        for life in 1..=3 {
            p1.tasks.start("spinner", "").expect("started");
            eventually("it holds its buffers", || {
                p1.one("spinner").held == SPINNER_BUFFERS
            });
            let asked = server.take(LONG).expect("sound").expect("a request");
            let mut tasks = Tasks::open(&p1.world.pool, p1.core.name(), "second").expect("opens");
            tasks = tasks.with_stop_bound(Duration::from_millis(50));
            let runs = tasks.stop("spinner").expect_err("it never looks");
            assert!(matches!(runs, TaskError::StillRuns { .. }), "{runs}");
            drop(tasks);
            let task = p1.one("spinner");
            assert!(task.is_asked_to_stop && task.state.lives(), "{task:?}");
            p1.assert_answers();
            let killed = p1.tasks.kill("spinner").expect("killed");
            assert_eq!(
                (killed.buffers_returned, killed.requests_forgotten),
                (SPINNER_BUFFERS, 1)
            );
            let task = p1.one("spinner");
            assert_eq!((task.state, task.held), (TaskState::Killed, 0));
            assert_eq!((task.starts, task.kills), (life, life));
            assert_eq!(task.buffers_returned, life * SPINNER_BUFFERS);
            assert_eq!(task.requests_forgotten, life);
            // The reply comes too late, and is dropped.
            drop(asked);
            p1.assert_answers();
        }
        drop((counted, server));
        p1.finish();
    }
}

#[test]
fn echo_that_is_killed_leaves_the_others_to_answer() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        let mut echo = Echo::open(&p1.world.pool, "pinging").expect("ports");
        assert_eq!(echo.round_trip(b"three answer").to_vec(), b"three answer");
        let first = p1.tasks.kill("echo").expect("killed").number;
        let second = p1.tasks.kill("echo").expect("killed").number;
        assert_ne!(first, second);
        for number in 0..20_u8 {
            assert_eq!(echo.round_trip(&[number; 100]).to_vec(), [number; 100]);
        }
        assert_eq!(p1.tasks.start("echo", "").expect("started"), first);
        p1.tasks.stop(&first.to_string()).expect("stopped");
        let states: Vec<TaskState> = p1.named("echo").iter().map(|task| task.state).collect();
        assert_eq!(states[..2], [TaskState::Stopped, TaskState::Killed]);
        assert!(states[2].lives());
        assert_eq!(echo.round_trip(b"one answers").to_vec(), b"one answers");
        drop(echo);
        p1.finish();
    }
}

#[test]
fn core_tells_the_registers_of_its_link() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        let mut echo = Echo::open(&p1.world.pool, "pinging").expect("ports");
        for _ in 0..5 {
            echo.round_trip(b"counted");
        }
        let seen = p1.tasks.registers().expect("registers");
        let status = hythe_rtcore::control::status(&p1.world.pool, p1.core.name());
        let link = status.expect("a status").link.expect("a link");
        assert!(seen.is_up && seen.rings > 0);
        assert_eq!(seen.session, link.core_session);
        assert_eq!(seen.linux_session, link.linux_session);
        // Number 3 is `ping`, number 4 `pong`.
        let port = |endpoint| {
            let mut ports = seen.ports.iter();
            *ports
                .find(|port| port.endpoint == endpoint)
                .expect("attached")
        };
        assert_eq!((port(3).inbox_head, port(3).held), (5, 0));
        assert_eq!((port(4).outbox_tail, port(4).held), (5, 0));
        assert!(port(3).session != 0 && !port(3).is_quarantined && !port(4).is_late);
        drop(echo);
        p1.finish();
    }
}

#[test]
fn shutdown_stops_what_was_started_by_name() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        let counted = counted(&p1);
        p1.tasks.start("counter", "").expect("started");
        let shut = p1.tasks.shut_down().expect("shut down");
        assert_eq!(shut.stopped, 1);
        assert_eq!(p1.one("counter").state, TaskState::Stopped);
        assert!(p1.named("echo").iter().all(|task| task.state.lives()));
        assert_eq!(p1.tasks.shut_down().expect("shut down").stopped, 0);
        p1.assert_answers();
        drop(counted);
        p1.finish();
    }
}

#[test]
fn core_without_control_differs_from_missing_core() {
    for board in boards() {
        if !board.apps().iter().any(|app| app == "bench") {
            continue;
        }
        let world = World::new();
        let missing = Tasks::open(&world.pool, board.name(), "control").expect_err("no core");
        assert!(
            matches!(missing, TaskError::Core(CoreError::NotRunning { .. })),
            "{missing}"
        );
        let options = CoreOptions::default().start_bound(LONG).app("bench");
        let core = Core::start(&world.pool, &board, &options).expect("core");
        let without = Tasks::open(&world.pool, board.name(), "control").expect_err("none");
        let says = without.to_string();
        assert!(
            says.contains("program `bench`") && says.contains("no endpoint `core/control`"),
            "{says}"
        );
        core.stop().expect("stopped");
    }
}

#[test]
fn tasks_of_the_default_program_are_listed_and_stay() {
    for board in boards() {
        let world = World::new();
        let core = support::start(&world, &board);
        let tasks = Tasks::open(&world.pool, board.name(), "control").expect("control");
        let mut tasks = tasks.with_bound(LONG);
        let listed = tasks.list().expect("a list");
        let names: Vec<&str> = listed.iter().map(|task| &*task.name).collect();
        assert_eq!(names, ["service", "decode", "echo", "answer", "reply"]);
        assert!(
            listed
                .iter()
                .all(|task| task.is_permanent && task.starts == 1)
        );
        for name in names {
            let stays = tasks.kill(name).expect_err("the others need it");
            assert!(matches!(stays, TaskError::Permanent { .. }), "{stays}");
        }
        drop(tasks);
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
