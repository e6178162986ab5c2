//! What a host may do is judged at both ends, and changes while it is connected.

use crate::support::host::{ALL, LEASE, TestHost};
use crate::support::{BOUND, eventually};
use hythe_cluster::{ChannelState, Direction, Rights};
use hythe_node::{PublisherOptions, SubscriberOptions};

fn set(host: &TestHost, rules: &str) {
    let rights = Rights::parse(rules).expect("rules");
    host.agent.as_ref().expect("runs").set_rights(rights);
}

#[test]
fn refusal_names_rule_and_can_be_lifted() {
    let a = TestHost::with("a", "* * read\nb secret none\n", LEASE);
    let b = TestHost::with("b", ALL, LEASE);
    a.meet(&b);
    let (from, to) = (a.join("from"), b.join("to"));
    let options = PublisherOptions::default();
    let mut publisher = from.publisher("secret", &options).expect("opened");
    let options = SubscriberOptions::default();
    let mut subscriber = to.subscriber("secret", &options).expect("opened");
    eventually("the rule is shown", || {
        let session = b.status_of("a").and_then(|status| status.session);
        let channels = session.map_or_else(Vec::new, |session| session.channels);
        channels.iter().any(|channel| {
            channel.direction == Direction::Receiving
                && channel.state == ChannelState::Refused
                && channel.reason.contains("rule 2 there, `b secret none`")
        })
    });
    assert_eq!(publisher.subscribers().expect("sound"), 0);
    set(&a, ALL);
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let lease = publisher.lease(1).expect("a slot");
    publisher.publish(lease, 1).expect("published");
    assert!(subscriber.take(BOUND).expect("sound").is_some());
    // Taken away, the channel ends at once.
    set(&a, "");
    eventually("it is closed", || {
        publisher.subscribers().expect("sound") == 0
    });
    // The other end judges as well: what a may not write is not even wanted of it.
    set(&b, "");
    set(&a, ALL);
    eventually("it is not wanted", || {
        let session = a.status_of("b").and_then(|status| status.session);
        session.is_some_and(|session| session.channels.is_empty())
    });
    assert_eq!(publisher.subscribers().expect("sound"), 0);
    drop((publisher, subscriber, from, to));
    for mut host in [a, b] {
        host.agent = None;
        host.assert_settled(0);
    }
}
