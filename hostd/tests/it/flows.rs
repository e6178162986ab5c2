//! Tasks of two hosts that send to each other themselves, over a link that both users trust: the
//! agent as it is shipped, each host in a network namespace.

use crate::flow_tasks::{
    Task, assert_all, channel, flows, start_with, trusting, until_connected, until_it_flows,
};
use crate::network::agent::{eventually, pair};
use crate::network::served::Served;
use crate::network::{Lan, is_skipped};
use hythe_cluster::{ChannelStatus, Direction};
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
            ("udp", 1),
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

#[test]
fn flow_uses_xdp_on_served_interface_else_udp() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(45);
    let hosts = pair(&lan);
    let [a, b] = &hosts;
    let mut served = Served::start(b);
    for host in &hosts {
        host.stop();
    }
    for host in &hosts {
        start_with(host, "xdp");
    }
    until_connected(&hosts);
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    let receiving = || channel(b, "a", Direction::Receiving).expect("there");
    eventually("its process has said", || receiving().carrier == "xdp");
    assert_eq!(receiving().why_not_better, "");
    // Both hosts have interfaces of one name, and the service is the other's.
    let sending = channel(a, "b", Direction::Sending).expect("there");
    assert_eq!(sending.carrier, "udp");
    // Of a virtual interface the kernel copies, too: by UDP, and into a chunk.
    let copies = |status: ChannelStatus| {
        let copies = status.flow_copies;
        (copies.by_kernel, copies.by_program)
    };
    assert_eq!(
        [copies(sending.clone()), copies(receiving())],
        [(1, 0), (1, 2)]
    );
    assert!(
        sending.why_not_better.contains("another network"),
        "{sending:?}"
    );
    publisher.send(500, 0);
    assert_all(&subscriber, publisher.sent);
    // Neither does this carrier need an agent to go on.
    b.signal(Signal::KILL);
    eventually("the session is over", || !a.is_connected_with("b"));
    publisher.send(100, 1);
    assert_all(&subscriber, publisher.sent);
    start_with(b, "xdp");
    until_connected(&hosts);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    eventually("it goes by xdp again", || receiving().carrier == "xdp");
    assert_all(&subscriber, publisher.sent);
    served.end();
    eventually("its process has said", || receiving().carrier == "udp");
    // What it heard first, or when it asked again.
    let why = receiving().why_not_better;
    assert!(
        why.contains("ended") || why.contains("no `hythe host wire` serves"),
        "{why}"
    );
    assert_eq!(copies(receiving()), (1, 1));
    publisher.send(200, 0);
    assert_all(&subscriber, publisher.sent);
    assert_eq!(flows(&hosts), [1, 1]);
    // Another one serves: the same flow goes by that.
    let mut served = Served::start(b);
    eventually("it is there again", || receiving().carrier == "xdp");
    publisher.send(200, 0);
    assert_all(&subscriber, publisher.sent);
    assert_eq!(flows(&hosts), [1, 1]);
    served.end();
}
