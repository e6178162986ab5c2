//! Ports that come and go beside each other: nobody takes what is another's, and nothing waits for
//! a publisher to look.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::support::Root;
use hythe_memory::{Memory, Ordering};
use hythe_node::hop::HopPool as _;
use hythe_node::{
    Node, NodeError, Pool, PortPolicy, Publisher, PublisherOptions, Subscriber, SubscriberOptions,
};

const ROUNDS: usize = 300;

fn publisher(node: &Node, channel: &str) -> Publisher {
    let options = PublisherOptions::default();
    node.publisher(channel, &options).expect("opens")
}

fn subscriber(node: &Node, channel: &str) -> Subscriber {
    let options = SubscriberOptions::default();
    node.subscriber(channel, &options).expect("opens")
}

fn publish(publisher: &mut Publisher, byte: u8) {
    let mut lease = publisher.lease(1).expect("free");
    lease.write(0, &[byte]);
    publisher.publish(lease, 1).expect("never blocks");
}

fn is_all_free(pool: &Pool) -> bool {
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger does not add up");
    audit.free == audit.slots
}

/// Two programs that wait for each other before they send and take would else both wait for ever.
#[test]
fn subscriber_counts_publishers_that_have_not_connected() {
    let root = Root::new();
    let pool = root.pool();
    let [sender, other, node] = ["a", "b", "c"].map(|name| Node::join(&pool, name).expect("joins"));
    let mut early = publisher(&sender, "data");
    let _elsewhere = publisher(&sender, "other data");
    let mut subscriber = subscriber(&node, "data");
    let counts = |subscriber: &mut Subscriber| {
        let all = subscriber.publishers().expect("sound");
        (all, subscriber.connected_publishers().expect("sound"))
    };
    assert_eq!(counts(&mut subscriber), (1, 0), "it has not looked");
    assert_eq!(early.subscribers().expect("sound"), 1);
    assert_eq!(counts(&mut subscriber), (1, 1));
    let second = publisher(&sender, "data");
    let mut third = publisher(&other, "data");
    assert_eq!(counts(&mut subscriber).0, 3, "each port counts once");
    publish(&mut third, 3);
    drop((early, second, third));
    assert_eq!(counts(&mut subscriber), (1, 1), "its message waits");
    assert!(subscriber.try_take().expect("sound").is_some());
    assert_eq!(counts(&mut subscriber), (0, 0));
}

/// Two threads of one node open and close subscribers, so that one gets the port number that the
/// other has just given up.
#[test]
fn port_number_used_again_takes_nothing_of_the_port_before() {
    let root = Root::new();
    let pool = root.pool();
    let (sender, node) = (Node::join(&pool, "a"), Node::join(&pool, "b"));
    let (sender, node) = (sender.expect("joins"), node.expect("joins"));
    let mut ways = [publisher(&sender, "0"), publisher(&sender, "1")];
    for _ in 0..ROUNDS {
        let closing = subscriber(&node, "0");
        (0..20).for_each(|_| publish(&mut ways[0], 0));
        let start = Barrier::new(2);
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                drop(closing);
            });
            start.wait();
            let mut late = subscriber(&node, "1");
            let early = late.try_take().expect("sound");
            publish(&mut ways[1], 1);
            early.or_else(|| late.try_take().expect("sound"))
        });
        let taken = taken.expect("published after it opened");
        assert_eq!(taken.to_vec(), [1], "a message of another channel");
    }
    drop((ways, node, sender));
    assert!(is_all_free(&pool));
}

/// A message sent while its subscriber closes is nobody's: it goes back although the publisher does
/// nothing more.
#[test]
fn what_crosses_with_a_closing_port_comes_back() {
    let root = Root::new();
    let pool = root.pool();
    let (sender, node) = (Node::join(&pool, "a"), Node::join(&pool, "b"));
    let (sender, node) = (sender.expect("joins"), node.expect("joins"));
    let mut publisher = publisher(&sender, "data");
    for round in 0..ROUNDS {
        let closing = subscriber(&node, "data");
        publish(&mut publisher, 0);
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                drop(closing);
            });
            start.wait();
            (0..round % 50).for_each(|_| std::hint::spin_loop());
            publish(&mut publisher, 1);
        });
        let free = node.pool().control().tables().connections().count() == 0 || is_all_free(&pool);
        assert!(
            free,
            "something waits for an idle publisher in round {round}"
        );
    }
}

/// Who subscribes says how long a publisher may be made to wait; the publisher says for how long at
/// most.
#[test]
fn no_subscriber_blocks_for_longer_than_the_publisher_lets_it() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let policy = PortPolicy::Block {
        timeout_ms: u32::MAX,
    };
    let options = SubscriberOptions::default().depth(2).policy(policy);
    let _stuck = [0, 1].map(|_| node.subscriber("data", &options).expect("opens"));
    let send_timeout = Duration::from_millis(50);
    let options = PublisherOptions::default().send_timeout(send_timeout);
    let mut publisher = node.publisher("data", &options).expect("opens");
    (0..2).for_each(|_| publish(&mut publisher, 0));
    let start = Instant::now();
    let refused = publisher
        .publish(publisher.lease(1).expect("free"), 1)
        .expect_err("no room for a third");
    assert!(start.elapsed() >= send_timeout, "it did not wait");
    assert!(
        matches!(
            refused,
            NodeError::Blocked {
                waited_ms: 0..=50,
                ..
            }
        ),
        "{refused:?}"
    );
}

/// What a liar sent is passed over at once, and shows.
#[test]
fn message_behind_nonsense_is_taken_at_once() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut subscriber = subscriber(&node, "data");
    let mut publisher = publisher(&node, "data");
    for byte in 0..3 {
        publish(&mut publisher, byte);
    }
    let control = pool.control();
    let places = control
        .tables()
        .connections()
        .next()
        .expect("connected")
        .places;
    for number in 0..2 {
        // The second word is the generation; there is none that is 0.
        control
            .memory()
            .store(places.entries + number * 16 + 4, 0, Ordering::Relaxed);
    }
    let taken = subscriber.try_take().expect("sound").expect("it waits");
    assert_eq!(taken.to_vec(), [2]);
    let snapshot = pool.snapshot();
    let shown = snapshot.ports.iter().map(|port| port.statistics.violations);
    assert_eq!(shown.max(), Some(2));
}

/// A subscriber whose counter is impossible loses what it is sent; the others get it, and the
/// publisher hears of no error.
#[test]
fn lying_subscriber_keeps_nothing_from_the_others() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut honest = subscriber(&node, "data");
    let mut publisher = publisher(&node, "data");
    publish(&mut publisher, 0);
    let control = pool.control();
    let good = control
        .tables()
        .connections()
        .next()
        .expect("connected")
        .index;
    let _liar = subscriber(&node, "data");
    assert_eq!(publisher.subscribers().expect("sound"), 2);
    let bad = control
        .tables()
        .connections()
        .find(|info| info.index != good);
    let head = bad.expect("connected").places.head;
    control.memory().store(head, 0x8000_0000, Ordering::Relaxed);
    for byte in 0..40 {
        let taken = honest.try_take().expect("sound").expect("published");
        assert_eq!(taken.to_vec(), [byte]);
        publish(&mut publisher, byte + 1);
    }
    assert_eq!(publisher.statistics().violations, 1);
    assert_eq!(publisher.subscribers().expect("sound"), 1);
}
