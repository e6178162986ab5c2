//! Publishers on one host, subscribers on another.

mod support;

use hythe_node::{PublisherOptions, SubscriberOptions};
use support::host::pair;
use support::{BOUND, eventually};

#[test]
fn a_message_crosses_and_nothing_is_left() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = from
        .publisher("news", &PublisherOptions::default())
        .expect("opened");
    let mut subscriber = to
        .subscriber("news", &SubscriberOptions::default())
        .expect("opened");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for number in 0_u32..100 {
        let text = format!("message {number}");
        let mut lease = publisher.lease(text.len()).expect("a slot");
        lease.write(0, text.as_bytes());
        publisher.publish(lease, text.len()).expect("published");
        let sample = subscriber.take(BOUND).expect("sound").expect("in time");
        assert_eq!(sample.to_vec(), text.as_bytes());
    }
    drop((publisher, subscriber));
    eventually("all is given back", || {
        a.pool.snapshot().audit.free == a.pool.snapshot().audit.slots
    });
    drop((from, to));
    for mut host in [a, b] {
        host.agent = None;
        host.assert_settled(0);
    }
}
