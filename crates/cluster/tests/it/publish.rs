//! Publishers on one host, subscribers on another.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::host::{TestHost, pair};
use crate::support::{BOUND, eventually};
use hythe_cluster::{ChannelState, Direction};
use hythe_node::{
    ChannelType, Node, PortKind, PortPolicy, Publisher, PublisherOptions, Subscriber,
    SubscriberOptions,
};
use hythe_testing::let_time_pass;

fn publisher(node: &Node, channel: &str) -> Publisher {
    let options = PublisherOptions::default().send_timeout(BOUND);
    node.publisher(channel, &options).expect("opened")
}

fn blocking() -> SubscriberOptions {
    let policy = PortPolicy::Block { timeout_ms: 60_000 };
    SubscriberOptions::default().policy(policy)
}

fn send(publisher: &mut Publisher, payload: &[u8]) {
    let mut lease = publisher.lease(payload.len()).expect("a slot");
    lease.write(0, payload);
    publisher.publish(lease, payload.len()).expect("published");
}

fn take(subscriber: &mut Subscriber) -> Vec<u8> {
    let sample = subscriber.take(BOUND).expect("sound").expect("in time");
    sample.to_vec()
}

fn number(subscriber: &mut Subscriber) -> u32 {
    let bytes = take(subscriber);
    u32::from_le_bytes(bytes[..4].try_into().expect("a number"))
}

/// Everything of the test is gone, and both agents, too: so are all holds.
fn end(hosts: [TestHost; 2]) {
    for mut host in hosts {
        host.agent = None;
        host.assert_settled(0);
    }
}

#[test]
fn message_crosses_and_nothing_is_left() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "news");
    let mut subscriber = to.subscriber("news", &blocking()).expect("opened");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for number in 0_u32..100 {
        let text = format!("message {number}");
        send(&mut publisher, text.as_bytes());
        assert_eq!(take(&mut subscriber), text.as_bytes());
    }
    drop((publisher, subscriber));
    eventually("all is given back", || {
        let audit = a.pool.snapshot().audit;
        audit.free == audit.slots
    });
    drop((from, to));
    end([a, b]);
}

/// A subscriber that waits gets the first message of a publisher, also of one that goes at once.
#[test]
fn opened_publisher_knows_subscribers_of_other_hosts() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    for round in 0_u32..20 {
        let channel = format!("once {round}");
        let mut subscriber = to.subscriber(&channel, &blocking()).expect("opened");
        eventually("host a knows that it is wanted", || {
            let session = a.status_of("b").and_then(|status| status.session);
            let channels = session.expect("connected").channels;
            channels.iter().any(|wanted| wanted.channel == channel)
        });
        let mut publisher = publisher(&from, &channel);
        assert_eq!(publisher.subscribers().expect("sound"), 1);
        for count in 0..3 {
            send(&mut publisher, &(round + count).to_le_bytes());
        }
        drop(publisher);
        for count in 0..3 {
            assert_eq!(number(&mut subscriber), round + count);
        }
    }
    drop((from, to));
    end([a, b]);
}

/// One that comes while the stream of those before it is about to end sends to the next one.
#[test]
fn publishers_that_come_and_go_in_turn_lose_nothing() {
    const TURNS: u32 = 1000;
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut subscriber = to.subscriber("turns", &blocking()).expect("opened");
    let sending = std::thread::spawn(move || {
        for turn in 0..TURNS {
            let mut publisher = publisher(&from, "turns");
            // A port that closes just now takes nothing, and says so.
            let mut delivered = 0;
            while delivered == 0 {
                assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
                let mut lease = publisher.lease(4).expect("a slot");
                lease.write(0, &turn.to_le_bytes());
                delivered = publisher.publish(lease, 4).expect("published").delivered;
            }
            drop(publisher);
            // At other steps of the end of the stream each time.
            let moment = Duration::from_micros(u64::from(turn % 50) * 40);
            let_time_pass(moment, "another moment each time");
        }
        from
    });
    // Those of several publishers have no order.
    let mut came: Vec<u32> = (0..TURNS).map(|_| number(&mut subscriber)).collect();
    came.sort_unstable();
    assert_eq!(came, (0..TURNS).collect::<Vec<_>>());
    let from = sending.join().expect("sent");
    drop((subscriber, from, to));
    end([a, b]);
}

/// Also of sizes that come in many pieces, with a window that is used up again and again.
#[test]
fn all_sizes_come_whole_and_in_order() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "bulk");
    let mut subscriber = to.subscriber("bulk", &blocking()).expect("opened");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let sizes = [0, 1, 31, 32, 33, 4096, 70_000, 600_000];
    let payload = |round: usize, size: usize| -> Vec<u8> {
        (0..size).map(|at| (at * 7 + round) as u8).collect()
    };
    let sending = std::thread::spawn(move || {
        for round in 0..40 {
            for size in sizes {
                send(&mut publisher, &payload(round, size));
            }
        }
        publisher
    });
    for round in 0..40 {
        for size in sizes {
            assert!(
                take(&mut subscriber) == payload(round, size),
                "{round} {size}"
            );
        }
    }
    drop((sending.join().expect("sent"), subscriber, from, to));
    end([a, b]);
}

#[test]
fn link_carries_bytes_once_for_all_subscribers() {
    const MESSAGE: usize = 100_000;
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "wide");
    let payload = vec![7; MESSAGE];
    // Nobody subscribes: this host has no port there.
    send(&mut publisher, &payload);
    let before = a.carrier.sent_bytes.load(Ordering::Relaxed);
    send(&mut publisher, &payload);
    assert_eq!(publisher.subscribers().expect("sound"), 0);
    assert!(a.carrier.sent_bytes.load(Ordering::Relaxed) - before < MESSAGE as u64);

    let mut subscribers: Vec<Subscriber> = (0..8)
        .map(|_| to.subscriber("wide", &blocking()).expect("opened"))
        .collect();
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let before = a.carrier.sent_bytes.load(Ordering::Relaxed);
    for _ in 0..10 {
        send(&mut publisher, &payload);
        for subscriber in &mut subscribers {
            assert_eq!(take(subscriber), payload);
        }
    }
    let (least, most) = (10 * MESSAGE as u64, 11 * MESSAGE as u64);
    let crossed = || a.carrier.sent_bytes.load(Ordering::Relaxed) - before;
    // The last is counted when its sender comes back from sending it.
    eventually("all are counted", || crossed() >= least);
    let crossed = crossed();
    assert!((least..most).contains(&crossed), "{crossed} bytes crossed");
    drop((publisher, subscribers, from, to));
    end([a, b]);
}

#[test]
fn publishers_keep_their_order_and_come_and_go() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut subscriber = to
        .subscriber("many", &blocking().depth(64))
        .expect("opened");
    let mut staying = publisher(&from, "many");
    assert!(staying.wait_for_subscribers(1, BOUND).expect("sound"));
    for round in 0_u32..8 {
        let mut others: Vec<Publisher> = (0..3).map(|_| publisher(&from, "many")).collect();
        for count in 0_u8..10 {
            for (which, publisher) in (1..).zip(&mut others) {
                assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
                send(publisher, &[round as u8, which, count]);
            }
            send(&mut staying, &[round as u8, 0, count]);
        }
        drop(others);
        let mut next = [0; 4];
        for _ in 0..40 {
            let payload = take(&mut subscriber);
            let which = payload[1] as usize;
            assert_eq!(payload, [round as u8, which as u8, next[which]]);
            next[which] += 1;
        }
    }
    // Those that have gone have no port on the other host either.
    eventually("one is left", || {
        subscriber.publishers().expect("sound") == 1
    });
    drop((staying, subscriber, from, to));
    end([a, b]);
}

#[test]
fn history_crosses_and_is_there_for_who_comes_later() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let options = PublisherOptions::default().history(3);
    let mut publisher = from.publisher("state", &options).expect("opened");
    for number in 0_u32..10 {
        send(&mut publisher, &number.to_le_bytes());
    }
    let wanting = blocking().history(2);
    let mut first = to.subscriber("state", &wanting).expect("opened");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    assert_eq!([number(&mut first), number(&mut first)], [8, 9]);
    let mut second = to.subscriber("state", &wanting).expect("opened");
    assert_eq!([number(&mut second), number(&mut second)], [8, 9]);
    send(&mut publisher, &10_u32.to_le_bytes());
    assert_eq!([number(&mut first), number(&mut second)], [10, 10]);
    drop((publisher, first, second, from, to));
    end([a, b]);
}

/// A subscriber that takes nothing costs its sender the window and its queue, and no more; what is
/// lost is counted.
#[test]
fn slow_subscriber_costs_its_credit_and_losses_are_counted() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let newest = SubscriberOptions::default().depth(4);
    let mut slow = to.subscriber("fast", &newest).expect("opened");
    let mut publisher = publisher(&from, "fast");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let count = 2_000_u32;
    for number in 0..count {
        send(&mut publisher, &number.to_le_bytes());
    }
    let seen = a.pool.snapshot();
    let held = seen.audit.slots - seen.audit.free;
    assert!(held <= 4 + 64 + 1, "{held} slots are held for a slow host");
    let mut taken = Vec::new();
    // Each loss is counted by the port that could not send: here, or the one there that stands for
    // this host.
    let dropped_there = || -> u64 {
        let ports = b.pool.ports().into_iter();
        let publishers = ports.filter(|port| port.kind == PortKind::Publisher);
        publishers.map(|port| port.statistics.dropped).sum()
    };
    eventually("everything is taken or counted", || {
        while let Some(sample) = slow.try_take().expect("sound") {
            taken.push(sample.to_vec());
        }
        let dropped = publisher.statistics().dropped + dropped_there();
        taken.len() as u64 + dropped == u64::from(count)
    });
    assert!(taken.len() < count as usize);
    assert!(taken.is_sorted_by(|one, next| {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes"));
        number(one) < number(next)
    }));
    drop((publisher, slow, from, to));
    end([a, b]);
}

#[test]
fn channel_of_another_type_is_refused_with_both() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let typed = |name: &str| ChannelType {
        name: name.to_owned(),
        bytes: 8,
        align: 8,
        version: 1,
    };
    let options = PublisherOptions::default().carries(typed("speed"));
    let publisher = from.publisher("x", &options).expect("opened");
    let options = SubscriberOptions::default().carries(typed("weight"));
    let subscriber = to.subscriber("x", &options).expect("opened");
    eventually("the refusal is shown where it is wanted", || {
        let session = b.status_of("a").and_then(|status| status.session);
        let channels = session.expect("connected").channels;
        channels.iter().any(|channel| {
            channel.direction == Direction::Receiving
                && channel.state == ChannelState::Refused
                && channel.reason.contains("speed")
                && channel.reason.contains("weight")
        })
    });
    drop((publisher, subscriber, from, to));
    end([a, b]);
}

/// One that asked for more closes its port: the others miss nothing.
#[test]
fn subscriber_that_leaves_disturbs_nobody() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut staying = to.subscriber("steady", &blocking()).expect("opened");
    let leaving = to.subscriber("steady", &blocking().depth(256).history(4));
    let mut leaving = Some(leaving.expect("opened"));
    let mut publisher = publisher(&from, "steady");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for sent in 0_u32..2_000 {
        if sent == 200 {
            leaving = None;
        }
        send(&mut publisher, &sent.to_le_bytes());
        assert_eq!(number(&mut staying), sent);
        if let Some(leaving) = &mut leaving {
            assert_eq!(number(leaving), sent);
        }
    }
    drop((publisher, staying, from, to));
    end([a, b]);
}

/// The port on the other host becomes a stronger one, several times, while much is sent.
#[test]
fn subscriber_that_asks_for_more_costs_the_others_nothing() {
    const MESSAGES: u32 = 6_000;
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let shallow = blocking().depth(2);
    let mut staying = to.subscriber("growing", &shallow).expect("opened");
    let mut sending = publisher(&from, "growing");
    // This one makes no call for long, so that it stays at the first port.
    let mut silent = publisher(&from, "growing");
    for publisher in [&mut sending, &mut silent] {
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    }
    let sender = std::thread::spawn(move || {
        (0..MESSAGES).for_each(|sent| send(&mut sending, &sent.to_le_bytes()));
        sending
    });
    let mut others: Vec<(Subscriber, Option<u32>)> = Vec::new();
    for expected in 0..MESSAGES {
        if expected % 1_000 == 500 {
            let deeper = blocking().depth(8 << others.len());
            let other = to.subscriber("growing", &deeper).expect("opened");
            others.push((other, None));
        }
        assert_eq!(number(&mut staying), expected);
        for (other, last) in &mut others {
            while let Some(sample) = other.try_take().expect("sound") {
                let taken = u32::from_le_bytes(sample.to_vec()[..4].try_into().expect("4 bytes"));
                assert!(
                    last.is_none_or(|last| taken == last + 1),
                    "{taken} after {last:?}"
                );
                *last = Some(taken);
            }
        }
    }
    send(&mut silent, &MESSAGES.to_le_bytes());
    assert_eq!(number(&mut staying), MESSAGES);
    let mut sending = sender.join().expect("sent");
    // Once both have gone over, nobody sends to an earlier port.
    eventually("one port is left, the deepest", || {
        for publisher in [&mut sending, &mut silent] {
            assert_eq!(publisher.subscribers().expect("sound"), 1);
        }
        let ports = a.pool.ports().into_iter();
        let depths = ports.filter(|port| port.kind == PortKind::Subscriber);
        depths.map(|port| port.depth).eq([256])
    });
    assert_eq!(sending.statistics().dropped, 0);
    drop((sending, silent, staying, others, from, to));
    end([a, b]);
}

#[test]
fn both_ways_at_once_nothing_comes_back() {
    let (a, b) = pair();
    let (here, there) = (a.join("here"), b.join("there"));
    let (mut from_a, mut from_b) = (publisher(&here, "talk"), publisher(&there, "talk"));
    let mut at_a = here.subscriber("talk", &blocking()).expect("opened");
    let mut at_b = there.subscriber("talk", &blocking()).expect("opened");
    // The one of this host, and that which stands for the other.
    for publisher in [&mut from_a, &mut from_b] {
        assert!(publisher.wait_for_subscribers(2, BOUND).expect("sound"));
    }
    for _ in 0..20 {
        send(&mut from_a, b"a");
        send(&mut from_b, b"b");
        for subscriber in [&mut at_a, &mut at_b] {
            let mut both = [take(subscriber), take(subscriber)];
            both.sort();
            assert_eq!(both, [b"a", b"b"]);
        }
    }
    assert!(at_a.try_take().expect("sound").is_none());
    drop((from_a, from_b, at_a, at_b, here, there));
    end([a, b]);
}
