//! Words of a link that were overwritten: what Linux says of it, what it counts, and that the link
//! comes back by itself, with the same process of the core.

use crate::support;

use std::time::Duration;

use crate::support::link_memory::LinkMemory;
use crate::support::{Echo, LONG, World, board, boards, eventually, kill, signal, start};
use hythe_abi::link::{Flow, core_header, endpoint_record, flow_line, linux_header};
use hythe_memory::{Memory, Ordering};
use hythe_node::{NodeError, PublisherOptions, SubscriberOptions};
use hythe_rtcore::{Board, Core, LinkTimeouts, ViolatedWord, Violation, control};
use rustix::process::Signal;

/// Writes a word, and says what stood there.
fn write(link: &LinkMemory, at: usize, value: u32) -> u32 {
    let before = link.words.load(at, Ordering::Acquire);
    link.words.store(at, value, Ordering::Release);
    before
}

/// Where a word of the core's header is.
fn header(link: &LinkMemory, at: usize) -> usize {
    link.layout.core_header() + at
}

fn counters(world: &World, board: &str) -> hythe_rtcore::CoreCounters {
    let status = control::status(&world.pool, board).expect("it runs");
    status.counters
}

/// `pong` of the decoder is its fourth endpoint, `ping` its third.
const PING: usize = 2;
const PONG: usize = 3;

/// Where a word is, what is written over it, and as what Linux sees that.
type Case = (usize, u32, ViolatedWord);

/// Each word of a kind that the agent looks after.
fn cases(link: &LinkMemory) -> [Case; 8] {
    let record = link.layout.endpoint_record(PONG);
    // Nobody uses port 7 of `ping`.
    let unused = link.layout.core_flow(Flow {
        endpoint: PING,
        port: 7,
    });
    let echo = unused + flow_line::SESSION;
    [
        (header(link, core_header::STATE), 7, ViolatedWord::State),
        (header(link, core_header::ECHO), 99_999, ViolatedWord::Echo),
        (header(link, core_header::MAGIC), 0, ViolatedWord::Magic),
        (header(link, core_header::VERSION), 3, ViolatedWord::Version),
        (record + endpoint_record::KIND, 2, ViolatedWord::Record),
        (echo, u32::MAX, ViolatedWord::FlowEcho),
        (linux_header::CAPACITY, 0, ViolatedWord::LinuxSection),
        (linux_header::SESSION, 12, ViolatedWord::LinuxSection),
    ]
}

fn overwrite_and_heal(board: &Board, case: usize) {
    let world = World::new();
    let core = start(&world, board);
    let pid = core.status().pid;
    let link = LinkMemory::of(&world.pool, core.region());
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    echo.round_trip(b"before");
    let (at, value, word) = cases(&link)[case];
    write(&link, at, value);
    eventually("the agent begins a new session", || {
        counters(&world, board.name()).renewals > 0
    });
    let seen = Violation::last_of(&counters(&world, board.name())).expect("counted");
    assert_eq!(seen.word, word, "{}: {seen}", board.name());
    assert_eq!(echo.round_trip_anew(b"after").to_vec(), b"after");
    assert_eq!(core.status().pid, pid, "the core's process is the same");
    assert_eq!(core.status().restarts, 0);
    assert_eq!(rings_by_itself(&world, board), board.has_eventfds());
    drop(echo);
    core.stop().expect("stopped");
    world.assert_clean();
}

/// Does the core ring all who are attached without its agent?
fn rings_by_itself(world: &World, board: &Board) -> bool {
    let status = control::status(&world.pool, board.name()).expect("it runs");
    let flows = status.link.expect("a link").flows;
    let mut attached = flows.iter().filter(|flow| flow.session != 0);
    attached.all(|flow| flow.has_doorbell)
}

#[test]
fn what_was_overwritten_is_named_and_written_anew() {
    let Some(board) = board("hosted") else { return };
    (0..8).for_each(|case| overwrite_and_heal(&board, case));
}

#[test]
fn so_it_is_on_emulated_boards() {
    for board in ["mps2-an386", "virt-a53"].into_iter().filter_map(board) {
        for case in [0, 7] {
            overwrite_and_heal(&board, case);
        }
    }
}

#[test]
fn port_says_which_word_is_impossible() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let link = LinkMemory::of(&world.pool, core.region());
    let timeouts = LinkTimeouts::default().attach(Duration::from_millis(10));
    let node = hythe_rtcore::join_with(&world.pool, "asks", timeouts).expect("joins");
    // The agent may be quicker, or its new session not answered yet.
    eventually("the word is named", || {
        write(&link, header(&link, core_header::STATE), 4_000_000_000);
        let refused = node.subscriber("pong", &SubscriberOptions::default());
        match refused {
            Ok(_) => false,
            Err(error) => {
                assert!(matches!(error, NodeError::CoreSilent { .. }), "{error}");
                let status = control::status(&world.pool, "hosted").expect("it runs");
                let link = status.link.expect("a link");
                let says = error.to_string();
                link.violation
                    .is_none_or(|found| found.word == ViolatedWord::State)
                    && says.contains("its link is down: `state` of the core is 4000000000")
            }
        }
    });
    // Right words again, by whoever wrote the wrong ones, are as good as a new session.
    eventually("the link is up", || {
        node.subscriber("pong", &SubscriberOptions::default())
            .is_ok()
    });
    drop(node);
    core.stop().expect("stopped");
    world.assert_clean();
}

#[test]
fn words_that_are_right_again_need_nobody() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let link = LinkMemory::of(&world.pool, core.region());
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    for number in 0..10_u32 {
        let at = header(&link, core_header::STATE);
        let up = write(&link, at, 1000 + number);
        // The port loses its session by that.
        assert!(echo.pong.try_take().is_ok_and(|taken| taken.is_none()));
        // On a loaded machine the core may have answered a new session meanwhile: with the same.
        write(&link, at, up);
        let payload = number.to_le_bytes();
        assert_eq!(echo.round_trip_anew(&payload).to_vec(), payload);
    }
    drop(echo);
    core.stop().expect("stopped");
    world.assert_clean();
}

#[test]
fn counter_out_of_range_begins_another_session_of_the_flow() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let link = LinkMemory::of(&world.pool, core.region());
        let mut echo = Echo::open(&world.pool, "echo").expect("ports");
        echo.round_trip(b"before");
        for (endpoint, at, word) in [
            (PONG, flow_line::TAIL, ViolatedWord::Tail),
            (PONG, flow_line::HEAD, ViolatedWord::Head),
            (PING, flow_line::TAIL, ViolatedWord::Tail),
            (PING, flow_line::HEAD, ViolatedWord::Head),
        ] {
            let flow = link.layout.core_flow(Flow { endpoint, port: 0 });
            let before = counters(&world, board.name());
            let found = write(&link, flow + at, 0);
            write(&link, flow + at, found.wrapping_add(1 << 20));
            // Both look, before the core writes the word anew with its next message.
            assert!(echo.pong.try_take().is_ok_and(|taken| taken.is_none()));
            let _ = echo.send(b"may be refused");
            let payload = format!("{endpoint} {word:?}").into_bytes();
            assert_eq!(echo.round_trip_anew(&payload).to_vec(), payload);
            let after = counters(&world, board.name());
            assert!(after.violations > before.violations, "{word:?}");
            assert_eq!(after.renewals, before.renewals, "the port does it alone");
        }
        drop(echo);
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn core_counts_full_queue_no_slot_and_lost_link_apart() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let timeouts = LinkTimeouts::default().window(Duration::from_millis(20));
    let node = hythe_rtcore::join_with(&world.pool, "sender", timeouts).expect("joins");
    let options = PublisherOptions::default().send_timeout(Duration::from_millis(10));
    let mut ping = node.publisher("ping", &options).expect("publishes");
    signal(core.status().pid, Signal::STOP);
    let full = loop {
        let lease = ping.lease(100).expect("a free slot");
        match ping.publish(lease, 100) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(
        matches!(
            full,
            NodeError::CoreFull {
                places: 64,
                waited_ms: 20,
                ..
            }
        ),
        "{full}"
    );
    let mut held = Vec::new();
    let none = loop {
        match ping.lease(100) {
            Ok(lease) => held.push(lease),
            Err(error) => break error,
        }
    };
    assert!(none.is_pool_full(), "{none}");
    drop(held);
    let now = counters(&world, "hosted");
    assert_eq!((now.full, now.no_slot, now.lost), (1, 1, 0));
    kill(core.status().pid);
    assert!(core.wait(LONG));
    let lease = ping.lease(100).expect("a free slot");
    let lost = ping.publish(lease, 100).expect_err("it is dead");
    assert!(matches!(lost, NodeError::CoreSilent { .. }), "{lost}");
    drop((ping, node));
    assert!(core.stop().is_err());
    world.assert_clean();
}

/// A stream of another host waits with it, and cannot end meanwhile.
#[test]
fn core_holds_up_a_host_for_a_second_at_most() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let core = start(&world, &board);
    let host = hythe_rtcore::join_host(&world.pool, "far").expect("joins");
    let options = PublisherOptions::default().send_timeout(Duration::from_millis(10));
    let mut ping = host.publisher("ping", &options).expect("publishes");
    signal(core.status().pid, Signal::STOP);
    let full = loop {
        let lease = ping.lease(100).expect("a free slot");
        if let Err(error) = ping.publish(lease, 100) {
            break error;
        }
    };
    let is_as_promised = matches!(
        full,
        NodeError::CoreFull {
            waited_ms: 1000,
            ..
        }
    );
    assert!(is_as_promised, "{full}");
    kill(core.status().pid);
    assert!(core.wait(LONG));
    drop((ping, host));
    assert!(core.stop().is_err());
    world.assert_clean();
}

#[test]
fn lost_session_is_counted_over_the_lives_of_a_core() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let options = hythe_rtcore::CoreOptions::default()
        .start_bound(LONG)
        .restarts(1);
    let core = Core::start(&world.pool, &board, &options).expect("core");
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    echo.round_trip(b"before");
    let pid = core.status().pid;
    support::kill(pid);
    assert!(core.wait_until(LONG, |status| status.pid != pid && status.restarts == 1));
    echo.round_trip_anew(b"after");
    assert!(counters(&world, "hosted").lost >= 2, "of both ports");
    drop(echo);
    core.stop().expect("stopped");
    world.assert_clean();
}
