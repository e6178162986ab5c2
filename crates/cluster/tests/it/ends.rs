//! What ends another host has is told: how many, of which kinds, and no more than the rights
//! permit.

use crate::support;

use std::time::{Duration, Instant};

use crate::support::eventually;
use crate::support::host::{ALL, LEASE, TestHost, pair};
use hythe_cluster::Rights;
use hythe_cluster::frame::{EndKind, Ends};
use hythe_node::{ClientOptions, PublisherOptions, ServerOptions, SubscriberOptions};

/// What is told on `host` of the ends on `other`: channel, kind, those that send and receive.
fn told(host: &TestHost, other: &str) -> Vec<(String, EndKind, u32, u32)> {
    let session = host.status_of(other).and_then(|status| status.session);
    let ends = session.map(|session| session.ends).unwrap_or_default();
    let row = |ends: Ends| (ends.channel, ends.kind, ends.sending, ends.receiving);
    ends.into_iter().map(row).collect()
}

fn is_told(host: &TestHost, other: &str, expected: &[(&str, EndKind, u32, u32)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(channel, kind, sending, receiving)| {
            ((*channel).to_owned(), *kind, *sending, *receiving)
        })
        .collect();
    let what = format!("{} is told {expected:?}", host.name.as_str());
    eventually(&what, || told(host, other) == expected);
}

#[test]
fn ends_are_counted_on_the_other_host_and_go() {
    let (a, b) = pair();
    let node = b.join("there");
    let subscribers = [(); 2].map(|()| {
        let subscribed = node.subscriber("frames", &SubscriberOptions::default());
        subscribed.expect("opened")
    });
    // Nobody wants it on either host: it is seen all the same.
    let publisher = node.publisher("only sent", &PublisherOptions::default());
    let server = node.server("sums", &ServerOptions::default());
    let client = node.client("sums", &ClientOptions::default());
    let listener = node.listener("alarm");
    use EndKind::{Event, Publish, Request};
    let frames = ("frames", Publish, 0, 2);
    let sums = ("sums", Request, 1, 1);
    let all = [
        frames,
        ("only sent", Publish, 1, 0),
        sums,
        ("alarm", Event, 0, 1),
    ];
    is_told(&a, "b", &all);
    // A port that a host has for another is none of its own.
    let here = a.join("here");
    let published = here.publisher("frames", &PublisherOptions::default());
    is_told(&b, "a", &[("frames", Publish, 1, 0)]);
    is_told(&a, "b", &all);
    drop((published, here));
    is_told(&b, "a", &[]);
    drop((publisher, server, client, listener));
    is_told(&a, "b", &[frames]);
    let [first, second] = subscribers;
    drop(first);
    is_told(&a, "b", &[("frames", Publish, 0, 1)]);
    drop((second, node));
    is_told(&a, "b", &[]);
}

#[test]
fn ends_are_told_to_those_who_may_use_them() {
    let a = TestHost::new("a");
    let rights = "* readable read\n* writable write\n";
    let b = TestHost::with("b", rights, support::host::LEASE);
    a.meet(&b);
    let node = b.join("there");
    let (send, receive) = (PublisherOptions::default(), SubscriberOptions::default());
    let ports = ["readable", "secret", "writable"].map(|channel| {
        let subscriber = node.subscriber(channel, &receive).expect("opened");
        (node.publisher(channel, &send).expect("opened"), subscriber)
    });
    use EndKind::Publish;
    let both = [("readable", Publish, 1, 0), ("writable", Publish, 0, 1)];
    is_told(&a, "b", &both);
    let agent = b.agent.as_ref().expect("runs");
    agent.set_rights(Rights::parse("* secret read\n").expect("a rule"));
    is_told(&a, "b", &[("secret", Publish, 1, 0)]);
    drop(ports);
}

/// Tasks that are spawned one after the other answer over one connection.
#[test]
fn stream_to_a_task_outlives_its_last_sender_for_a_while() {
    const CHANNEL: &str = "task/1.1.0";
    let (mut a, b) = pair();
    let to = b.join("to");
    let subscriber = to.subscriber(CHANNEL, &SubscriberOptions::default());
    let mut subscriber = subscriber.expect("opened");
    // How many connections were made while one sender came, sent and went.
    let mut send_one = |a: &TestHost, number: u8| {
        let publisher = a.join("sender");
        let publisher = publisher.publisher(CHANNEL, &PublisherOptions::default());
        let mut publisher = publisher.expect("opened");
        let reached = publisher.wait_for_subscribers(1, support::BOUND);
        assert!(reached.expect("sound"));
        let mut lease = publisher.lease(1).expect("a slot");
        lease.write(0, &[number]);
        publisher.publish(lease, 1).expect("published");
        let came = subscriber.take(support::BOUND).expect("sound");
        assert_eq!(came.expect("it comes").to_vec(), [number]);
        drop(publisher);
        // The agent has seen that nobody sends.
        is_told(&b, "a", &[]);
        assert_eq!(subscriber.statistics().dropped, 0, "nothing is missing");
    };
    send_one(&a, 0);
    // On a machine that stands still for seconds the stream may have ended, and it is tried again.
    eventually("one connection is enough", || {
        let (before, start) = (b.carrier.connections(), Instant::now());
        send_one(&a, 1);
        let is_enough = b.carrier.connections() == before;
        assert!(is_enough || start.elapsed() > Duration::from_secs(2));
        is_enough
    });
    // An agent that goes meanwhile takes nothing with it.
    a.agent = None;
    eventually("it is gone there", || !b.is_connected_to("a"));
    a.start(ALL, LEASE);
    a.meet(&b);
    eventually("it is back", || b.is_connected_to("a"));
    send_one(&a, 2);
    drop((subscriber, to));
}
