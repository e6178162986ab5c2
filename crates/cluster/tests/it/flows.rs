//! Flows between tasks of two hosts, set up by their agents, over loopback.

use std::time::Duration;

use crate::support::host::{ALL, LEASE, TestHost};
use crate::support::{BOUND, eventually};
use hythe_cluster::{ChannelStatus, Direction};
use hythe_flows::Connection;
use hythe_flows::message::{FromAgent, FromProcess, VERSION};
use hythe_node::hop::HopNode as _;
use hythe_node::{Node, PortPolicy, Publisher, PublisherOptions, Subscriber, SubscriberOptions};
use hythe_testing::stays;

const CHANNEL: &str = "numbers";

/// Two hosts that are connected, and trust the link.
fn pair() -> [TestHost; 2] {
    let hosts = [TestHost::trusting("a"), TestHost::trusting("b")];
    meet(&hosts);
    hosts
}

fn meet([a, b]: &[TestHost; 2]) {
    a.meet(b);
    eventually("both are connected", || {
        a.is_connected_to("b") && b.is_connected_to("a")
    });
}

fn publisher(node: &Node) -> Publisher {
    let options = PublisherOptions::default().send_timeout(BOUND);
    node.publisher(CHANNEL, &options).expect("opened")
}

/// A subscriber that loses nothing.
fn subscriber(node: &Node) -> Subscriber {
    let timeout_ms = BOUND.as_millis() as u32;
    let options = SubscriberOptions::default()
        .policy(PortPolicy::Block { timeout_ms })
        .depth(32);
    node.subscriber(CHANNEL, &options).expect("opened")
}

/// What one host says of the channel in one direction.
fn channel(host: &TestHost, other: &str, direction: Direction) -> Option<ChannelStatus> {
    let session = host.status_of(other)?.session?;
    let mut channels = session.channels.into_iter();
    channels.find(|one| one.channel == CHANNEL && one.direction == direction)
}

fn flows([a, b]: &[TestHost; 2]) -> [u32; 2] {
    let count = |found: Option<ChannelStatus>| found.map_or(0, |channel| channel.flows);
    [
        count(channel(a, "b", Direction::Sending)),
        count(channel(b, "a", Direction::Receiving)),
    ]
}

/// Message with that number, of a length that comes of it.
fn message(number: u32) -> Vec<u8> {
    const LENGTHS: [usize; 6] = [4, 64, 1_400, 9_000, 65_536, 300_000];
    let length = LENGTHS[number as usize % LENGTHS.len()];
    let pattern = (0..length).map(|at| (at as u32).wrapping_mul(number | 1) as u8);
    let mut bytes: Vec<u8> = pattern.collect();
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn send(publisher: &mut Publisher, number: u32) {
    let bytes = message(number);
    let mut lease = publisher.lease(bytes.len()).expect("a slot");
    lease.write(0, &bytes);
    let published = publisher.publish(lease, bytes.len()).expect("published");
    assert_eq!(published.dropped, 0, "message {number}");
}

fn take(subscriber: &mut Subscriber) -> u32 {
    let sample = subscriber.take(BOUND).expect("sound").expect("it comes");
    let bytes = sample.to_vec();
    let number = u32::from_le_bytes(*bytes.first_chunk().expect("a number"));
    assert!(bytes == message(number), "message {number} is damaged");
    number
}

/// Sends and takes numbers until the channel has as many flows on both hosts.
fn exchange_until(
    hosts: &[TestHost; 2],
    (publisher, subscriber): (&mut Publisher, &mut Subscriber),
    next: &mut u32,
    wanted: u32,
) {
    eventually("the flow is as it should be", || {
        send(publisher, *next);
        assert_eq!(take(subscriber), *next);
        *next += 1;
        flows(hosts) == [wanted; 2]
    });
}

#[test]
fn publisher_goes_over_to_a_flow_and_back_without_loss() {
    let hosts = pair();
    let [a, b] = &hosts;
    let mut subscriber_of_b = subscriber(&b.join_with_flows("subscriber"));
    let mut publisher = publisher(&a.join_with_flows("publisher"));
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let mut next = 0;
    exchange_until(&hosts, (&mut publisher, &mut subscriber_of_b), &mut next, 1);
    let sent = channel(a, "b", Direction::Sending).expect("there");
    assert_eq!(sent.carrier, "tcp");
    assert_eq!(sent.why_not_better, "");
    let by_agent = sent.messages;
    // What follows goes by the flow, as soon as the publisher has found it.
    let first = next;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in first..first + 300 {
                assert_eq!(take(&mut subscriber_of_b), number);
            }
        });
        (first..first + 300).for_each(|number| send(&mut publisher, number));
    });
    next += 300;
    let sent = channel(a, "b", Direction::Sending).expect("there");
    assert!(
        sent.messages < by_agent + 100,
        "{} by the agent",
        sent.messages
    );
    // A second subscriber: the agent serves both.
    let mut second = subscriber(&b.join_with_flows("second"));
    exchange_until(&hosts, (&mut publisher, &mut subscriber_of_b), &mut next, 0);
    let why = channel(b, "a", Direction::Receiving).expect("there");
    assert_eq!(why.carrier, "tcp");
    // The last of those may have gone by the flow.
    send(&mut publisher, next);
    assert_eq!(take(&mut subscriber_of_b), next);
    while take(&mut second) < next {}
    next += 1;
    eventually("it says why", || {
        let why = channel(a, "b", Direction::Sending).expect("there");
        why.why_not_better == "it has 2 receivers"
    });
    drop(second);
    exchange_until(&hosts, (&mut publisher, &mut subscriber_of_b), &mut next, 1);
    assert_eq!(subscriber_of_b.statistics().dropped, 0);
    drop((publisher, subscriber_of_b));
    for host in hosts {
        let mut host = host;
        host.agent = None;
        host.assert_settled(0);
    }
}

#[test]
fn agent_forgets_process_without_participant() {
    let host = TestHost::trusting("a");
    let node = host.join("gone");
    // As a forked copy would.
    let connection = Connection::open(&host.pool.path()).expect("connected");
    let hello = FromProcess::Hello {
        version: VERSION,
        member: node.index().0,
        session: node.participant().session(),
    };
    connection.send(&hello).expect("sent");
    stays("it gets no answer", Duration::from_millis(500), || {
        matches!(connection.receive::<FromAgent>(), Ok(None))
    });
    drop(node);
    eventually("the agent has closed it", || {
        connection.receive::<FromAgent>().is_err()
    });
}

#[test]
fn flows_are_sealed_unless_both_sides_trust_the_link() {
    let trusting = || TestHost::trusting("a");
    let others = [
        (
            TestHost::with("a", ALL, LEASE),
            TestHost::with("b", ALL, LEASE),
            "tls",
        ),
        (trusting(), TestHost::with("b", ALL, LEASE), "tls"),
        (trusting(), TestHost::trusting("b"), "tcp"),
    ];
    for (a, b, carrier) in others {
        let hosts = [a, b];
        meet(&hosts);
        let (_publisher, _subscriber, _) = begun(&hosts);
        let [a, b] = &hosts;
        let there = channel(a, "b", Direction::Sending).expect("there");
        let here = channel(b, "a", Direction::Receiving).expect("there");
        assert_eq!([there.carrier, here.carrier], [carrier, carrier]);
    }
}

/// As [`exchange_until`], until what is sent goes by a flow.
fn exchange_until_by_flow(
    hosts: &[TestHost; 2],
    (publisher, subscriber): (&mut Publisher, &mut Subscriber),
    next: &mut u32,
) {
    let by_agent = || channel(&hosts[0], "b", Direction::Sending).map(|channel| channel.messages);
    eventually("messages go by a flow", || {
        let before = by_agent();
        for _ in 0..10 {
            send(publisher, *next);
            assert_eq!(take(subscriber), *next);
            *next += 1;
        }
        flows(hosts) == [1, 1] && by_agent() == before
    });
}

/// A publisher and a subscriber joined by a flow, and the number of the next message.
fn begun(hosts: &[TestHost; 2]) -> (Publisher, Subscriber, u32) {
    let [a, b] = hosts;
    let mut subscriber = subscriber(&b.join_with_flows("subscriber"));
    let mut publisher = publisher(&a.join_with_flows("publisher"));
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let mut next = 0;
    exchange_until_by_flow(hosts, (&mut publisher, &mut subscriber), &mut next);
    (publisher, subscriber, next)
}

#[test]
fn connection_of_agents_that_breaks_costs_flows_nothing() {
    let hosts = pair();
    let [a, b] = &hosts;
    let (mut publisher, mut subscriber, mut next) = begun(&hosts);
    for _ in 0..3 {
        let before = a.status_of("b").expect("known").sessions;
        a.carrier.break_but(0);
        // While the hosts meet again, and behind that.
        eventually("there is another session", || {
            send(&mut publisher, next);
            assert_eq!(take(&mut subscriber), next);
            next += 1;
            a.status_of("b").expect("known").sessions > before
        });
        exchange_until_by_flow(&hosts, (&mut publisher, &mut subscriber), &mut next);
    }
    assert_eq!(subscriber.statistics().dropped, 0);
    assert_eq!(publisher.statistics().dropped, 0);
    let unconfirmed = |host: &TestHost, other| {
        let status = host.status_of(other).expect("known");
        status.losses.unconfirmed
    };
    assert_eq!([unconfirmed(a, "b"), unconfirmed(b, "a")], [0, 0]);
}

/// A host that may not publish here any more does not go on by a flow that is without agents.
#[test]
fn flow_without_agents_ends_with_the_right_to_it() {
    let hosts = pair();
    let [a, b] = &hosts;
    let (mut publisher, mut subscriber, next) = begun(&hosts);
    // Of two hosts the one whose name is less dials.
    a.carrier.dial_nobody();
    a.carrier.break_but(0);
    eventually("the session is over", || {
        !a.is_connected_to("b") && !b.is_connected_to("a")
    });
    send(&mut publisher, next);
    assert_eq!(take(&mut subscriber), next);
    let reason = b.status_of("a").expect("known").reason;
    assert!(reason.contains("1 flow goes on"), "{reason}");
    let none = hythe_cluster::Rights::parse("* * none\n").expect("rules");
    b.agent.as_ref().expect("runs").set_rights(none);
    eventually("it has ended", || {
        let status = b.status_of("a").expect("known");
        !status.reason.contains("goes on")
    });
    eventually("nobody takes what is sent", || {
        let lease = publisher.lease(4).expect("a slot");
        let _ = publisher.publish(lease, 4).expect("published");
        let taken = subscriber.take(Duration::from_millis(200));
        taken.expect("sound").is_none()
    });
}
