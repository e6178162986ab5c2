//! What becomes of flows when a task or an agent is killed: the agent as it is shipped, each host
//! in a network namespace.

use std::time::Duration;

use crate::flow_tasks::{Task, assert_all, start, trusting, until_connected, until_it_flows};
use crate::network::agent::{Host, eventually};
use crate::network::{Lan, is_skipped};
use hythe_testing::let_time_pass;
use rustix::process::Signal;

/// What a publisher that was killed had sent would come to the next subscriber, too, between what
/// another sends.
/// Of 300 messages, one each millisecond, a part has come by then.
const AMID_MESSAGES: Duration = Duration::from_millis(100);

fn until_nothing_is_held(hosts: &[Host; 2]) {
    for host in hosts {
        let node = host.join("audit");
        eventually("no slot is held any more", || {
            let audit = node.pool().snapshot().audit;
            assert!(audit.mismatches.is_empty(), "{:?}", audit.mismatches);
            audit.held + audit.queued == 0
        });
    }
}

#[test]
fn flows_begin_anew_whoever_is_killed() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(43);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    // The subscriber, in the middle of messages.
    publisher.ask_for(300, 1);
    let_time_pass(AMID_MESSAGES, "each moment is sound");
    subscriber.kill();
    let subscriber = Task::subscriber(b);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    // The publisher, in the middle of messages. Another has other numbers.
    publisher.ask_for(300, 1);
    let_time_pass(AMID_MESSAGES, "each moment is sound");
    publisher.kill();
    drop(subscriber);
    until_nothing_is_held(&hosts);
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    for host in &hosts {
        let node = host.join("audit");
        let seen = node.pool().snapshot();
        assert!(seen.audit.mismatches.is_empty(), "{:?}", seen.audit);
    }
}

/// Neither agent is in the way of a flow, nor does it need one to go on.
#[test]
fn flows_survive_killed_agent_until_next_takes_over() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(49);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    for (host, other, name) in [(a, b, "a"), (b, a, "b")] {
        publisher.ask_for(100, 1);
        host.signal(Signal::KILL);
        // The other agent knows that it is gone, and says what goes on.
        eventually("the session is over", || !other.is_connected_with(name));
        let reason = other.status_of(name).expect("known").reason;
        assert!(reason.contains("1 flow goes on without"), "{reason}");
        publisher.send(100, 1);
        // All of it, though there is no agent.
        assert_all(&subscriber, publisher.sent);
        publisher.ask_for(300, 1);
        start(host);
        until_connected(&hosts);
        until_it_flows(&hosts, &mut publisher, &subscriber);
        assert_all(&subscriber, publisher.sent);
    }
    // One after the other, before the hosts have met again.
    publisher.ask_for(200, 1);
    hosts.iter().for_each(|host| host.signal(Signal::KILL));
    hosts.iter().for_each(start);
    until_connected(&hosts);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    assert_all(&subscriber, publisher.sent);
    for host in &hosts {
        let node = host.join("audit");
        let seen = node.pool().snapshot();
        assert!(seen.audit.mismatches.is_empty(), "{:?}", seen.audit);
    }
}

#[test]
fn flow_with_killed_end_leaves_nothing_behind() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(47);
    let hosts = trusting(&lan);
    let [a, b] = &hosts;
    // While it is asked for, agreed on, left for, and used.
    for (round, moment_ms) in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
        .into_iter()
        .enumerate()
    {
        let subscriber = Task::subscriber(b);
        let mut publisher = Task::publisher(a);
        publisher.ask_for(1_000, 1);
        let_time_pass(
            Duration::from_millis(moment_ms),
            "another moment each round",
        );
        match round % 2 {
            0 => subscriber.kill(),
            _ => publisher.kill(),
        }
    }
    until_nothing_is_held(&hosts);
    let subscriber = Task::subscriber(b);
    let mut publisher = Task::publisher(a);
    until_it_flows(&hosts, &mut publisher, &subscriber);
    let first = subscriber.numbers().last().copied().expect("some");
    publisher.send(100, 0);
    eventually("all have come", || {
        subscriber.numbers().last() == Some(&(publisher.sent - 1))
    });
    let numbers = subscriber.numbers();
    assert!(numbers.ends_with(&(first..publisher.sent).collect::<Vec<u32>>()));
    drop((publisher, subscriber));
    until_nothing_is_held(&hosts);
    let link = |host: &Host, other: &str| {
        let session = host.status_of(other).expect("known").session;
        session.expect("connected").link
    };
    eventually("no flow is left", || {
        let (sends, receives) = (link(a, "b"), link(b, "a"));
        sends.sending + sends.pending + receives.receiving + receives.pending == 0
    });
}
