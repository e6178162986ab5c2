//! Notifiers on one host, listeners on another.

use std::time::{Duration, Instant};

use crate::support::host::{TestHost, pair};
use crate::support::{BOUND, eventually};
use hythe_cluster::{ChannelState, Rights};
use hythe_node::{EventId, EventSet, Listener, Node, Notifier, PortKind};

fn event(number: u8) -> EventId {
    EventId::new(number).expect("one of 40")
}

/// Of the other host: there is a listener that stands for it.
fn notifier(node: &Node, channel: &str) -> Notifier {
    let mut notifier = node.notifier(channel).expect("opened");
    assert!(notifier.wait_for_listeners(1, BOUND).expect("sound"));
    notifier
}

fn hear(listener: &mut Listener, wanted: EventSet) {
    let (start, mut heard) = (Instant::now(), 0);
    while heard & wanted.bits() != wanted.bits() {
        assert!(start.elapsed() < BOUND, "heard {heard:b} of {wanted:?}");
        let more = listener.wait(Duration::from_millis(100)).expect("sound");
        heard |= more.bits();
        assert_eq!(heard & !wanted.bits(), 0, "nobody raised that");
    }
}

fn end(hosts: [TestHost; 2]) {
    for mut host in hosts {
        host.agent = None;
        host.assert_settled(0);
    }
}

#[test]
fn events_cross_and_coalesce() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut listeners = [(); 2].map(|()| to.listener("alarm").expect("opened"));
    let mut notifier = notifier(&from, "alarm");
    for _ in 0..20 {
        notifier.notify(event(0)).expect("sound");
        for listener in &mut listeners {
            hear(listener, event(0).into());
        }
    }
    for number in 0..40 {
        notifier.notify(event(number)).expect("sound");
    }
    for listener in &mut listeners {
        hear(listener, EventSet::from_bits(u64::MAX));
    }
    eventually("it is shown", || {
        let session = b.status_of("a").and_then(|status| status.session);
        let channels = session.expect("connected").channels;
        channels.iter().any(|channel| {
            channel.channel == "alarm"
                && channel.state == ChannelState::Open
                && channel.messages > 20
        })
    });
    drop((notifier, listeners, from, to));
    end([a, b]);
}

#[test]
fn both_ways_at_once_nothing_comes_back() {
    let (a, b) = pair();
    let nodes = [a.join("here"), b.join("there")];
    let mut listeners = nodes
        .each_ref()
        .map(|node| node.listener("talk").expect("opened"));
    let mut notifiers = nodes
        .each_ref()
        .map(|node| node.notifier("talk").expect("opened"));
    for notifier in &mut notifiers {
        assert!(notifier.wait_for_listeners(2, BOUND).expect("sound"));
    }
    for round in 0..10_u8 {
        for (number, notifier) in (0..).zip(&mut notifiers) {
            notifier.notify(event(round * 2 + number)).expect("sound");
        }
        let both = [event(round * 2), event(round * 2 + 1)];
        for listener in &mut listeners {
            hear(listener, both.into_iter().collect());
        }
    }
    for listener in &mut listeners {
        let more = listener.wait(Duration::from_millis(50)).expect("sound");
        assert!(more.is_empty(), "{more:?} came back");
    }
    drop((notifiers, listeners, nodes));
    end([a, b]);
}

#[test]
fn notifier_without_listener_opens_nothing_until_one_joins() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut notifier = from.notifier("alarm").expect("opened");
    assert_eq!(notifier.notify(event(1)).expect("sound"), 0);
    for round in 0..3 {
        let mut listener = to.listener("alarm").expect("opened");
        assert!(notifier.wait_for_listeners(1, BOUND).expect("sound"));
        notifier.notify(event(round)).expect("sound");
        hear(&mut listener, event(round).into());
        drop(listener);
        eventually("the port of the host is closed again", || {
            notifier.listeners().expect("sound") == 0
        });
    }
    // The other agent closes its own a moment later.
    eventually("no notifier is left for nobody", || {
        let mut ports = b.pool.ports().into_iter();
        !ports.any(|port| port.kind == PortKind::Notifier)
    });
    drop((notifier, from, to));
    end([a, b]);
}

#[test]
fn without_the_right_no_event_crosses() {
    let (a, b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let mut listener = to.listener("alarm").expect("opened");
    let mut notifier = notifier(&from, "alarm");
    notifier.notify(event(1)).expect("sound");
    hear(&mut listener, event(1).into());
    let agent = a.agent.as_ref().expect("runs");
    agent.set_rights(Rights::parse("b alarm none\n").expect("rules"));
    eventually("its port is closed", || {
        notifier.listeners().expect("sound") == 0
    });
    drop((notifier, listener, from, to));
    end([a, b]);
}
