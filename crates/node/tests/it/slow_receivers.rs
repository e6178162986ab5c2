//! Receivers that are stopped while others are not: what they may occupy of a pool, and what the
//! others and the sender notice of it. The sender waits for the answers of the lively ones, so that
//! the load of the machine decides nothing.

use std::time::Duration;

use crate::support::{BOUND, Root};
use hythe_node::{
    ClientOptions, Node, NodeError, Pool, PoolError, PortPolicy, Publisher, PublisherOptions,
    ServerOptions, SlotClass, Subscriber, SubscriberOptions,
};
use hythe_testing::watched;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// From the smallest class to the largest.
const SIZES: [usize; 7] = [8, 768, 3840, 16 * KIB, 64 * KIB, MIB, 4 * MIB];
/// For as long as it takes to see that nobody makes room: at once.
const SOON: Duration = Duration::from_millis(1);

fn pool_of(root: &Root, mib: usize) -> Pool {
    let options = root.options().bytes(mib * MIB);
    Pool::open_or_create(&options).expect("a pool")
}

fn join(pool: &Pool, name: &str) -> Node {
    Node::join(pool, name).expect("joins")
}

/// The class that messages of this size are in first.
fn class_for(pool: &Pool, bytes: usize) -> Option<SlotClass> {
    let snapshot = pool.snapshot();
    let mut classes = snapshot.regions[0].classes.iter();
    classes
        .find(|class| class.payload_bytes() >= bytes)
        .copied()
}

fn used(pool: &Pool) -> u32 {
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger does not add up");
    audit.slots - audit.free
}

/// Publishes a number in a message of `bytes`. Whom it passes by does not matter here.
fn send(publisher: &mut Publisher, number: u64, bytes: usize) {
    let mut lease = publisher.lease(bytes).expect("a free slot");
    lease.write(0, &number.to_le_bytes());
    match publisher.publish(lease, bytes) {
        Ok(_) | Err(NodeError::Blocked { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn number_in(sample: &hythe_node::Sample) -> u64 {
    let mut bytes = [0; 8];
    sample.read(0, &mut bytes);
    u64::from_le_bytes(bytes)
}

/// What a lively one takes; `None`: it has lost it.
fn take(subscriber: &mut Subscriber) -> Option<u64> {
    let sample = subscriber.take(BOUND).expect("sound");
    sample.map(|sample| number_in(&sample))
}

fn all_that_waits(subscriber: &mut Subscriber) -> Vec<u64> {
    std::iter::from_fn(|| subscriber.try_take().expect("sound"))
        .map(|sample| number_in(&sample))
        .collect()
}

/// One that never takes, and three that answer each message.
fn one_stopped_and_three_lively(mib: usize, bytes: usize, policy: PortPolicy, depth: u32) {
    let root = Root::new();
    let pool = pool_of(&root, mib);
    let Some(class) = class_for(&pool, bytes).filter(|class| class.count >= 4) else {
        return;
    };
    let what = format!(
        "{bytes} B, {mib} MiB, {policy:?}, depth {depth}, {} slots",
        class.count
    );
    let (sender, stopped, others) = (join(&pool, "a"), join(&pool, "b"), join(&pool, "c"));
    let options = SubscriberOptions::default().policy(policy).depth(depth);
    let mut stopped = stopped.subscriber("data", &options).expect("opens");
    let lively = || others.subscriber("data", &SubscriberOptions::default());
    let mut lively = [(); 3].map(|()| lively().expect("opens"));
    let options = PublisherOptions::default().send_timeout(SOON);
    let mut publisher = sender.publisher("data", &options).expect("opens");
    let half = class.count / 2;
    let kept = u64::from(depth.next_power_of_two().min(half));
    let messages = kept + 3 * u64::from(class.count.min(40));
    for number in 0..messages {
        send(&mut publisher, number, bytes);
        for subscriber in &mut lively {
            assert_eq!(take(subscriber), Some(number), "{what}");
        }
    }
    assert_eq!(u64::from(used(&pool)), kept, "{what}");
    let expected: Vec<u64> = match policy {
        PortPolicy::EvictOldest => (messages - kept..messages).collect(),
        PortPolicy::DropNewest | PortPolicy::Block { .. } => (0..kept).collect(),
    };
    assert_eq!(all_that_waits(&mut stopped), expected, "{what}");
    // Awake, it is one of the lively ones.
    for number in messages..messages + 20 {
        send(&mut publisher, number, bytes);
        assert_eq!(take(&mut stopped), Some(number), "{what}");
        assert_eq!(lively.each_mut().map(take), [Some(number); 3], "{what}");
    }
    drop((publisher, stopped, lively));
    assert_eq!(used(&pool), 0, "{what}");
}

const POLICIES: [PortPolicy; 3] = [
    PortPolicy::DropNewest,
    PortPolicy::EvictOldest,
    PortPolicy::Block { timeout_ms: 60_000 },
];

fn with_every_size_and_policy(mib: usize) {
    for bytes in SIZES {
        for policy in POLICIES {
            for depth in [2, 32, 1024] {
                one_stopped_and_three_lively(mib, bytes, policy, depth);
            }
        }
    }
}

#[test]
fn stopped_receiver_blocks_no_other_in_9_mib() {
    with_every_size_and_policy(9);
}

#[test]
fn stopped_receiver_blocks_no_other_in_32_mib() {
    with_every_size_and_policy(32);
}

#[test]
fn stopped_receiver_blocks_no_other_in_64_mib() {
    with_every_size_and_policy(64);
}

/// One of each policy, stopped one after the other, so that each has messages of its own; two
/// publishers; and one receiver that is lively all the time.
#[test]
fn many_stopped_receivers_leave_slot_for_live_one() {
    let root = Root::new();
    let pool = pool_of(&root, 64);
    let [sender, other, sleepers, awake] = ["a", "b", "c", "d"].map(|name| join(&pool, name));
    let mut lively = awake
        .subscriber("data", &SubscriberOptions::default())
        .expect("opens");
    let options = PublisherOptions::default().send_timeout(SOON);
    let publisher = |node: &Node| node.publisher("data", &options).expect("opens");
    let mut publishers = [publisher(&sender), publisher(&other)];
    let (mut number, mut stopped) = (0, Vec::new());
    for policy in POLICIES.into_iter().cycle().take(8) {
        let options = SubscriberOptions::default().policy(policy);
        stopped.push(sleepers.subscriber("data", &options).expect("opens"));
        for _ in 0..30 {
            for publisher in &mut publishers {
                send(publisher, number, MIB);
                assert_eq!(
                    take(&mut lively),
                    Some(number),
                    "{} are stopped",
                    stopped.len()
                );
                number += 1;
            }
        }
    }
}

/// Each publisher is new to its receivers, and what it left behind waits for the stopped one.
#[test]
fn publishers_that_come_and_go_reach_the_lively_one() {
    let root = Root::new();
    let pool = pool_of(&root, 64);
    let [sender, sleeper, awake] = ["a", "b", "c"].map(|name| join(&pool, name));
    let _stopped = sleeper
        .subscriber("data", &SubscriberOptions::default())
        .expect("opens");
    let mut lively = awake
        .subscriber("data", &SubscriberOptions::default())
        .expect("opens");
    let options = PublisherOptions::default().send_timeout(SOON);
    for number in 0..100 {
        let mut publisher = sender.publisher("data", &options).expect("opens");
        send(&mut publisher, number, MIB);
        assert_eq!(take(&mut lively), Some(number));
    }
}

/// What it holds counts as what waits for it: it may not have all in its hands, either.
#[test]
fn hoarding_subscriber_gets_half_of_slots() {
    let root = Root::new();
    let pool = pool_of(&root, 64);
    let class = class_for(&pool, MIB).expect("a class");
    let (sender, keeper) = (join(&pool, "a"), join(&pool, "b"));
    for policy in POLICIES {
        let options = SubscriberOptions::default().policy(policy);
        let mut subscriber = keeper.subscriber("data", &options).expect("opens");
        let options = PublisherOptions::default().send_timeout(SOON);
        let mut publisher = sender.publisher("data", &options).expect("opens");
        let mut kept = Vec::new();
        for number in 0..40 {
            send(&mut publisher, number, MIB);
            kept.extend(subscriber.try_take().expect("sound"));
        }
        assert_eq!(kept.len(), class.count as usize / 2, "{policy:?}");
        // Given back, they are there again at once.
        kept.clear();
        send(&mut publisher, 40, MIB);
        assert_eq!(take(&mut subscriber), Some(40), "{policy:?}");
    }
}

/// Many parts of one slot occupy one slot.
#[test]
fn parts_of_a_slot_count_once() {
    let root = Root::new();
    let pool = pool_of(&root, 64);
    let (sender, receiver) = (join(&pool, "a"), join(&pool, "b"));
    let options = SubscriberOptions::default().depth(1024);
    let mut subscriber = receiver.subscriber("data", &options).expect("opens");
    let mut publisher = sender
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let slots = [1, 2].map(|_| publisher.lease(MIB).expect("free").freeze(MIB));
    for number in 0..200 {
        // In turns: each of them is sent again behind the other.
        let part = slots[number % 2].part(number * 64, 64).expect("a part");
        let published = publisher.forward(part).expect("room");
        assert_eq!((published.delivered, published.dropped), (1, 0));
    }
    drop(slots);
    let taken = std::iter::from_fn(|| subscriber.try_take().expect("sound"));
    assert_eq!(taken.count(), 200);
}

/// A client whose server is stopped passes it by at half of the class, and the pool serves others.
#[test]
fn stopped_server_leaves_slots_for_others() {
    let root = Root::new();
    let pool = pool_of(&root, 64);
    let class = class_for(&pool, MIB).expect("a class");
    let (asking, serving) = (join(&pool, "a"), join(&pool, "b"));
    let _server = serving
        .server("sums", &ServerOptions::default())
        .expect("opens");
    let options = ClientOptions::default().send_timeout(SOON);
    let mut client = asking.client("sums", &options).expect("opens");
    let mut sent = 0;
    loop {
        let lease = client.lease(MIB).expect("a free slot");
        match client.request(lease, MIB) {
            Ok(_) => sent += 1,
            Err(NodeError::ServersFull { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((sent, used(&pool)), (class.count / 2, class.count / 2));
}

/// A server whose client is stopped drops its replies at half of the class, and serves others.
#[test]
fn stopped_client_leaves_slots_for_others() {
    let root = Root::new();
    let pool = pool_of(&root, 64);
    let class = class_for(&pool, MIB).expect("a class");
    let (asking, serving) = (join(&pool, "a"), join(&pool, "b"));
    let mut server = serving
        .server("sums", &ServerOptions::default())
        .expect("opens");
    let client = || asking.client("sums", &ClientOptions::default());
    let (mut stopped, mut lively) = (client().expect("opens"), client().expect("opens"));
    let mut replied = 0;
    for _ in 0..class.count {
        let lease = stopped.lease(8).expect("free");
        stopped.request(lease, 8).expect("room");
        let request = server.take(BOUND).expect("sound").expect("a request");
        let lease = server.lease(MIB).expect("a free slot");
        replied += u32::from(request.reply(lease, MIB).expect("sound"));
    }
    assert_eq!(replied, class.count / 2);
    for _ in 0..20 {
        let lease = lively.lease(8).expect("free");
        let pending = lively.request(lease, 8).expect("room");
        let request = server.take(BOUND).expect("sound").expect("a request");
        let lease = server.lease(MIB).expect("a free slot");
        assert!(request.reply(lease, MIB).expect("sound"));
        let reply = lively.wait(pending, BOUND).expect("sound");
        assert_eq!(reply.expect("a reply").len(), MIB);
    }
}

#[test]
fn lease_waits_until_a_slot_is_free() {
    let root = Root::new();
    let pool = pool_of(&root, 64);
    let node = join(&pool, "a");
    let options = PublisherOptions::default().send_timeout(BOUND);
    let publisher = node.publisher("data", &options).expect("opens");
    let full = |bytes| {
        let mut held = Vec::new();
        while let Ok(lease) = node.try_lease_in(hythe_node::RegionIndex(0), bytes) {
            held.push(lease);
        }
        held
    };
    let held = full(MIB);
    std::thread::scope(|scope| {
        let (thread, lease) = watched(|| publisher.lease(MIB).map(drop));
        let waiting = scope.spawn(lease);
        thread.until_asleep();
        assert!(!waiting.is_finished(), "it did not wait");
        drop(held);
        waiting.join().expect("no panic").expect("a slot came free");
    });
}

/// The pool has fewer slots than receivers: the error says which would do, and that one does.
#[test]
fn pool_too_small_for_its_receivers_says_which_size_suffices() {
    let root = Root::new();
    let pool = pool_of(&root, 64);
    let node = join(&pool, "a");
    let large = 4 * MIB;
    let slots = class_for(&pool, large).expect("a class").count;
    let receivers = slots + 3;
    let mut subscribers = Vec::new();
    for _ in 0..receivers {
        let subscriber = node.subscriber("data", &SubscriberOptions::default());
        subscribers.push(subscriber.expect("opens"));
    }
    let options = PublisherOptions::default().send_timeout(SOON);
    let mut publisher = node.publisher("data", &options).expect("opens");
    assert_eq!(publisher.subscribers().expect("sound"), receivers as usize);
    let held: Vec<_> = (0..slots).map(|_| publisher.lease(large)).collect();
    let refused = publisher.lease(large).expect_err("none is free");
    let NodeError::Exhausted(full) = &refused else {
        panic!("{refused:?}")
    };
    assert!(
        matches!(full.cause, PoolError::PoolFull { .. }),
        "{refused}"
    );
    let remedy = full.remedy.expect("the pool is too small");
    assert_eq!(
        (remedy.receivers, remedy.slots),
        (receivers as usize, receivers + 2)
    );
    let mib = remedy.pool_bytes / MIB;
    assert!(
        refused
            .to_string()
            .contains(&format!("a pool of {mib} MiB has them")),
        "{refused}"
    );
    let enough = |mib: usize| {
        let root = Root::new();
        let geometry = pool_of(&root, mib).snapshot();
        let classes = geometry.regions[0].classes.iter();
        let fitting = classes.filter(|class| class.payload_bytes() >= large);
        fitting.map(|class| class.count).sum::<u32>() >= remedy.slots
    };
    assert!(enough(mib) && !enough(mib - 1), "{mib} MiB");
    drop(held);
}
