//! Several subscribers of one host on a channel with history on another: each gets what it asked
//! for, whenever it comes, and the bytes cross once.

use std::sync::atomic::Ordering;

use crate::support::host::{TestHost, pair};
use crate::support::{BOUND, eventually};
use hythe_node::{Node, PortPolicy, Publisher, PublisherOptions, Subscriber, SubscriberOptions};

const KEPT: u32 = 8;

fn keeping(node: &Node) -> Publisher {
    let options = PublisherOptions::default().history(KEPT);
    let publisher = node.publisher("state", &options.send_timeout(BOUND));
    publisher.expect("opened")
}

fn wanting(history: u32) -> SubscriberOptions {
    let policy = PortPolicy::Block { timeout_ms: 60_000 };
    SubscriberOptions::default().history(history).policy(policy)
}

fn send(publisher: &mut Publisher, number: u32) {
    let mut lease = publisher.lease(4).expect("a slot");
    lease.write(0, &number.to_le_bytes());
    publisher.publish(lease, 4).expect("published");
}

fn number(subscriber: &mut Subscriber) -> u32 {
    let sample = subscriber.take(BOUND).expect("sound").expect("in time");
    u32::from_le_bytes(sample.to_vec()[..4].try_into().expect("a number"))
}

fn numbers(subscriber: &mut Subscriber, count: u32) -> Vec<u32> {
    (0..count).map(|_| number(subscriber)).collect()
}

/// Everything of the test is gone, and both agents, too: so are all holds.
fn end(hosts: [TestHost; 2]) {
    for mut host in hosts {
        host.agent = None;
        host.assert_settled(0);
    }
}

/// Opens a subscriber, and has one more message sent behind that.
struct Joining<'a> {
    node: &'a Node,
    publisher: Publisher,
    sent: u32,
}

impl Joining<'_> {
    fn send(&mut self) -> u32 {
        send(&mut self.publisher, self.sent);
        self.sent += 1;
        self.sent - 1
    }

    fn join(&mut self, history: u32) -> (Subscriber, u32) {
        let opened = self.node.subscriber("state", &wanting(history));
        let mut subscriber = opened.expect("opened");
        eventually("it is connected", || {
            self.publisher.subscribers().expect("sound") == 1
                && subscriber.connected_publishers().expect("sound") > 0
        });
        (subscriber, self.send())
    }
}

/// Those that come later ask for less, as much, none, and at last for more than those before them:
/// of what came before anybody asked for that, the host keeps no more.
#[test]
fn each_subscriber_gets_as_much_of_the_past_as_it_asks_for() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut joining = Joining {
        node: &to,
        publisher: keeping(&from),
        sent: 0,
    };
    for _ in 0..20 {
        joining.send();
    }
    let mut subscribers: Vec<Subscriber> = Vec::new();
    for (history, given) in [
        (4, 4),
        (2, 2),
        (4, 4),
        (0, 0),
        (1, 1),
        (8, 4),
        (8, 8),
        (3, 3),
    ] {
        let (mut subscriber, last) = joining.join(history);
        let expected: Vec<u32> = (last - given..=last).collect();
        let number_of = subscribers.len();
        let seen = numbers(&mut subscriber, given + 1);
        assert_eq!(seen, expected, "{history} for subscriber {number_of}");
        for earlier in &mut subscribers {
            assert_eq!(number(earlier), last, "and nothing twice");
        }
        subscribers.push(subscriber);
        for _ in 0..KEPT {
            let last = joining.send();
            for subscriber in &mut subscribers {
                assert_eq!(number(subscriber), last);
            }
        }
    }
    drop((joining, subscribers, from));
    drop(to);
    end([a, b]);
}

/// Eight that come before anything is sent, each with a history of its own, and eight that come
/// after: the messages cross once.
#[test]
fn past_crosses_once_for_all_subscribers_of_a_host() {
    const MESSAGE: usize = 50_000;
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = keeping(&from);
    let mut sent = 0_u32;
    let mut send = |publisher: &mut Publisher| {
        let mut lease = publisher.lease(MESSAGE).expect("a slot");
        lease.write(0, &sent.to_le_bytes());
        publisher.publish(lease, MESSAGE).expect("published");
        sent += 1;
    };
    (0..3).for_each(|_| send(&mut publisher));
    let before = a.carrier.sent_bytes.load(Ordering::Relaxed);
    let open = |_| to.subscriber("state", &wanting(3)).expect("opened");
    let mut subscribers: Vec<Subscriber> = (0..8).map(open).collect();
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for subscriber in &mut subscribers {
        assert_eq!(numbers(subscriber, 3), [0, 1, 2]);
    }
    let mut later: Vec<Subscriber> = (0..8).map(open).collect();
    for subscriber in &mut later {
        assert_eq!(numbers(subscriber, 3), [0, 1, 2]);
    }
    send(&mut publisher);
    for subscriber in subscribers.iter_mut().chain(&mut later) {
        assert_eq!(number(subscriber), 3);
    }
    let crossed = a.carrier.sent_bytes.load(Ordering::Relaxed) - before;
    assert!((4..5).contains(&(crossed / MESSAGE as u64)), "{crossed}");
    drop((publisher, subscribers, later, from, to));
    end([a, b]);
}
