//! Subscribers that block their publisher, on another host: it is held up for as long as both
//! permit, nothing is lost meanwhile, and what is lost then is counted where that happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::host::{TestHost, pair};
use crate::support::{BOUND, eventually};
use hythe_cluster::Losses;
use hythe_node::{
    Node, NodeError, PortPolicy, Publisher, PublisherOptions, Subscriber, SubscriberOptions,
};
use hythe_testing::let_time_pass;

/// More than fit all queues and windows between the two.
const MESSAGES: u32 = 400;
/// Longer than any wait of an agent that is not for a subscriber.
const STANDSTILL: Duration = Duration::from_secs(3);

/// What of a publisher was given to its channel.
type Count = Arc<AtomicU32>;

fn publisher(node: &Node, channel: &str, send_timeout: Duration) -> Publisher {
    let options = PublisherOptions::default().send_timeout(send_timeout);
    node.publisher(channel, &options).expect("opened")
}

fn subscriber(node: &Node, channel: &str, timeout_ms: u32) -> Subscriber {
    let policy = PortPolicy::Block { timeout_ms };
    let options = SubscriberOptions::default().policy(policy).depth(8);
    node.subscriber(channel, &options).expect("opened")
}

fn publish(publisher: &mut Publisher, number: u32) -> Result<(), NodeError> {
    let mut lease = publisher.lease(4)?;
    lease.write(0, &number.to_le_bytes());
    publisher.publish(lease, 4).map(drop)
}

/// `in_one` messages at a time; those that were given are counted. Says how many a subscriber did
/// not get in time.
fn publish_all(publisher: &mut Publisher, in_one: u32, given: &AtomicU32) -> u32 {
    let mut blocked = 0;
    for first in (0..MESSAGES).step_by(in_one as usize) {
        let published = match in_one {
            1 => publish(publisher, first),
            _ => {
                let leases = (first..first + in_one).map(|number| {
                    let mut lease = publisher.lease(4).expect("a slot");
                    lease.write(0, &number.to_le_bytes());
                    (lease, 4)
                });
                let leases: Vec<_> = leases.collect();
                publisher.publish_batch(leases).map(drop)
            }
        };
        match published {
            Ok(()) => {}
            Err(NodeError::Blocked { .. }) => blocked += 1,
            Err(error) => panic!("{error}"),
        }
        given.fetch_add(in_one, Ordering::SeqCst);
    }
    blocked
}

fn number(subscriber: &mut Subscriber) -> u32 {
    let sample = subscriber.take(BOUND).expect("sound").expect("in time");
    u32::from_le_bytes(sample.to_vec()[..4].try_into().expect("a number"))
}

fn losses(host: &TestHost, of: &str) -> Losses {
    host.status_of(of).expect("known").losses
}

/// Waits until nothing more is given for so long: the publisher is held up.
fn stands_still(given: &AtomicU32) -> u32 {
    loop {
        let before = given.load(Ordering::SeqCst);
        let_time_pass(STANDSTILL, "nothing more comes in this time");
        if before > 0 && given.load(Ordering::SeqCst) == before {
            return before;
        }
    }
}

fn end(hosts: [TestHost; 2]) {
    for mut host in hosts {
        host.agent = None;
        host.assert_settled(0);
    }
}

/// The subscriber stands still for longer than any other wait takes, and gets all of it.
fn a_publisher_is_held_up(in_one: u32) {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "news", BOUND);
    let mut subscriber = subscriber(&to, "news", 60_000);
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let given = Count::default();
    let counted = Arc::clone(&given);
    let sending = std::thread::spawn(move || {
        let blocked = publish_all(&mut publisher, in_one, &counted);
        (publisher, blocked)
    });
    let before = stands_still(&given);
    assert!(before < MESSAGES, "it is held up");
    for expected in 0..MESSAGES {
        assert_eq!(number(&mut subscriber), expected);
    }
    let (publisher, blocked) = sending.join().expect("sent");
    assert_eq!(blocked, 0);
    assert_eq!(subscriber.statistics().dropped, 0);
    assert_eq!(losses(&a, "b"), Losses::default());
    assert_eq!(losses(&b, "a"), Losses::default());
    drop((publisher, subscriber, from, to));
    end([a, b]);
}

#[test]
fn publisher_of_single_messages_is_held_up() {
    a_publisher_is_held_up(1);
}

#[test]
fn publisher_of_batches_is_held_up() {
    a_publisher_is_held_up(20);
}

/// It stands still for longer than it asked for: what comes then is lost, by its publisher or in
/// front of its queue, and each message is counted once.
#[test]
fn late_subscriber_counts_missed_messages_once() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "news", BOUND);
    let mut subscriber = subscriber(&to, "news", 300);
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let blocked = publish_all(&mut publisher, 1, &AtomicU32::new(0));
    // Its publisher was told of each that found no place, and counted it.
    assert_eq!(publisher.statistics().dropped, u64::from(blocked));
    let not_delivered = || losses(&b, "a").not_delivered;
    let queued = 8;
    eventually("all else is in the queue or lost in front of it", || {
        not_delivered() + u64::from(blocked + queued) == u64::from(MESSAGES)
    });
    assert!(not_delivered() > 0, "its time is over there");
    for expected in 0..queued {
        assert_eq!(number(&mut subscriber), expected);
    }
    // It takes again, so it is waited for again.
    for expected in 0..MESSAGES {
        publish(&mut publisher, expected).expect("there is room");
        assert_eq!(number(&mut subscriber), expected);
    }
    let expected = Losses {
        not_delivered: u64::from(MESSAGES - blocked - queued),
        ..Losses::default()
    };
    assert_eq!(losses(&b, "a"), expected);
    // Those that its publisher dropped are told to the other host, too.
    let expected = Losses {
        not_sent: blocked.into(),
        ..Losses::default()
    };
    assert_eq!(losses(&a, "b"), expected);
    drop((publisher, subscriber, from, to));
    end([a, b]);
}

/// A channel that stands still holds up no other, nor the hosts' session: messages and their
/// acknowledgements, a subscriber that comes, and the end of it all.
#[test]
fn channel_that_stands_still_stops_no_other() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut slow = publisher(&from, "slow", Duration::ZERO);
    let standing = subscriber(&to, "slow", u32::MAX);
    assert!(slow.wait_for_subscribers(1, BOUND).expect("sound"));
    eventually("all queues are full", || publish(&mut slow, 0).is_err());
    for round in 0..3 {
        let channel = format!("fast {round}");
        let mut fast = publisher(&from, &channel, BOUND);
        let mut taking = subscriber(&to, &channel, 60_000);
        assert!(fast.wait_for_subscribers(1, BOUND).expect("sound"));
        for expected in 0..MESSAGES {
            publish(&mut fast, expected).expect("published");
            assert_eq!(number(&mut taking), expected);
        }
    }
    // One more on the slow channel is shown to its publishers meanwhile.
    let mut other = to
        .subscriber("slow", &SubscriberOptions::default())
        .expect("opened");
    assert_eq!(losses(&b, "a").not_delivered, 0, "it asks to be waited for");
    // The one that stands still goes; the other gets what waited for it.
    drop(standing);
    assert!(other.take(BOUND).expect("sound").is_some());
    assert!(a.is_connected_to("b") && b.is_connected_to("a"));
    drop((slow, other, from, to));
    end([a, b]);
}

/// The session ends while a message waits for its subscriber: it was not taken over, and nobody
/// waits for longer.
#[test]
fn session_ends_at_once_while_a_message_waits() {
    let (a, mut b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "news", Duration::ZERO);
    let standing = subscriber(&to, "news", u32::MAX);
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    eventually("all queues are full", || {
        publish(&mut publisher, 0).is_err()
    });
    // Ends its session first, and waits for all threads of it.
    b.agent = None;
    eventually("it is gone there", || !a.is_connected_to("b"));
    assert!(losses(&a, "b").unconfirmed > 0);
    drop((publisher, standing, from, to));
    end([a, b]);
}
