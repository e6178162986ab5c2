//! Channels between processes, and what remains when one is killed.
//!
//! The other process is this test program again, asked by `support::player` to play one of
//! [`roles`].

use std::time::{Duration, Instant};

use crate::support::player::{Player, own_part, say, until_told};
use crate::support::{BOUND, Root, eventually};
use hythe_node::{
    Node, NodeError, Pool, PortKind, PortPolicy, PublisherOptions, Sample, Subscriber,
    SubscriberOptions,
};
use hythe_testing::{let_time_pass, watched};

/// What a child can be. Each prints a line when it is where the test wants it, and goes on until
/// its input ends.
mod roles {
    /// Takes two samples and keeps them.
    pub(super) const HOLDER: &str = "holder";
    /// Publishes one message, keeps two leases, and waits.
    pub(super) const SOURCE: &str = "source";
    /// Forwards from `in` to `out`.
    pub(super) const RELAY: &str = "relay";
    /// The same, with queues that evict the oldest.
    pub(super) const SKIPPER: &str = "skipper";
    /// Subscribes and never takes; publishers block for 60 ms.
    pub(super) const STUCK: &str = "stuck";
    /// The same, with publishers that block for far longer than any test waits.
    pub(super) const WALL: &str = "wall";
}

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some((role, node)) = own_part() else {
        return;
    };
    match role.as_str() {
        roles::HOLDER => hold(&node),
        roles::SOURCE => source(&node),
        roles::RELAY => relay(&node, PortPolicy::Block { timeout_ms: 5000 }),
        roles::SKIPPER => relay(&node, PortPolicy::EvictOldest),
        roles::STUCK => stuck(&node, 60),
        roles::WALL => stuck(&node, u32::MAX),
        other => panic!("no role {other}"),
    }
}

fn hold(node: &Node) {
    let mut subscriber = subscribe(node, "data", PortPolicy::DropNewest, 8);
    say("ready");
    let kept: Vec<Sample> = (0..2)
        .map(|_| subscriber.take(BOUND).expect("sound").expect("published"))
        .collect();
    say(&format!("holds {}", kept.len()));
    until_told();
}

fn source(node: &Node) {
    let mut publisher = node
        .publisher("data", &PublisherOptions::default().send_timeout(BOUND))
        .expect("opens");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let _kept = [
        node.lease(10).expect("free"),
        node.lease(100_000).expect("free"),
    ];
    publisher
        .publish(publisher.lease(5).expect("free"), 5)
        .expect("room");
    say("published");
    until_told();
}

fn relay(node: &Node, policy: PortPolicy) {
    let mut from = subscribe(node, "in", policy, 4);
    let mut to = node
        .publisher("out", &PublisherOptions::default().send_timeout(BOUND))
        .expect("opens");
    assert!(to.wait_for_subscribers(1, BOUND).expect("sound"));
    say("ready");
    let start = Instant::now();
    while start.elapsed() < BOUND {
        if let Some(sample) = from.take(Duration::from_millis(100)).expect("sound") {
            to.forward(sample).expect("room");
        }
    }
}

fn stuck(node: &Node, timeout_ms: u32) {
    let _subscriber = subscribe(node, "data", PortPolicy::Block { timeout_ms }, 2);
    say("ready");
    until_told();
}

fn subscribe(node: &Node, channel: &str, policy: PortPolicy, depth: u32) -> Subscriber {
    node.subscriber(
        channel,
        &SubscriberOptions::default().policy(policy).depth(depth),
    )
    .expect("opens")
}

/// Nothing is held or queued, and the ledger adds up.
fn is_all_free(pool: &Pool) -> bool {
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger does not add up");
    audit.free == audit.slots
}

#[test]
fn samples_of_killed_subscriber_come_back() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut publisher = node
        .publisher("data", &PublisherOptions::default().send_timeout(BOUND))
        .expect("opens");
    let mut holder = Player::start(&root, roles::HOLDER);
    assert_eq!(holder.hear(), "ready");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for _ in 0..5 {
        let published = publisher
            .publish(publisher.lease(1000).expect("free"), 1000)
            .expect("room");
        assert_eq!((published.delivered, published.dropped), (1, 0));
    }
    assert_eq!(holder.hear(), "holds 2");
    let snapshot = pool.snapshot();
    assert_eq!((snapshot.audit.held, snapshot.audit.queued), (2, 3));
    let held = snapshot.held_buffers();
    let name = format!("holder (pid {})", holder.pid());
    assert_eq!(
        held.iter()
            .filter(|held| snapshot.holder_name(held.holder) == name)
            .count(),
        2
    );
    holder.kill();
    eventually("its two samples and its queue come back", || {
        is_all_free(&pool)
    });
    eventually("its record, port and connection are gone", || {
        let snapshot = pool.snapshot();
        let _ = publisher.subscribers().expect("sound");
        snapshot.members.len() == 1 && snapshot.ports.len() == 1 && snapshot.connections.is_empty()
    });
    let after = publisher
        .publish(publisher.lease(1).expect("free"), 1)
        .expect("nobody is a fine receiver");
    assert_eq!(after.delivered, 0);
}

#[test]
fn publisher_killed_while_a_subscriber_waits_leaves_nothing() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut subscriber = subscribe(&node, "data", PortPolicy::DropNewest, 4);
    let mut source = Player::start(&root, roles::SOURCE);
    assert_eq!(source.hear(), "published");
    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    assert_eq!(sample.len(), 5);
    assert_eq!(pool.snapshot().audit.held, 3);
    let (thread, wait) = watched(move || {
        let timeout = Duration::from_millis(700);
        let (start, taken) = (Instant::now(), subscriber.take(timeout));
        (subscriber, start.elapsed() >= timeout, taken)
    });
    let waiting = std::thread::spawn(wait);
    thread.until_asleep();
    source.kill();
    let (subscriber, waited, taken) = waiting.join().expect("the wait ends");
    assert!(
        taken.expect("sound").is_none(),
        "something came from a dead publisher"
    );
    assert!(waited, "it gave up before its time");
    // What was received from the dead stays with us.
    eventually("only our sample is held", || {
        pool.snapshot().audit.held == 1
    });
    assert_eq!(sample.len(), 5);
    drop((sample, subscriber));
    eventually("all is free", || is_all_free(&pool));
}

#[test]
fn handing_on_keeps_the_place() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut direct = subscribe(&node, "in", PortPolicy::DropNewest, 4);
    let mut relayed = subscribe(&node, "out", PortPolicy::DropNewest, 4);
    let relay = Player::start(&root, roles::RELAY);
    assert_eq!(relay.hear(), "ready");
    let mut publisher = node
        .publisher("in", &PublisherOptions::default().send_timeout(BOUND))
        .expect("opens");
    assert!(publisher.wait_for_subscribers(2, BOUND).expect("sound"));
    for round in 0..50_u8 {
        let mut lease = publisher.lease(3000).expect("free");
        lease.write(0, &[round; 3000]);
        assert_eq!(publisher.publish(lease, 3000).expect("room").delivered, 2);
        let first = direct.take(BOUND).expect("sound").expect("published");
        let second = relayed.take(BOUND).expect("sound").expect("forwarded");
        assert_eq!(first.descriptor(), second.descriptor(), "it was copied");
        assert_eq!(second.to_vec(), [round; 3000]);
    }
    drop((publisher, direct, relayed, relay));
    eventually("all is free", || is_all_free(&pool));
}

#[test]
fn blocked_publisher_learns_who_blocks_it() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut publisher = node
        .publisher("data", &PublisherOptions::default().send_timeout(BOUND))
        .expect("opens");
    let mut stuck = Player::start(&root, roles::STUCK);
    assert_eq!(stuck.hear(), "ready");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for _ in 0..2 {
        publisher
            .publish(publisher.lease(1).expect("free"), 1)
            .expect("room for two");
    }
    let start = Instant::now();
    let refused = publisher
        .publish(publisher.lease(1).expect("free"), 1)
        .expect_err("no room for a third");
    assert!(
        start.elapsed() >= Duration::from_millis(60),
        "it did not wait"
    );
    let NodeError::Blocked {
        channel,
        waited_ms,
        subscriber,
        delivered: 0,
    } = &refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!((channel.as_str(), *waited_ms), ("data", 60));
    assert_eq!(*subscriber, format!("stuck (pid {})", stuck.pid()));
    assert_eq!(
        (
            publisher.statistics().messages,
            publisher.statistics().dropped
        ),
        (2, 1)
    );
    let audit = pool.snapshot().audit;
    assert_eq!(
        (audit.held, audit.queued),
        (0, 2),
        "the refused buffer was not released"
    );
    // Killed while a publisher waits for room: that publisher goes on.
    let waiting = std::thread::spawn(move || {
        let published = publisher.publish(publisher.lease(1).expect("free"), 1);
        (publisher, published)
    });
    stuck.kill();
    // In time or out of time: both are fine, hanging is not.
    let (publisher, _) = waiting.join().expect("the wait ends");
    eventually("all is free", || is_all_free(&pool));
    drop(publisher);
}

/// Killed, or ended in good order, while a publisher waits for it to make room: that ends the wait,
/// with an error of its own.
#[test]
fn blocked_publisher_reports_lost_receiver() {
    for dies in [true, false] {
        let root = Root::new();
        let pool = root.pool();
        let node = Node::join(&pool, "test").expect("joins");
        let options = PublisherOptions::default().send_timeout(2 * BOUND);
        let mut publisher = node.publisher("data", &options).expect("opens");
        let mut other = subscribe(&node, "data", PortPolicy::DropNewest, 8);
        let mut wall = Player::start(&root, roles::WALL);
        assert_eq!(wall.hear(), "ready");
        assert!(publisher.wait_for_subscribers(2, BOUND).expect("sound"));
        let publish = |publisher: &mut hythe_node::Publisher| {
            publisher.publish(publisher.lease(1).expect("free"), 1)
        };
        for _ in 0..2 {
            publish(&mut publisher).expect("room for two");
        }
        let waiting = std::thread::spawn(move || {
            let refused = publish(&mut publisher).expect_err("no room for a third");
            (publisher, refused)
        });
        let own = |holder| matches!(holder, hythe_node::HolderKind::Member(_));
        eventually("the third is held for the one that blocks", || {
            let audit = pool.snapshot().audit;
            audit.holders.iter().any(|holder| own(holder.kind))
        });
        if dies {
            wall.kill();
        } else {
            wall.end_input();
        }
        let name = format!("wall (pid {})", wall.pid());
        let (mut publisher, refused) = waiting.join().expect("the wait ends");
        let NodeError::ReceiverGone {
            channel,
            subscriber,
            died,
            ..
        } = &refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!((channel.as_str(), subscriber), ("data", &name));
        // One that leaves in good order may have ended before we asked.
        assert!(*died || !dies, "{refused}");
        assert_eq!(publisher.statistics().dropped, 1);
        for _ in 0..3 {
            assert!(
                other.try_take().expect("sound").is_some(),
                "the other has all"
            );
        }
        let after = publish(&mut publisher).expect("nobody blocks any more");
        assert_eq!((after.delivered, after.dropped), (1, 0));
        drop((publisher, other));
        eventually("all is free", || is_all_free(&pool));
    }
}

#[test]
fn drop_newest_counts_what_it_drops() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut subscriber = subscribe(&node, "data", PortPolicy::DropNewest, 2);
    let mut publisher = node
        .publisher("data", &PublisherOptions::default().send_timeout(BOUND))
        .expect("opens");
    let mut delivered = 0;
    for number in 0..5_u8 {
        let mut lease = publisher.lease(1).expect("free");
        lease.write(0, &[number]);
        delivered += publisher.publish(lease, 1).expect("never blocks").delivered;
    }
    assert_eq!((delivered, publisher.statistics().dropped), (2, 3));
    let snapshot = pool.snapshot();
    let port = snapshot
        .ports
        .iter()
        .find(|port| port.kind == PortKind::Publisher)
        .expect("open");
    assert_eq!(
        (port.statistics.messages, port.statistics.dropped),
        (5, 3),
        "the losses are not visible to others"
    );
    let taken: Vec<Vec<u8>> = std::iter::from_fn(|| subscriber.try_take().expect("sound"))
        .map(|sample| sample.to_vec())
        .collect();
    assert_eq!(taken, [[0], [1]], "not the newest were dropped");
}

#[test]
fn first_to_come_back_finds_the_pool_in_order() {
    let root = Root::new();
    let pool = root.pool();
    let mut source = Player::start(&root, roles::SOURCE);
    let mut holder = Player::start(&root, roles::HOLDER);
    assert_eq!(holder.hear(), "ready");
    assert_eq!(source.hear(), "published");
    eventually("the message is taken", || pool.snapshot().audit.held == 3);
    // Nobody is left to recover anybody: the last to die does not see the first.
    holder.stop();
    source.kill();
    holder.kill();
    assert_eq!(pool.snapshot().audit.held, 3);
    let node = Node::join(&pool, "test").expect("joins");
    assert!(
        is_all_free(&pool),
        "joining recovers the dead before it returns"
    );
    assert_eq!(pool.snapshot().members.len(), 1);
    drop(node);
    let left = pool.snapshot();
    assert_eq!(
        (
            left.members.len(),
            left.channels.len(),
            left.ports.len(),
            left.connections.len()
        ),
        (0, 0, 0, 0)
    );
}

/// Killed at any moment of its work, a relay leaves nothing behind and takes nobody with it.
#[test]
fn relay_killed_anywhere_loses_no_slot() {
    kill_relays(roles::RELAY, PortPolicy::DropNewest, 16);
}

/// The same where both sides of each queue move its head.
#[test]
fn relay_killed_while_queues_drop_the_oldest_loses_no_slot() {
    kill_relays(roles::SKIPPER, PortPolicy::EvictOldest, 2);
}

fn kill_relays(role: &str, policy: PortPolicy, depth: u32) {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    for round in 0..8 {
        let mut sink = subscribe(&node, "out", policy, depth);
        let mut relay = Player::start(&root, role);
        assert_eq!(relay.hear(), "ready");
        let mut publisher = node
            .publisher("in", &PublisherOptions::default().send_timeout(BOUND))
            .expect("opens");
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
        let mut pass_on = || {
            match publisher.publish(publisher.lease(200).expect("free"), 200) {
                // Recovered before we looked, it is gone, and nobody knows how.
                Ok(_) | Err(NodeError::ReceiverGone { .. }) => {}
                Err(other) => panic!("its death frees us: {other}"),
            }
            let taken = std::iter::from_fn(|| sink.try_take().expect("sound"));
            taken
                .inspect(|sample| assert_eq!(sample.len(), 200))
                .count()
        };
        // However slow the machine is: it is killed over its work, not before.
        eventually("the relay does something", || pass_on() > 0);
        let killer = std::thread::spawn(move || {
            // Different from round to round, and never in step with the messages.
            let_time_pass(
                Duration::from_micros(3_337 * round),
                "another moment each round",
            );
            relay.kill();
        });
        while !killer.is_finished() {
            pass_on();
        }
        killer.join().expect("killed");
        drop((sink, publisher));
        eventually("all is free", || is_all_free(&pool));
    }
}
