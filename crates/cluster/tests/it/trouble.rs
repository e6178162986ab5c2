//! Connections that break, hosts that go and come back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::host::{ALL, LEASE, TestHost, pair};
use crate::support::{BOUND, eventually};
use hythe_node::{Node, PortPolicy, Publisher, PublisherOptions, Subscriber, SubscriberOptions};

/// Short, for tests that wait for its end. A host that is wrongly taken for gone rejoins, so that
/// they pass on a busy machine as well.
const SHORT_LEASE: Duration = Duration::from_millis(500);

fn publisher(node: &Node, channel: &str) -> Publisher {
    let options = PublisherOptions::default().send_timeout(BOUND);
    node.publisher(channel, &options).expect("opened")
}

fn subscriber(node: &Node, channel: &str) -> Subscriber {
    let policy = PortPolicy::Block { timeout_ms: 60_000 };
    let options = SubscriberOptions::default().policy(policy);
    node.subscriber(channel, &options).expect("opened")
}

fn send(publisher: &mut Publisher, number: u32) {
    // Of a size that fills the buffers of a connection now and then.
    let mut lease = publisher.lease(3000).expect("a slot");
    lease.write(0, &number.to_le_bytes());
    // An error is a host that went meanwhile.
    let _ = publisher.publish(lease, 3000);
}

fn try_number(subscriber: &mut Subscriber) -> Option<u32> {
    let sample = subscriber.try_take().expect("sound")?;
    let mut bytes = [0; 4];
    sample.read(0, &mut bytes);
    Some(u32::from_le_bytes(bytes))
}

fn number(subscriber: &mut Subscriber) -> u32 {
    let mut found = None;
    eventually("a message comes", || {
        found = try_number(subscriber);
        found.is_some()
    });
    found.expect("found")
}

fn is_free(host: &TestHost) -> bool {
    let seen = host.pool.snapshot();
    seen.audit.mismatches.is_empty() && seen.audit.free == seen.audit.slots
}

/// Whoever looks at a status sees how many sessions there were with this one, also just when it
/// begins: one and the same session never has two numbers.
#[test]
fn session_is_counted_as_soon_as_it_is_seen() {
    let (a, b) = pair();
    let is_over = AtomicBool::new(false);
    let since = Instant::now();
    let watch = |host: &TestHost, other: &str| {
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        // It ends also where the other thread has failed.
        while !is_over.load(Ordering::Relaxed) && since.elapsed() < 2 * BOUND {
            let status = host.status_of(other).expect("known");
            if let Some(session) = status.session {
                let first = *seen.entry(session.number).or_insert(status.sessions);
                assert_eq!(status.sessions, first, "{seen:?}");
            }
        }
        seen.len()
    };
    let sessions = std::thread::scope(|threads| {
        let at_a = threads.spawn(|| watch(&a, "b"));
        let at_b = threads.spawn(|| watch(&b, "a"));
        for _ in 0..10 {
            let before = b.status_of("a").expect("known").sessions;
            a.carrier.break_but(0);
            eventually("there is another session", || {
                b.status_of("a").expect("known").sessions > before
            });
        }
        is_over.store(true, Ordering::Relaxed);
        at_a.join().expect("it counted") + at_b.join().expect("it counted")
    });
    assert!(sessions > 2, "{sessions} were seen");
}

/// The other end has closed: the one message goes into a dead connection, and none follows it that
/// would show that.
#[test]
fn single_message_survives_broken_idle_connection() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "rare");
    let mut subscriber = subscriber(&to, "rare");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for sent in 0..3 {
        send(&mut publisher, sent);
        assert_eq!(number(&mut subscriber), sent);
        // The control connection goes on.
        b.carrier.break_but(1);
    }
    drop((publisher, subscriber, from, to));
    for mut host in [a, b] {
        host.agent = None;
        host.assert_settled(0);
    }
}

#[test]
fn broken_connection_loses_and_repeats_nothing() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "steady");
    let mut subscriber = subscriber(&to, "steady");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let count = 20_000;
    let sending = std::thread::spawn(move || {
        for number in 0..count {
            send(&mut publisher, number);
        }
        publisher
    });
    for expected in 0..count {
        if expected % 1000 == 500 {
            // The first is the control connection.
            a.carrier.break_but(1);
        }
        assert_eq!(number(&mut subscriber), expected);
    }
    assert!(a.status_of("b").expect("known").losses.reconnections > 0);
    assert_eq!(a.status_of("b").expect("known").sessions, 1);
    assert_eq!(subscriber.statistics().dropped, 0);
    let publisher = sending.join().expect("sent");
    eventually("all is given back", || is_free(&a) && is_free(&b));
    drop((publisher, subscriber, from, to));
    for mut host in [a, b] {
        host.agent = None;
        host.assert_settled(0);
    }
}

/// A host that is too busy to answer a new connection in time is there still: its control
/// connection lives.
#[test]
fn connection_that_has_no_answer_in_time_costs_no_message() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut subscriber = subscriber(&to, "steady");
    // Of a stream that begins.
    b.carrier.leave_unanswered(1);
    let mut publisher = publisher(&from, "steady");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for round in 0..2 {
        for expected in round * 4..(round + 1) * 4 {
            send(&mut publisher, expected);
        }
        for expected in round * 4..(round + 1) * 4 {
            assert_eq!(number(&mut subscriber), expected);
        }
        // And of one that goes on.
        b.carrier.leave_unanswered(1);
        a.carrier.break_but(1);
    }
    assert_eq!(a.status_of("b").expect("known").sessions, 1);
    assert_eq!(subscriber.statistics().dropped, 0);
    drop((publisher, subscriber, from, to));
    for mut host in [a, b] {
        host.agent = None;
        host.assert_settled(0);
    }
}

/// What a task has sent waits for as long as the host lives, however busy that is.
#[test]
fn message_of_a_task_is_lost_only_with_a_host() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut subscriber = subscriber(&to, "task/1.1.0");
    // More than others are waited for.
    b.carrier.leave_unanswered(6);
    let mut publisher = publisher(&from, "task/1.1.0");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    send(&mut publisher, 7);
    assert_eq!(number(&mut subscriber), 7);
    assert_eq!(a.status_of("b").expect("known").sessions, 1);
}

/// A host whose agent ends: its participant leaves the other host with all holds, and a publisher
/// that waited for it goes on. Back again it gets what is sent from then on.
#[test]
fn host_goes_and_comes_back() {
    let (a, mut b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "news");
    let mut subscriber = subscriber(&to, "news");
    for round in 0..3 {
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
        // Nobody takes them: the queues fill up, and the publisher blocks.
        let blocked = std::thread::spawn(move || {
            for number in 0..500 {
                send(&mut publisher, round << 16 | number);
            }
            publisher
        });
        assert_eq!(number(&mut subscriber), round << 16);
        b.agent = None;
        publisher = blocked.join().expect("its wait ends");
        eventually("it is gone there, with all it held", || {
            a.is_settled(1) && !a.is_connected_to("b")
        });
        while try_number(&mut subscriber).is_some() {}
        b.start(ALL, LEASE);
        b.meet(&a);
        eventually("it is back", || a.is_connected_to("b"));
    }
    drop((publisher, subscriber, from, to));
    for mut host in [a, b] {
        host.agent = None;
        host.assert_settled(0);
    }
}

/// Cut off both ways without a word: each host ends the session by its lease. What was underway is
/// counted as missed by the subscriber; nothing comes twice, nothing of the old session comes.
#[test]
fn cut_host_leaves_by_lease_and_gap_is_counted() {
    let a = TestHost::with("a", ALL, SHORT_LEASE);
    let b = TestHost::with("b", ALL, SHORT_LEASE);
    a.meet(&b);
    let (from, to) = (a.join("from"), b.join("to"));
    let mut publisher = publisher(&from, "news");
    let mut subscriber = subscriber(&to, "news");
    let mut next = 0;
    for _ in 0..3 {
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
        send(&mut publisher, next);
        while number(&mut subscriber) != next {}
        // What is not known to have arrived when the host goes is counted as missed.
        eventually("it is acknowledged", || {
            let session = a.status_of("b").and_then(|status| status.session);
            session.expect("connected").credit.used.frames == 0
        });
        let missed = subscriber.statistics().dropped;
        b.carrier.cut(true);
        let sent_into_the_void = 5;
        for number in 1..=sent_into_the_void {
            send(&mut publisher, next + number);
        }
        eventually("both have noticed", || {
            !a.is_connected_to("b") && !b.is_connected_to("a") && is_free(&a)
        });
        b.carrier.cut(false);
        eventually("they are connected again", || {
            a.is_connected_to("b") && b.is_connected_to("a")
        });
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
        next += sent_into_the_void + 1;
        send(&mut publisher, next);
        assert_eq!(number(&mut subscriber), next);
        let gap = subscriber.statistics().dropped - missed;
        assert_eq!(gap, u64::from(sent_into_the_void), "lost, and counted");
        next += 1;
    }
    drop((publisher, subscriber, from, to));
    for mut host in [a, b] {
        host.agent = None;
        host.assert_settled(0);
    }
}
