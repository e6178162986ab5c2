//! What becomes of flows when their link does not pass, or is trusted no more: the agent as it is
//! shipped, each host in a network namespace.

use std::time::Duration;

use crate::flow_tasks::{
    Task, assert_all, channel, flows, trusting, until_connected, until_it_flows,
};
use crate::network::agent::eventually;
use crate::network::{Lan, is_skipped};
use hythe_cluster::Direction;
use hythe_testing::let_time_pass;

/// Long enough for messages to be lost, shorter than a link may be silent.
const CUT: Duration = Duration::from_millis(500);

#[test]
fn short_cut_loses_nothing_and_long_one_heals() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(44);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    publisher.ask_for(500, 2);
    let_time_pass(Duration::from_millis(100), "amid messages");
    lan.set_passing(b.plug, false);
    let_time_pass(CUT, "the length of the cut");
    lan.set_passing(b.plug, true);
    eventually("all are sent", || {
        subscriber.numbers().last() == Some(&(publisher.sent - 1))
    });
    // On a busy machine the cut may have been longer, and the session over.
    if a.status_of("b").expect("known").sessions == 1 {
        assert_all(&subscriber, publisher.sent);
    }
    publisher.ask_for(100, 20);
    lan.set_passing(b.plug, false);
    eventually("the session is over", || {
        !a.is_connected_with("b") && !b.is_connected_with("a")
    });
    lan.set_passing(b.plug, true);
    until_connected(&hosts);
    until_it_flows(&hosts, &mut publisher, &subscriber);
}

#[test]
fn interface_that_goes_down_and_up_again_loses_nothing() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(48);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    for host in &hosts {
        let interface = host.plug.interface();
        publisher.ask_for(300, 2);
        let_time_pass(Duration::from_millis(50), "amid messages");
        host.space.run(&format!("ip link set {interface} down"));
        let_time_pass(CUT, "the length of the cut");
        host.space.run(&format!("ip link set {interface} up"));
        eventually("all have come", || {
            subscriber.numbers().last() == Some(&(publisher.sent - 1))
        });
    }
    // On a busy machine it may have been down for longer than the lease.
    if a.status_of("b").expect("known").sessions == 1 {
        assert_all(&subscriber, publisher.sent);
        assert_eq!(flows(&hosts), [1, 1]);
    }
}

#[test]
fn renamed_interface_is_untrusted_until_renamed_back() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(46);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let name = a.plug.interface();
    let rename = |from: &str, to: &str| {
        let words = ["link", "set", from, "name", to];
        let status = a.space.command("ip").args(words).status();
        status.expect("iproute2").success()
    };
    if !rename(&name, "other") {
        eprintln!("SKIPPED: this kernel renames no interface that is up");
        return;
    }
    assert!(rename("other", &name));
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    assert_all(&subscriber, publisher.sent);
    assert!(rename(&name, "other"));
    let link = || {
        let session = a.status_of("b").expect("known").session;
        session.expect("connected").link
    };
    eventually("that is why they are sealed", || {
        link().why_sealed == "the link at other is not trusted here"
    });
    // What is sent by a flow as it ends may be lost.
    eventually("the flow in clear text has ended", || {
        let found = channel(a, "b", Direction::Sending);
        found.is_none_or(|it| it.flows == 0 || it.carrier == "tls")
    });
    let mut until_carried = |carrier: &str| {
        eventually("its carrier", || {
            publisher.send(1, 0);
            let sending = channel(a, "b", Direction::Sending).map(|it| it.carrier);
            flows(&hosts) == [1, 1] && sending.as_deref() == Some(carrier)
        });
        assert_all(&subscriber, publisher.sent);
    };
    until_carried("tls");
    assert!(rename("other", &name));
    until_carried("tcp");
    assert_eq!(a.status_of("b").expect("known").sessions, 1);
}
