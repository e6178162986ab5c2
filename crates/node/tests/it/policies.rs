//! What subscribers ask for: what happens when they are slow, how much may wait, and what they want
//! of the past.

use crate::support;

use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::Duration;

use crate::support::{Root, eventually};
use hythe_memory::{Memory, Ordering};
use hythe_node::hop::HopPool as _;
use hythe_node::{
    HISTORY_MAX, HolderKind, Node, NodeError, Pool, PoolError, PortKind, PortPolicy, Publisher,
    PublisherOptions, Subscriber, SubscriberOptions,
};
use hythe_testing::{let_time_pass, watched};

/// Liars that one subscriber meets, one after the other. Each loses a message with its queue; the
/// pool has room for them all.
const LIES: u64 = 200;

fn publisher(node: &Node, history: u32) -> Publisher {
    let options = PublisherOptions::default().history(history);
    node.publisher("data", &options).expect("opens")
}

fn subscriber(node: &Node, options: &SubscriberOptions) -> Subscriber {
    node.subscriber("data", options).expect("opens")
}

fn publish(publisher: &mut Publisher, byte: u8) -> hythe_node::Published {
    let mut lease = publisher.lease(1).expect("free");
    lease.write(0, &[byte]);
    publisher.publish(lease, 1).expect("never blocks")
}

fn publish_all(publisher: &mut Publisher, bytes: std::ops::Range<u8>) {
    for byte in bytes {
        publish(publisher, byte);
    }
}

/// First bytes of all that waits.
fn taken(subscriber: &mut Subscriber) -> Vec<u8> {
    std::iter::from_fn(|| subscriber.try_take().expect("sound"))
        .map(|sample| sample.to_vec()[0])
        .collect()
}

fn is_all_free(pool: &Pool) -> bool {
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger does not add up");
    audit.free == audit.slots
}

#[test]
fn evict_oldest_keeps_the_newest_and_counts_the_others() {
    let root = Root::new();
    let pool = root.pool();
    let (sender, receiver) = (Node::join(&pool, "a"), Node::join(&pool, "b"));
    let (sender, receiver) = (sender.expect("joins"), receiver.expect("joins"));
    let options = SubscriberOptions::default().depth(4);
    let mut newest = subscriber(&receiver, &options.clone().policy(PortPolicy::EvictOldest));
    let mut oldest = subscriber(&receiver, &options);
    let mut publisher = publisher(&sender, 0);
    let mut evicted = 0;
    for byte in 0..10 {
        evicted += publish(&mut publisher, byte).evicted;
    }
    assert_eq!(evicted, 6);
    assert_eq!(pool.snapshot().audit.mismatches, []);
    assert_eq!(
        pool.snapshot().audit.queued,
        8,
        "the evicted did not go back"
    );
    // Six passed one subscriber by, six others were evicted from the queue of the other.
    assert_eq!(publisher.statistics().dropped, 12);
    assert_eq!(taken(&mut oldest), [0, 1, 2, 3]);
    assert_eq!(taken(&mut newest), [6, 7, 8, 9]);
    // And on, from the middle of a queue.
    publish_all(&mut publisher, 10..13);
    assert_eq!(
        newest.try_take().expect("sound").expect("waits").to_vec(),
        [10]
    );
    publish_all(&mut publisher, 13..16);
    assert_eq!(taken(&mut newest), [12, 13, 14, 15]);
    // A publisher that goes leaves what waits to be taken.
    publish(&mut publisher, 16);
    drop(publisher);
    assert_eq!(taken(&mut newest), [16]);
    drop((newest, oldest));
    assert!(is_all_free(&pool));
}

/// A publisher whose counter jumps while the subscriber looks at it: between two looks of one take,
/// too, now and then. That is counted, the liar is left, and the others are heard.
#[test]
fn liar_on_newest_queue_is_disconnected() {
    let root = Root::new();
    let pool = root.pool();
    let [liar, honest, receiver] =
        ["liar", "honest", "receiver"].map(|name| Node::join(&pool, name).expect("joins"));
    let options = SubscriberOptions::default().depth(4);
    let mut subscriber = subscriber(&receiver, &options.policy(PortPolicy::EvictOldest));
    let mut honest = publisher(&honest, 0);
    let control = pool.control();
    for round in 1..=LIES {
        let mut lying = publisher(&liar, 0);
        publish(&mut lying, 0);
        let found = control
            .tables()
            .connections()
            .find(|info| info.producer == liar.index());
        let tail = found.expect("its connection").places.tail;
        let truth = control.memory().load(tail, Ordering::Relaxed);
        let caught = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !caught.load(Atomic::Relaxed) {
                    for lie in [1000, 0] {
                        control
                            .memory()
                            .store(tail, truth.wrapping_add(lie), Ordering::Relaxed);
                    }
                }
            });
            let mut answers = std::iter::repeat_with(|| {
                let taken = subscriber.try_take().map(drop);
                (taken, subscriber.statistics().violations)
            });
            let last = answers.find(|(taken, violations)| taken.is_err() || *violations >= round);
            caught.store(true, Atomic::Relaxed);
            let (taken, violations) = last.expect("it goes on until then");
            taken.unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert_eq!(violations, round, "counted once");
        });
        publish(&mut honest, 7);
        assert_eq!(taken(&mut subscriber), [7], "round {round}");
    }
}

/// Each side at its own speed, a taker that sleeps among them: it is woken, and what it gets is in
/// order.
#[test]
fn slow_taker_of_the_newest_sleeps_and_is_woken() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "both").expect("joins");
    let options = SubscriberOptions::default().depth(2);
    let mut slow = subscriber(&node, &options.policy(PortPolicy::EvictOldest));
    let mut publisher = publisher(&node, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for byte in 1..=200 {
                publish(&mut publisher, byte);
                if byte % 20 == 0 {
                    let_time_pass(Duration::from_millis(2), "bursts with pauses between them");
                }
            }
        });
        let mut last = 0;
        while last < 200 {
            let sample = slow.take(support::BOUND).expect("sound").expect("in time");
            let byte = sample.to_vec()[0];
            assert!(byte > last, "{byte} behind {last}");
            last = byte;
        }
    });
    drop((slow, publisher));
    assert!(is_all_free(&pool));
}

#[test]
fn late_subscriber_gets_what_it_asks_for_before_anything_newer() {
    let root = Root::new();
    let pool = root.pool();
    let (sender, receiver) = (Node::join(&pool, "source"), Node::join(&pool, "b"));
    let (sender, receiver) = (sender.expect("joins"), receiver.expect("joins"));
    let mut publisher = publisher(&sender, 4);
    publish_all(&mut publisher, 0..10);
    let snapshot = pool.snapshot();
    let kept: Vec<String> = snapshot
        .held_buffers()
        .iter()
        .map(|held| snapshot.holder_name(held.holder))
        .collect();
    let name = format!("source (pid {})", std::process::id());
    assert_eq!(kept, vec![name; 4], "who keeps them does not show");

    let wants = |history| SubscriberOptions::default().history(history);
    let mut all = subscriber(&receiver, &wants(100));
    let mut two = subscriber(&receiver, &wants(2).policy(PortPolicy::EvictOldest));
    let mut shallow = subscriber(&receiver, &wants(100).depth(3));
    let mut none = subscriber(&receiver, &wants(0));
    // Nothing new need be published for it.
    assert_eq!(publisher.subscribers().expect("room"), 4);
    assert_eq!(taken(&mut two), [8, 9]);
    publish(&mut publisher, 10);
    assert_eq!(taken(&mut all), [6, 7, 8, 9, 10]);
    assert_eq!(taken(&mut shallow), [7, 8, 9, 10]);
    assert_eq!(taken(&mut two), [10]);
    assert_eq!(taken(&mut none), [10]);
    // Later still: the window has moved on. Whoever has it does not get it again.
    let mut later = subscriber(&receiver, &wants(3));
    publish(&mut publisher, 11);
    assert_eq!(taken(&mut later), [8, 9, 10, 11]);
    assert_eq!(taken(&mut all), [11]);
    drop((all, two, shallow, none, later));
    assert_eq!(pool.snapshot().audit.held, 4);
    drop(publisher);
    assert!(is_all_free(&pool), "what was kept stays behind");
}

/// A pool of four small slots and four large ones, with small tables.
fn narrow(root: &Root) -> Pool {
    let class = |payload_bytes| hythe_node::ClassPlan {
        payload_bytes,
        count: 4,
    };
    let limits = hythe_node::Limits {
        participants: 2,
        channels: 2,
        ports: 5,
        connections: 2,
        queue_segments: 4,
        slots: 1,
    };
    let geometry = hythe_node::Geometry::with_classes(limits, &[class(768), class(65536)]);
    let options = root.options().geometry(geometry.expect("possible"));
    Pool::open_or_create(&options).expect("made")
}

#[test]
fn full_pool_takes_history_first_and_then_names_its_holders() {
    let root = Root::new();
    let pool = narrow(&root);
    let node = Node::join(&pool, "greedy").expect("joins");
    let mut large = node
        .publisher("large", &PublisherOptions::default().history(2))
        .expect("opens");
    let mut small = publisher(&node, 3);
    for byte in 0..3 {
        publish(&mut small, byte);
        let lease = large.lease(60_000).expect("free");
        large.publish(lease, 1).expect("nobody blocks");
    }
    let audit = pool.snapshot().audit;
    assert_eq!((audit.free, audit.held), (3, 5));
    // Three small ones kept. A large lease takes from the large ones only.
    let leases: Vec<_> = (0..4)
        .map(|_| node.lease(60_000).expect("history gives way"))
        .collect();
    assert_eq!(pool.snapshot().audit.held, 4 + 3);
    let refused = node.lease(60_000).expect_err("all large slots are leased");
    let NodeError::Exhausted(found) = &refused else {
        panic!("{refused:?}")
    };
    let full = PoolError::PoolFull {
        region: hythe_node::RegionIndex(0),
        bytes: 60_000,
        slots: 4,
    };
    assert_eq!(found.cause, full);
    assert_eq!((found.holders.len(), found.others), (1, 0));
    assert_eq!(
        (found.holders[0].name.as_str(), found.holders[0].count),
        ("greedy", 4)
    );
    let text = refused.to_string();
    let name = format!("greedy (pid {}) has 4", std::process::id());
    assert!(text.contains(&name) && text.contains("4 slots"), "{text}");
    assert_eq!(
        pool.snapshot().audit.held,
        4 + 3,
        "the small history went for nothing"
    );
    // The newest stays longest.
    let _small: Vec<_> = (0..3)
        .map(|_| node.lease(1).expect("history gives way"))
        .collect();
    let options = SubscriberOptions::default().history(3);
    let mut late = subscriber(&node, &options);
    assert_eq!(small.subscribers().expect("room"), 1);
    assert_eq!(taken(&mut late), [2]);
    drop(leases);
}

#[test]
fn full_pool_error_shows_slots_queued_for_others() {
    let root = Root::new();
    let pool = narrow(&root);
    let node = Node::join(&pool, "slow").expect("joins");
    let _slow = subscriber(&node, &SubscriberOptions::default());
    let mut publisher = publisher(&node, 0);
    // Half of each class, whatever the depth of its queue; and the others are leased.
    let sent: Vec<_> = (0..8).map(|byte| publish(&mut publisher, byte)).collect();
    let delivered: u32 = sent.iter().map(|published| published.delivered).sum();
    assert_eq!(delivered, 2);
    let leases: Vec<_> = (0..6).map(|_| node.lease(1).expect("free")).collect();
    let refused = node.lease(1).expect_err("none is free").to_string();
    assert!(refused.contains("slow (pid"), "{refused}");
    assert!(refused.contains("has 6"), "{refused}");
    assert!(refused.contains("and 2 wait for it"), "{refused}");
    drop(leases);
    let refused = node.lease(70_000).expect_err("too large").to_string();
    assert!(refused.contains("takes 69376"), "{refused}");
}

#[test]
fn full_tables_name_their_limit_and_who_has_what() {
    let root = Root::new();
    let pool = narrow(&root);
    let (first, second) = (Node::join(&pool, "first"), Node::join(&pool, "second"));
    let (first, second) = (first.expect("joins"), second.expect("joins"));
    let check = |error: NodeError, what: &str, limit: u32, holders: &[&str]| {
        let text = error.to_string();
        let Some(PoolError::TableFull {
            what: table,
            limit: full,
        }) = error.refusal()
        else {
            panic!("{error:?}")
        };
        assert_eq!((*table, *full), (what, limit), "{text}");
        for holder in holders {
            assert!(text.contains(holder), "{text} does not say: {holder}");
        }
    };
    let third = Node::join(&pool, "third").expect_err("two places");
    check(third, "participant", 2, &["first (pid", "second (pid"]);

    let options = SubscriberOptions::default();
    let mut publisher = publisher(&first, 0);
    let mut taker = subscriber(&second, &options);
    let other = second.subscriber("other", &options).expect("opens");
    let refused = second
        .subscriber("more", &options)
        .expect_err("two channels");
    check(refused, "channel", 2, &["second (pid", "has 2"]);

    // Two connections: the third subscriber is passed by, and the two others are served.
    let more = [0, 1].map(|_| subscriber(&second, &options));
    let refused = subscriber_refused(&first, &options);
    check(refused, "port", 5, &["second (pid", "has 4", "first (pid"]);
    let published = publish(&mut publisher, 7);
    assert_eq!((published.delivered, published.dropped), (2, 1));
    assert_eq!(publisher.statistics().dropped, 1);
    assert_eq!(taken(&mut taker), [7]);
    let refused = publisher.reaches_all().expect_err("one has no queue");
    check(refused, "connection", 2, &["second (pid", "has 2"]);
    // Connections become free, and the publisher finds them by itself.
    drop((taker, other));
    eventually("the third has a queue", || {
        let published = publish(&mut publisher, 8);
        (published.delivered, published.dropped) == (2, 0)
    });
    drop(more);
}

fn subscriber_refused(node: &Node, options: &SubscriberOptions) -> NodeError {
    node.subscriber("data", options)
        .expect_err("no port is left")
}

#[test]
fn greedy_subscriber_keeps_queues_from_nobody() {
    let root = Root::new();
    let pool = root.pool();
    let (sender, greedy) = (Node::join(&pool, "sender"), Node::join(&pool, "greedy"));
    let (sender, greedy) = (sender.expect("joins"), greedy.expect("joins"));
    let depth = |depth| SubscriberOptions::default().depth(depth);
    let refused = greedy.subscriber("data", &depth(32769));
    let refused = refused.expect_err("more than any queue has");
    assert_eq!(
        refused.refusal(),
        Some(&PoolError::QueueTooDeep {
            depth: 32769,
            free_capacity: 32768
        })
    );
    let mut deep = subscriber(&greedy, &depth(32768));
    let mut one = publisher(&sender, 0);
    assert_eq!(publish(&mut one, 1).delivered, 1);
    // All of its half is used: another publisher has no queue to it, and says so if there is nobody
    // else.
    let mut two = publisher(&sender, 0);
    let lease = two.lease(1).expect("free");
    let refused = two.publish(lease, 1).expect_err("nobody can have it");
    let free_capacity = 32;
    let depth_wanted = 32768;
    assert_eq!(
        refused.refusal(),
        Some(&PoolError::QueueTooDeep {
            depth: depth_wanted,
            free_capacity
        })
    );
    let refused = greedy.subscriber("elsewhere", &depth(64));
    assert!(refused.is_err(), "more than its half");
    let mut modest = subscriber(&sender, &depth(100));
    let published = publish(&mut two, 2);
    assert_eq!((published.delivered, published.dropped), (1, 1));
    assert_eq!(taken(&mut modest), [2]);
    assert_eq!(two.subscribers().expect("there is one"), 1);
    assert!(two.reaches_all().is_err() && one.reaches_all().is_ok());
    let mut usual = subscriber(&greedy, &SubscriberOptions::default());
    assert_eq!(publish(&mut one, 3).delivered, 3);
    assert_eq!(taken(&mut usual), [3]);
    // What passed it by while it had no queue, it is told with the first queue that it gets.
    let missed = two.statistics().dropped;
    drop(one);
    assert_eq!(taken(&mut deep), [1, 3]);
    eventually("there is queue memory again", || {
        two.subscribers().expect("sound") > 1 && two.reaches_all().is_ok()
    });
    publish(&mut two, 4);
    let first = deep.try_take().expect("sound").expect("waits");
    assert_eq!(u64::from(first.missed_before()), missed);
    assert_eq!(deep.statistics().dropped, missed);
    let shown = pool.snapshot().ports;
    let dropped = shown
        .iter()
        .filter(|port| port.kind == PortKind::Publisher)
        .map(|port| port.statistics.dropped);
    assert_eq!(dropped.max(), Some(2), "the losses are not visible");
}

/// What is kept keeps the participant, until its publisher goes.
#[test]
fn history_of_a_forgotten_node_goes_with_it() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "source").expect("joins");
    let mut publisher = publisher(&node, 5);
    publish_all(&mut publisher, 0..5);
    let own = pool.snapshot().audit.holders;
    let by_a_member = |kind| matches!(kind, HolderKind::Member(_));
    assert!(own.len() == 5 && own.iter().all(|holder| by_a_member(holder.kind)));
    drop(node);
    assert_eq!(pool.snapshot().members.len(), 1, "its publisher lives");
    drop(publisher);
    assert!(is_all_free(&pool));
    assert_eq!(pool.snapshot().members.len(), 0);
}

/// A batch goes the same ways as single messages: it is kept, and it evicts.
#[test]
fn batch_is_kept_and_evicts_the_oldest() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "both").expect("joins");
    let options = SubscriberOptions::default().depth(2);
    let mut newest = subscriber(&node, &options.clone().policy(PortPolicy::EvictOldest));
    let mut publisher = publisher(&node, 3);
    assert_eq!(publisher.subscribers().expect("sound"), 1);
    let batch = (0..5).map(|byte| {
        let mut lease = node.lease(1).expect("free");
        lease.write(0, &[byte]);
        (lease, 1)
    });
    let published = publisher.publish_batch(batch).expect("never blocks");
    assert_eq!((published.delivered, published.dropped), (5, 0));
    assert_eq!(published.evicted, 3);
    assert_eq!(publisher.statistics().dropped, 3);
    let mut late = subscriber(&node, &SubscriberOptions::default().history(8));
    assert_eq!(publisher.subscribers().expect("sound"), 2);
    assert_eq!(taken(&mut late), [2, 3, 4]);
    let mut batch = Vec::new();
    assert_eq!(newest.try_take_batch(8, &mut batch).expect("sound"), 2);
    let bytes: Vec<u8> = batch.iter().map(|sample| sample.to_vec()[0]).collect();
    assert_eq!(bytes, [3, 4]);
    drop((batch, newest, late, publisher));
    assert!(is_all_free(&pool));
}

/// Of a queue whose head is elsewhere a wait set says that it holds something, and that it is
/// empty.
#[test]
fn panicked_batch_announces_published_messages() {
    let root = Root::new();
    let pool = root.pool();
    let (sender, receiver) = (Node::join(&pool, "sender"), Node::join(&pool, "receiver"));
    let (sender, receiver) = (sender.expect("joins"), receiver.expect("joins"));
    let mut subscriber = subscriber(&receiver, &SubscriberOptions::default());
    let mut publisher = publisher(&sender, 0);
    let mut wait_set = receiver.wait_set().expect("made");
    let token = wait_set.attach(&mut subscriber).expect("free");
    assert_eq!(publisher.subscribers().expect("room"), 1);
    let ready = wait_set.wait(Duration::ZERO).expect("sound");
    assert_eq!(ready, []);

    let mut leases = (0..2).map(|_| (sender.lease(1).expect("free"), 1));
    let batch = std::iter::from_fn(|| Some(leases.next().expect("two were enough")));
    let panicking = std::panic::AssertUnwindSafe(|| publisher.publish_batch(batch));
    assert!(std::panic::catch_unwind(panicking).is_err());
    let ready = wait_set.wait(Duration::ZERO).expect("sound");
    assert_eq!(ready.len(), 1, "nobody was told");
    assert_eq!(ready[0].token(), token);
    assert_eq!(wait_set.unmarked(), 0, "found by a look at everything");
    assert_eq!(taken(&mut subscriber).len(), 2);
}

#[test]
fn wait_set_sees_what_waits_in_a_queue_that_drops_the_oldest() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "both").expect("joins");
    let options = SubscriberOptions::default().depth(2);
    let mut newest = subscriber(&node, &options.policy(PortPolicy::EvictOldest));
    let mut publisher = publisher(&node, 0);
    let mut wait_set = node.wait_set().expect("made");
    wait_set.attach(&mut newest).expect("attached");
    publish_all(&mut publisher, 0..5);
    let ready =
        |wait_set: &mut hythe_node::WaitSet, timeout| wait_set.wait(timeout).expect("sound").len();
    assert_eq!(ready(&mut wait_set, support::BOUND), 1);
    assert_eq!(taken(&mut newest), [3, 4]);
    assert_eq!(
        ready(&mut wait_set, Duration::from_millis(20)),
        0,
        "it is empty"
    );
    publish(&mut publisher, 5);
    assert_eq!(ready(&mut wait_set, support::BOUND), 1);
    assert_eq!(taken(&mut newest), [5]);
}

#[test]
fn blocking_subscriber_delays_no_other_subscriber() {
    let root = Root::new();
    let pool = root.pool();
    let [sender, quick, stuck] = ["sender", "quick", "stuck"].map(|name| Node::join(&pool, name));
    let (sender, quick) = (sender.expect("joins"), quick.expect("joins"));
    let stuck = stuck.expect("joins");
    let mut quick = subscriber(&quick, &SubscriberOptions::default().depth(64));
    let blocking = PortPolicy::Block { timeout_ms: 3_000 };
    let options = SubscriberOptions::default().depth(2).policy(blocking);
    let _stuck = subscriber(&stuck, &options);
    let mut publisher = publisher(&sender, 0);
    publish_all(&mut publisher, 0..2);
    assert_eq!(taken(&mut quick), [0, 1]);
    // Without a bell the taker would find the message by polling again. Should a nap end just when
    // the message comes, the next round is one more chance.
    let woken = (0..30).any(|_| {
        let before = quick.sleeps();
        std::thread::scope(|scope| {
            let (thread, take) = watched(|| quick.take(Duration::from_secs(30)).expect("sound"));
            let taker = scope.spawn(take);
            thread.until_asleep();
            let lease = publisher.lease(1).expect("free");
            let blocked = publisher.publish(lease, 1);
            assert!(
                matches!(blocked, Err(NodeError::Blocked { .. })),
                "{blocked:?}"
            );
            assert!(taker.join().expect("takes").is_some());
        });
        quick.sleeps() > before
    });
    assert!(woken, "the bell was rung only when the publisher gave up");
}

#[test]
fn history_longer_than_any_queue_is_refused_with_the_largest() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "one").expect("joins");
    let too_long = HISTORY_MAX + 1;
    let subscriber = SubscriberOptions::default().history(too_long);
    let publisher = PublisherOptions::default().history(too_long);
    for refused in [
        node.subscriber("data", &subscriber).map(drop),
        node.publisher("data", &publisher).map(drop),
    ] {
        let refused = refused.expect_err("longer than any queue");
        let NodeError::HistoryTooLong { messages, largest } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((messages, largest), (32_769, 32_768));
        let said = refused.to_string();
        assert!(said.contains("32769") && said.contains("32768"), "{said}");
    }
    let largest = SubscriberOptions::default().history(HISTORY_MAX);
    node.subscriber("data", &largest).expect("opens");
}

/// A participant leaves with messages in a queue, and another takes its number.
#[test]
fn queue_is_not_labelled_with_the_next_owner_of_a_number() {
    let root = Root::new();
    let pool = root.pool();
    let receiver = Node::join(&pool, "receiver").expect("joins");
    let slow = subscriber(&receiver, &SubscriberOptions::default());
    let sender = Node::join(&pool, "sender").expect("joins");
    let mut one = publisher(&sender, 0);
    publish(&mut one, 1);
    let labels = || {
        let seen = pool.snapshot();
        let held = seen.held_buffers();
        let queues = held
            .iter()
            .filter(|held| matches!(held.holder, HolderKind::Queue(_)));
        queues
            .map(|held| seen.holder_name(held.holder))
            .collect::<Vec<_>>()
    };
    let pid = std::process::id();
    let of_both = format!("queue from sender (pid {pid}) to receiver (pid {pid})");
    assert_eq!(labels(), [of_both]);
    let index_of = |name: &str| {
        let members = pool.snapshot().members;
        let found = members.iter().find(|member| member.name == name);
        found.map(|member| member.index)
    };
    let left = index_of("sender");
    drop((one, sender));
    let _next = Node::join(&pool, "stranger").expect("joins");
    assert_eq!(index_of("stranger"), left, "the number was not reused");
    let of_one = format!("queue from a participant that has left to receiver (pid {pid})");
    assert_eq!(labels(), [of_one]);
    drop(slow);
}
