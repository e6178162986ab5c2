//! A port that closes if nobody sends to it: what a publisher counts as delivered can be taken.

use std::time::Duration;

use crate::support::Root;
use hythe_node::{Node, PublisherOptions, Subscriber, SubscriberOptions, hop};
use hythe_testing::let_time_pass;

fn take_all(subscriber: &mut Subscriber) -> u64 {
    let mut taken = 0;
    while subscriber.try_take().expect("sound").is_some() {
        taken += 1;
    }
    taken
}

#[test]
fn port_with_a_publisher_stays_open() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "node").expect("joins");
    let open = || node.publisher("news", &PublisherOptions::default());
    let mut subscriber = node
        .subscriber("news", &SubscriberOptions::default())
        .expect("opens");
    let mut publisher = open().expect("opens");
    assert_eq!(publisher.subscribers().expect("sound"), 1);

    assert!(!hop::close_if_unused(&mut subscriber).expect("sound"));
    let lease = publisher.lease(1).expect("a slot");
    assert_eq!(publisher.publish(lease, 1).expect("sent").delivered, 1);
    drop(publisher);
    assert!(
        !hop::close_if_unused(&mut subscriber).expect("sound"),
        "its message is still to be taken"
    );
    let mut later = open().expect("opens");
    assert_eq!(later.subscribers().expect("sound"), 1);
    drop(later);
    assert_eq!(take_all(&mut subscriber), 1);

    assert!(hop::close_if_unused(&mut subscriber).expect("sound"));
    let mut latest = open().expect("opens");
    assert_eq!(latest.subscribers().expect("sound"), 0);
}

#[test]
fn publishers_that_come_as_a_port_closes_lose_nothing() {
    const PUBLISHERS: u64 = 2000;
    let root = Root::new();
    let pool = root.pool();
    let [from, to] = ["from", "to"].map(|name| Node::join(&pool, name).expect("joins"));
    let sending = std::thread::spawn(move || {
        let mut delivered = 0;
        for turn in 0..PUBLISHERS {
            let options = PublisherOptions::default();
            let mut publisher = from.publisher("news", &options).expect("opens");
            let lease = publisher.lease(1).expect("a slot");
            let published = publisher.publish(lease, 1).expect("sent");
            delivered += u64::from(published.delivered);
            drop(publisher);
            // At other steps of the closing each time.
            let_time_pass(Duration::from_micros(turn % 50), "at other steps each time");
        }
        delivered
    });
    let (mut taken, mut closed) = (0, 0);
    while !sending.is_finished() {
        let options = SubscriberOptions::default();
        let mut subscriber = to.subscriber("news", &options).expect("opens");
        while !hop::close_if_unused(&mut subscriber).expect("sound") {
            taken += take_all(&mut subscriber);
        }
        closed += 1;
    }
    let delivered = sending.join().expect("sent");
    assert_eq!(taken, delivered, "of {PUBLISHERS}, {closed} ports");
    assert!(
        delivered > 0,
        "none of {PUBLISHERS} met one of {closed} ports"
    );
}
