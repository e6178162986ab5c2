//! Channels that reach a core and processes at once: each message is in one slot, and none of the
//! receivers stops another.

use std::time::Duration;

use crate::support::{LONG, World, boards, eventually, kill, start};
use hythe_node::{
    Node, PortPolicy, Published, Publisher, PublisherOptions, RegionIndex, Subscriber,
    SubscriberOptions,
};
use hythe_rtcore::{Core, CoreOptions, CoreState, CoreStatus};
use rustix::process::{Pid, Signal, kill_process};

/// To two receivers, the core and a process.
const BOTH: Published = Published {
    delivered: 2,
    dropped: 0,
    evicted: 0,
};

/// To the process alone.
const ONE: Published = Published {
    delivered: 1,
    dropped: 0,
    evicted: 0,
};

fn publisher(node: &Node, channel: &str) -> Publisher {
    let options = PublisherOptions::default();
    node.publisher(channel, &options).expect("publishes")
}

/// Waits for it, so that the load of the machine decides nothing.
fn subscriber(node: &Node, channel: &str) -> Subscriber {
    let policy = PortPolicy::Block { timeout_ms: 60_000 };
    let options = SubscriberOptions::default().depth(4).policy(policy);
    node.subscriber(channel, &options).expect("subscribes")
}

fn send(publisher: &mut Publisher, payload: &[u8]) -> Published {
    let mut lease = publisher.lease(payload.len()).expect("a free slot");
    lease.write(0, payload);
    publisher.publish(lease, payload.len()).expect("published")
}

fn take(from: &mut Subscriber) -> Vec<u8> {
    let sample = from.take(LONG).expect("sound").expect("a message");
    sample.to_vec()
}

/// Publishes until the core gives it back: both ends may have to meet it first. The process gets
/// every message meanwhile.
fn echo_beside(
    publisher: &mut Publisher,
    process: &mut Subscriber,
    pong: &mut Subscriber,
    tag: &str,
) {
    let mut number = 0;
    eventually("the core's echo is heard", || {
        number += 1;
        let payload = format!("{tag} {number}").into_bytes();
        let published = send(publisher, &payload);
        assert_eq!(take(process), payload, "the process gets every message");
        let echoes = std::iter::from_fn(|| pong.take(Duration::from_millis(50)).expect("sound"));
        // Earlier ones may come late.
        let is_heard = echoes.map(|back| back.to_vec()).any(|back| back == payload);
        published == BOTH && is_heard
    });
}

fn restarted(core: &Core, pid: u32) {
    let again =
        |status: &CoreStatus| status.state == CoreState::Up && status.pid != pid && pid != 0;
    assert!(core.wait_until(LONG, again), "{:?}", core.status());
}

#[test]
fn one_slot_reaches_a_core_and_a_process() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let node = hythe_rtcore::join(&world.pool, "both").expect("joins");
        let mut pong = subscriber(&node, "pong");
        let mut ping = publisher(&node, "ping");
        // It came behind the core.
        let mut process = subscriber(&node, "ping");
        let mut lease = ping.lease(100).expect("a free slot");
        assert_eq!(lease.region(), core.region());
        lease.write(0, &[7; 100]);
        assert_eq!(ping.publish(lease, 100).expect("published"), BOTH);
        let heard = process.take(LONG).expect("sound").expect("a message");
        let back = pong.take(LONG).expect("sound").expect("an echo");
        assert_eq!(heard.descriptor().place, back.descriptor().place);
        assert_eq!(
            (heard.to_vec(), back.to_vec()),
            (vec![7; 100], vec![7; 100])
        );
        drop((heard, back));

        // What is elsewhere, or too large, is dropped for the core, and counted.
        for (region, bytes) in [(RegionIndex(0), 10), (RegionIndex(0), (1 << 20) + 1)] {
            let before = ping.statistics().dropped;
            let lease = node.lease_in(region, bytes).expect("a free slot");
            let published = ping.publish(lease, bytes).expect("published");
            assert_eq!((published.delivered, published.dropped), (1, 1));
            assert_eq!(ping.statistics().dropped, before + 1);
            assert_eq!(take(&mut process).len(), bytes);
        }
        // One that goes takes nothing along.
        drop(process);
        assert_eq!(send(&mut ping, b"alone"), ONE);
        assert_eq!(take(&mut pong), b"alone");
        drop((ping, pong, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn core_that_starts_or_dies_evicts_no_subscriber() {
    for board in boards() {
        let world = World::new();
        let node = hythe_rtcore::join(&world.pool, "both").expect("joins");
        // They were there before the core.
        let mut process = subscriber(&node, "ping");
        let mut pong = subscriber(&node, "pong");
        let mut ping = publisher(&node, "ping");
        assert_eq!(send(&mut ping, b"no core yet"), ONE);
        assert_eq!(take(&mut process), b"no core yet");

        let options = CoreOptions::default().start_bound(LONG).restarts(1);
        let core = Core::start(&world.pool, &board, &options).expect("core");
        echo_beside(&mut ping, &mut process, &mut pong, "first life");
        let pid = core.status().pid;
        kill(pid);
        restarted(&core, pid);
        echo_beside(&mut ping, &mut process, &mut pong, "second life");

        kill(core.status().pid);
        assert!(core.wait(LONG), "it may not be started again");
        core.stop().expect_err("it had died");
        eventually("the core is no receiver any more", || {
            let published = send(&mut ping, b"after it");
            assert_eq!(take(&mut process), b"after it");
            published == ONE
        });
        drop((ping, pong, process, node));
        world.assert_clean();
    }
}

#[test]
fn core_that_starts_or_dies_evicts_no_publisher() {
    for board in boards() {
        let world = World::new();
        let node = hythe_rtcore::join(&world.pool, "both").expect("joins");
        // One was there before the core, the other comes behind it.
        let mut pong = subscriber(&node, "pong");
        let mut early = publisher(&node, "pong");
        assert_eq!(send(&mut early, b"early"), ONE);
        assert_eq!(take(&mut pong), b"early");

        let core = start(&world, &board);
        let mut ping = publisher(&node, "ping");
        let mut late = publisher(&node, "pong");
        eventually("the core's echo is heard", || {
            send(&mut ping, b"echo");
            let echo = pong.take(Duration::from_millis(20)).expect("sound");
            echo.is_some_and(|echo| echo.to_vec() == b"echo")
        });
        while pong
            .take(Duration::from_millis(200))
            .expect("sound")
            .is_some()
        {}
        for publisher in [&mut early, &mut late] {
            assert_eq!(send(publisher, b"beside the core"), ONE);
            assert_eq!(take(&mut pong), b"beside the core");
        }
        assert_eq!(pong.publishers().expect("sound"), 3);

        kill(core.status().pid);
        assert!(core.wait(LONG));
        core.stop().expect_err("it had died");
        for publisher in [&mut early, &mut late] {
            assert_eq!(send(publisher, b"without it"), ONE);
            assert_eq!(take(&mut pong), b"without it");
        }
        drop((early, late, ping, pong, node));
        world.assert_clean();
    }
}

#[test]
fn core_that_stands_still_keeps_nothing_from_a_process() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let node = hythe_rtcore::join(&world.pool, "both").expect("joins");
        let mut ping = publisher(&node, "ping");
        let mut process = subscriber(&node, "ping");
        assert_eq!(send(&mut ping, b"both"), BOTH);
        assert_eq!(take(&mut process), b"both");
        let pid = Pid::from_raw(core.status().pid.cast_signed()).expect("a process");
        kill_process(pid, Signal::STOP).expect("own child");
        // More than its window holds, and more than there are slots of the largest size.
        for (bytes, messages) in [(1 << 20, 20), (8, 200)] {
            let dropped = ping.statistics().dropped;
            for number in 0..messages {
                let payload = vec![number as u8; bytes];
                assert!(
                    send(&mut ping, &payload).delivered >= 1,
                    "{bytes}: {number}"
                );
                assert!(take(&mut process) == payload, "{bytes}: {number}");
            }
            assert!(ping.statistics().dropped > dropped, "the core has them all");
        }
        kill_process(pid, Signal::CONT).expect("own child");
        eventually("the core is heard of again", || {
            let published = send(&mut ping, b"again");
            assert_eq!(take(&mut process), b"again");
            published == BOTH
        });
        drop((process, ping, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}
