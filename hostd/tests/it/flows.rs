//! Tasks of two hosts that send to each other themselves, over a link that both users trust: the
//! agent as it is shipped, each host in a network namespace.

use crate::flow_tasks::{
    Task, assert_all, channel, flows, start, trusting, trusting_with, until_connected,
    until_it_flows,
};
use crate::network::agent::{Host, eventually};
use crate::network::served::Served;
use crate::network::{Lan, is_skipped};
use hythe_cluster::Direction;
use rustix::process::Signal;

#[test]
fn messages_of_all_sizes_come_once_and_in_order() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(41);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    for bytes in [1_500, 1_280, 9_000] {
        for host in &hosts {
            lan.set_mtu(&host.space, host.plug, bytes);
        }
        let before = channel(a, "b", Direction::Sending).expect("there");
        let count = if bytes == 1_500 { 1_000 } else { 100 };
        publisher.send(count, 0);
        assert_all(&subscriber, publisher.sent);
        let after = channel(a, "b", Direction::Sending).expect("there");
        assert_eq!(
            (after.carrier.as_str(), after.flows),
            ("tcp", 1),
            "{after:?}"
        );
        assert_eq!(after.messages, before.messages, "by the agent");
    }
    let link = a
        .status_of("b")
        .expect("known")
        .session
        .expect("connected")
        .link;
    assert_eq!(link.interface, Some(a.plug.interface()));
    assert_eq!((link.why_no_flows.as_str(), link.sending), ("", 1));
    assert_eq!(a.status().expect("it runs").trusted, [a.plug.interface()]);
}

#[test]
fn second_subscriber_has_the_messages_go_by_the_agent() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(42);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let first = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &first);
    for _ in 0..2 {
        let second = Task::subscriber(b);
        eventually("the flow has ended", || {
            publisher.send(1, 0);
            flows(&hosts) == [0, 0]
        });
        publisher.send(100, 0);
        assert_all(&first, publisher.sent);
        eventually("all have come", || {
            second.numbers().last() == Some(&(publisher.sent - 1))
        });
        assert_eq!(second.missed(), 0);
        drop(second);
        until_it_flows(&hosts, &mut publisher, &first);
        assert_all(&first, publisher.sent);
    }
}

/// What carries the channel, as the sender's host says and as the receiver's says.
fn carriers([a, b]: &[Host; 2]) -> Option<[String; 2]> {
    let sending = channel(a, "b", Direction::Sending)?;
    let receiving = channel(b, "a", Direction::Receiving)?;
    Some([sending.carrier, receiving.carrier])
}

fn until_carried(hosts: &[Host; 2], by: [&str; 2]) {
    eventually("it goes by those", || {
        carriers(hosts).is_some_and(|found| found == by)
    });
}

#[test]
fn short_messages_use_frames_while_interfaces_are_served() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(45);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let [mut at_a, mut at_b] = [Served::start(a), Served::start(b)];
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    let by_frames = ["tcp, xdp"; 2];
    until_carried(&hosts, by_frames);
    // The most of TCP's and of the frames': out of the socket, or out of a chunk and into the slot.
    let copies = || {
        let receiving = channel(b, "a", Direction::Receiving).expect("there");
        let copies = receiving.flow_copies;
        (copies.by_kernel, copies.by_program)
    };
    assert_eq!(copies(), (1, 2));
    publisher.send(500, 0);
    assert_all(&subscriber, publisher.sent);
    // Neither connection nor frames need an agent.
    b.signal(Signal::KILL);
    eventually("the session is over", || !a.is_connected_with("b"));
    publisher.send(100, 1);
    assert_all(&subscriber, publisher.sent);
    start(b);
    until_connected(&hosts);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    until_carried(&hosts, by_frames);
    assert_all(&subscriber, publisher.sent);
    // The programs end amid messages, and others serve the interfaces: the flow stays the same.
    for _ in 0..2 {
        publisher.ask_for(500, 1);
        at_b.end();
        eventually("it is missed", || {
            carriers(&hosts).is_some_and(|[_, receiving]| receiving == "tcp")
        });
        assert_eq!(copies(), (1, 0));
        at_a.end();
        until_carried(&hosts, ["tcp"; 2]);
        publisher.ask_for(500, 1);
        [at_a, at_b] = [Served::start(a), Served::start(b)];
        until_carried(&hosts, by_frames);
        publisher.ask_for(200, 0);
        assert_all(&subscriber, publisher.sent);
        assert_eq!(flows(&hosts), [1, 1]);
    }
    at_a.end();
    at_b.end();
}

#[test]
fn host_started_with_no_xdp_uses_no_frames() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(51);
    let hosts = trusting_with(&lan, &["--no-xdp"]);
    let [a, b] = &hosts;
    let [mut at_a, mut at_b] = [Served::start(a), Served::start(b)];
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    assert_eq!(carriers(&hosts), Some(["tcp"; 2].map(str::to_owned)));
    for (host, other, direction) in [(a, "b", Direction::Sending), (b, "a", Direction::Receiving)] {
        eventually("it says why", || {
            let found = channel(host, other, direction).expect("there");
            found.why_not_better.contains("--no-xdp")
        });
    }
    publisher.send(100, 0);
    assert_all(&subscriber, publisher.sent);
    assert_eq!(carriers(&hosts), Some(["tcp"; 2].map(str::to_owned)));
    at_a.end();
    at_b.end();
}
