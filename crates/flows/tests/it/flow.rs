//! Messages of a publisher reach a subscriber of another pool by a flow.

use std::time::{Duration, Instant};

use crate::support::tcp_relay::TcpRelay;
use crate::support::{BOUND, Flow, Pair, agreed, blocking, direct, pattern};
use hythe_flows::message::{Agreed, FromAgent, FromProcess, Transport};
use hythe_node::hop;
use hythe_node::{NodeError, PortPolicy, PublisherOptions, SubscriberOptions};
use hythe_testing::{Polling, WatchedThread, eventually, let_time_pass};

/// Longer than the threads of both processes take to acknowledge a message and to see that.
const ACCEPTED: Duration = Duration::from_millis(40);

/// Each transport passes the same tests.
macro_rules! test_each_transport {
    ($($name:ident)*) => {
        mod tcp {
            $(#[test] fn $name() { super::$name(hythe_flows::message::Transport::Tcp); })*
        }
        mod tls {
            $(#[test] fn $name() { super::$name(hythe_flows::message::Transport::Tls); })*
        }
    };
}

test_each_transport! {
    messages_of_all_sizes_arrive_once_and_in_their_order
    flow_wakes_waiting_subscriber_and_keeps_busy_one
    slow_subscriber_counts_missed_messages
    publisher_waits_for_blocking_subscriber_as_agreed
    finished_flow_loses_nothing_and_agent_continues
    flow_finishes_though_there_is_always_something_to_take
    flow_runs_without_agents_until_next_has_port
    flow_goes_on_while_its_agents_have_lost_each_other
    process_that_leaves_has_sent_what_it_published
    reused_port_number_has_no_flows_of_closed_port
    flow_of_closed_subscriber_takes_nothing_and_reports
    forked_copy_leaves_its_parents_flows_alone
}

fn messages_of_all_sizes_arrive_once_and_in_their_order(transport: Transport) {
    let mut pair = Pair::by(transport);
    let mut flow = pair.flow(&blocking(), agreed(32), direct);
    let sizes = [0, 1, 64, 1_403, 1_404, 1_405, 10_000, 65_536, 300_000];
    let message = |number: u32| pattern(number, sizes[number as usize % sizes.len()]);
    flow.carry_first(&mut pair.a, &message(0));
    flow.carry(&pair.a.node, (1..300, 16), message);
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    assert_eq!(flow.subscriber.statistics().messages, 300);
}

/// A pair with a flow that carries messages.
fn begun(transport: Transport, options: &SubscriberOptions, agreed: Agreed) -> (Pair, Flow) {
    let mut pair = Pair::by(transport);
    let mut flow = pair.flow(options, agreed, direct);
    flow.carry_first(&mut pair.a, &[0]);
    (pair, flow)
}

/// The same by a relay, and given up 1 s after that is cut.
fn begun_by_relay(mut agreed: Agreed) -> (Pair, Flow, TcpRelay) {
    agreed.unreachable_ns = 1_000_000_000;
    let mut pair = Pair::new();
    let mut relay = None;
    let mut flow = pair.flow(&blocking(), agreed, |sending, receiving| {
        let port = relay.insert(TcpRelay::to(receiving)).port();
        (port, sending)
    });
    flow.carry_first(&mut pair.a, &[0]);
    (pair, flow, relay.expect("made"))
}

/// Messages 1 to 5, which lie at the subscriber's.
fn publish_untaken(pair: &Pair, flow: &mut Flow) {
    for number in 1..=5 {
        assert_eq!(flow.publish(&pair.a.node, &[number]).delivered, 1);
    }
    eventually("they come", || pair.b.pool.snapshot().audit.held >= 5);
}

fn flow_wakes_waiting_subscriber_and_keeps_busy_one(transport: Transport) {
    let mut agreed = agreed(32);
    agreed.unreachable_ns = 1_500_000_000;
    let (pair, mut flow) = begun(transport, &blocking(), agreed);
    let node = pair.a.node.clone();
    let waiting = WatchedThread::me();
    std::thread::scope(|scope| {
        let publisher = &mut flow.publisher;
        let waiting = waiting.clone();
        let later = scope.spawn(move || {
            waiting.until_asleep();
            publisher
                .publish(node.lease(4).expect("a slot"), 4)
                .expect("published");
        });
        assert!(flow.subscriber.take(BOUND).expect("sound").is_some());
        later.join().expect("published");
    });
    let node = pair.a.node.clone();
    flow.publish(&node, &[1; 100_000]);
    let time = Duration::from_secs(3);
    let_time_pass(
        time,
        "longer than the sender waits for a receiver that is gone",
    );
    assert_eq!(flow.take(), [1; 100_000]);
    assert_eq!(flow.publish(&node, &[2]).delivered, 1);
    assert_eq!(flow.take(), [2]);
}

fn slow_subscriber_counts_missed_messages(transport: Transport) {
    for policy in [PortPolicy::DropNewest, PortPolicy::EvictOldest] {
        let options = SubscriberOptions::default().depth(4).policy(policy);
        let mut agreed = agreed(64);
        agreed.block_ms = 0;
        let (pair, mut flow) = begun(transport, &options, agreed);
        let node = pair.a.node.clone();
        for number in 1..=20 {
            assert_eq!(flow.publish(&node, &[number]).delivered, 1, "{policy:?}");
        }
        let (mut polling, mut kept) = (Polling::new("all are counted"), Vec::new());
        while kept.len() as u64 + flow.subscriber.statistics().dropped < 20 {
            // The thread of the session takes them in meanwhile.
            polling.pause_or_show(|| format!("{policy:?}: {kept:?} came"));
            if let Some(sample) = flow.subscriber.try_take().expect("sound") {
                kept.push(sample.to_vec()[0]);
            }
        }
        assert!(
            kept.is_sorted_by(|one, next| one < next),
            "{policy:?}: {kept:?}"
        );
        assert!(flow.subscriber.try_take().expect("sound").is_none());
    }
}

fn publisher_waits_for_blocking_subscriber_as_agreed(transport: Transport) {
    let options = blocking().depth(4);
    let mut agreed = agreed(4);
    agreed.block_ms = 50;
    let (pair, mut flow) = begun(transport, &options, agreed);
    let node = pair.a.node.clone();
    let mut blocked = None;
    for number in 1..=20 {
        let mut lease = node.lease(1).expect("a slot");
        lease.write(0, &[number]);
        match flow.publisher.publish(lease, 1) {
            Ok(published) => assert_eq!(published.delivered, 1),
            Err(error) => {
                blocked = Some((number, error));
                break;
            }
        }
    }
    let (number, error) = blocked.expect("nobody takes");
    assert!(matches!(error, NodeError::Blocked { .. }), "{error}");
    assert!(error.to_string().contains("host b"), "{error}");
    for expected in 1..number {
        assert_eq!(flow.take(), [expected]);
    }
    assert_eq!(flow.publish(&node, &[99]).delivered, 1);
    assert_eq!(flow.take(), [99]);
}

fn finished_flow_loses_nothing_and_agent_continues(transport: Transport) {
    let (mut pair, mut flow) = begun(transport, &blocking(), agreed(32));
    let node = pair.a.node.clone();
    for number in 1..=10 {
        flow.publish(&node, &[number]);
    }
    pair.a.say(&FromAgent::Finish { flow: 1 });
    for number in 1..=10 {
        assert_eq!(flow.take(), [number]);
    }
    // It ends when its port has left it, by the next message at the latest.
    eventually("the agent's port is sent to", || {
        flow.publisher.subscribers().expect("sound");
        pair.a.queues() > 0
    });
    let ended = FromProcess::Ended {
        flow: 1,
        reason: String::new(),
        unconfirmed: 0,
    };
    // Its port leaves it with the next look for subscribers.
    std::thread::scope(|scope| {
        let heard = scope.spawn(|| pair.a.hear());
        eventually("a report", || {
            flow.publisher.subscribers().expect("sound");
            heard.is_finished()
        });
        assert_eq!(heard.join().expect("heard"), ended);
    });
    assert_eq!(flow.publish(&node, &[11]).delivered, 1);
    let by_agent = flow.host_subscriber.take(BOUND).expect("sound");
    assert_eq!(by_agent.expect("comes").to_vec(), [11]);
    assert_eq!(flow.host_subscriber.statistics().dropped, 0);
    assert_eq!(flow.publisher.statistics().dropped, 0);
}

/// Its subscriber always has one more to take: between two messages nothing may be left, which is
/// never the case here.
fn flow_finishes_though_there_is_always_something_to_take(transport: Transport) {
    let (pair, mut flow) = begun(transport, &blocking(), agreed(32));
    let node = pair.a.node.clone();
    flow.publish(&node, &[1]);
    pair.a.say(&FromAgent::Finish { flow: 1 });
    pair.b.say(&FromAgent::Finish { flow: 1 });
    let (start, mut number) = (Instant::now(), 1);
    while pair.a.queues() == 0 {
        number += 1;
        assert_eq!(flow.publish(&node, &[number]).delivered, 1);
        assert_eq!(flow.take(), [number - 1]);
        assert!(start.elapsed() < BOUND, "the agent's port is not sent to");
        assert!(number < 100, "it does not finish");
    }
    // What is left of the flow is still there.
    let by_agent = flow.host_subscriber.try_take().expect("sound");
    let last = number - u8::from(by_agent.is_some());
    let left = std::iter::from_fn(|| flow.subscriber.try_take().expect("sound"));
    let left: Vec<u8> = left.map(|sample| sample.to_vec()[0]).collect();
    assert_eq!(left, (number..=last).collect::<Vec<_>>());
    assert_eq!(flow.subscriber.statistics().dropped, 0);
}

#[test]
fn broken_flow_reports_unconfirmed_messages_as_missing() {
    let (mut pair, mut flow, relay) = begun_by_relay(agreed(32));
    let node = pair.a.node.clone();
    relay.cut_for_good();
    for number in 1..=5 {
        assert_eq!(flow.publish(&node, &[number]).delivered, 1);
    }
    let FromProcess::Ended {
        flow: 1,
        reason,
        // The first may have been taken, and the word of that not have come.
        unconfirmed: unconfirmed @ 5..=6,
    } = pair.a.hear()
    else {
        panic!("it ends otherwise");
    };
    assert!(reason.contains("broke"), "{reason}");
    pair.a.say(&FromAgent::Return { flow: 1 });
    // It waits until it has heard of that, and goes back.
    assert_eq!(flow.publish(&node, &[6]).delivered, 1);
    let by_agent = flow.host_subscriber.take(BOUND).expect("sound");
    assert_eq!(by_agent.expect("comes").to_vec(), [6]);
    let dropped = u64::from(unconfirmed);
    assert_eq!(flow.host_subscriber.statistics().dropped, dropped);
    assert_eq!(flow.publisher.statistics().dropped, dropped);
    // It may be asked for again.
    flow.publisher.subscribers().expect("sound");
    assert!(matches!(pair.a.hear(), FromProcess::Ask { .. }));
}

#[test]
fn next_agent_overtakes_no_flow_that_broke_alone() {
    let (mut pair, mut flow, relay) = begun_by_relay(agreed(32));
    publish_untaken(&pair, &mut flow);
    for side in [&pair.a, &pair.b] {
        side.say(&FromAgent::Alone { flow: 1 });
    }
    relay.cut_for_good();
    assert!(matches!(pair.a.hear(), FromProcess::Ended { .. }));
    // Nobody tells the subscriber. The hosts meet again.
    drop(flow.host_publisher);
    let next = hop::join_host(&pair.b.pool, "a", &[]).expect("joins");
    let mut publisher = next
        .publisher("data1", &PublisherOptions::default())
        .expect("opens");
    for number in [6, 7] {
        let mut by_agent = publisher.lease(1).expect("a slot");
        by_agent.write(0, &[number]);
        publisher.publish(by_agent, 1).expect("published");
    }
    for number in 1..=7 {
        let taken = flow.subscriber.take(BOUND).expect("sound").expect("comes");
        assert_eq!(taken.to_vec(), [number]);
    }
}

#[test]
fn messages_after_break_do_not_overtake_earlier_ones() {
    let mut agreed = agreed(32);
    agreed.block_ms = 0;
    let (mut pair, mut flow, relay) = begun_by_relay(agreed);
    let node = pair.a.node.clone();
    publish_untaken(&pair, &mut flow);
    relay.cut_for_good();
    let FromProcess::Ended {
        unconfirmed: 5..=6, ..
    } = pair.a.hear()
    else {
        panic!("it ends otherwise");
    };
    // The other agent has not said that its end is over: the publisher sends to nobody yet.
    let published = flow.publish(&node, &[6]);
    assert_eq!((published.delivered, published.dropped), (0, 1));
    assert_eq!(pair.a.queues(), 0);
    assert!(flow.host_subscriber.try_take().expect("sound").is_none());
    let reason = "it is over there".to_owned();
    pair.b.say(&FromAgent::End { flow: 1, reason });
    assert!(matches!(pair.b.hear(), FromProcess::Ended { flow: 1, .. }));
    // What comes by the agents now finds a subscriber that takes the rest of the flow first.
    let mut by_agent = flow.host_publisher.lease(1).expect("a slot");
    by_agent.write(0, &[7]);
    flow.host_publisher.publish(by_agent, 1).expect("published");
    for number in [1, 2, 3, 4, 5, 7] {
        assert_eq!(flow.take(), [number]);
    }
    pair.a.say(&FromAgent::Return { flow: 1 });
    let start = Instant::now();
    while flow.host_subscriber.try_take().expect("sound").is_none() {
        flow.publish(&node, &[8]);
        assert!(start.elapsed() < BOUND, "it does not go back");
    }
    // Each lost message is told once to whoever receives next, and counted once.
    let dropped = flow.publisher.statistics().dropped;
    assert_eq!(flow.host_subscriber.statistics().dropped, dropped);
}

/// Messages by a flow that no agent looks after any more, and then by the port of the next one:
/// each comes once, and in its order.
fn goes_on_alone(transport: Transport, lose: impl FnOnce(&mut Pair), expected: &[&str]) {
    let (mut pair, flow) = begun(transport, &blocking(), agreed(32));
    let node = pair.a.node.clone();
    let Flow {
        mut publisher,
        mut subscriber,
        host_subscriber,
        host_publisher,
        ..
    } = flow;
    lose(&mut pair);
    let mut publish = |number: u32| {
        let mut lease = node.lease(4).expect("a slot");
        lease.write(0, &number.to_le_bytes());
        let published = publisher.publish(lease, 4).expect("published");
        assert_eq!(published.delivered, 1, "message {number}");
    };
    let number_of = |bytes: Vec<u8>| u32::from_le_bytes(*bytes.first_chunk().expect("four"));
    for number in 1..100 {
        publish(number);
        let taken = subscriber.take(BOUND).expect("sound").expect("comes");
        assert_eq!(number_of(taken.to_vec()), number);
    }
    drop((host_subscriber, host_publisher));
    publish(100);
    let next = hop::join_host(&pair.a.pool, "b", &[]).expect("joins");
    drop(std::mem::replace(&mut pair.a.host, next));
    let mut host_subscriber = pair.a.host.subscriber("data1", &blocking()).expect("opens");
    let (mut next, mut by_flow) = (101, 100);
    let mut polling = Polling::new("the next port is sent to");
    loop {
        publish(next);
        next += 1;
        while let Some(taken) = subscriber.try_take().expect("sound") {
            assert_eq!(number_of(taken.to_vec()), by_flow);
            by_flow += 1;
        }
        if let Some(taken) = host_subscriber.try_take().expect("sound") {
            // All before it have been taken from the flow.
            assert_eq!(number_of(taken.to_vec()), by_flow);
            break;
        }
        // A moment without anything under way, which this thread does not find while it publishes.
        polling.pause();
        let_time_pass(ACCEPTED, "acknowledgements");
    }
    for number in by_flow + 1..next {
        let taken = host_subscriber.take(BOUND).expect("sound").expect("comes");
        assert_eq!(number_of(taken.to_vec()), number);
    }
    assert!(subscriber.try_take().expect("sound").is_none());
    assert_eq!(subscriber.statistics().dropped, 0);
    assert_eq!(host_subscriber.statistics().dropped, 0);
    // The flow is over, and the next may be asked for.
    let agent = &mut pair.a;
    let said = std::thread::scope(|scope| {
        let hearing = scope.spawn(move || {
            let word = |_: &&str| match agent.hear() {
                FromProcess::Hello { .. } => "hello",
                FromProcess::Ended { unconfirmed: 0, .. } => "ended",
                FromProcess::Ask { .. } => "ask",
                other => panic!("{other:?}"),
            };
            expected.iter().map(word).collect::<Vec<_>>()
        });
        // It looks when it is there.
        eventually("all reports", || {
            publisher.subscribers().expect("sound");
            hearing.is_finished()
        });
        hearing.join().expect("heard")
    });
    assert_eq!(said, expected);
}

fn flow_runs_without_agents_until_next_has_port(transport: Transport) {
    let lose = |pair: &mut Pair| {
        for side in [&mut pair.a, &mut pair.b] {
            side.process.take().expect("connected").close();
        }
    };
    goes_on_alone(transport, lose, &["hello", "ask"]);
}

fn flow_goes_on_while_its_agents_have_lost_each_other(transport: Transport) {
    let lose = |pair: &mut Pair| {
        pair.a.say(&FromAgent::Alone { flow: 1 });
        pair.b.say(&FromAgent::Alone { flow: 1 });
    };
    goes_on_alone(transport, lose, &["ended", "ask"]);
}

fn process_that_leaves_has_sent_what_it_published(transport: Transport) {
    let (mut pair, mut flow) = begun(transport, &blocking(), agreed(32));
    let node = pair.a.node.clone();
    for number in 1..=20 {
        flow.publish(&node, &pattern(number, 50_000));
    }
    let Flow {
        publisher,
        mut subscriber,
        ..
    } = flow;
    let taking = std::thread::spawn(move || {
        for number in 1..=20 {
            let sample = subscriber.take(BOUND).expect("sound").expect("comes");
            assert!(
                sample.to_vec() == pattern(number, 50_000),
                "message {number}"
            );
        }
    });
    drop((publisher, node));
    drop(std::mem::replace(&mut pair.a.node, pair.b.node.clone()));
    taking.join().expect("all came");
}

fn reused_port_number_has_no_flows_of_closed_port(transport: Transport) {
    let mut pair = Pair::by(transport);
    let flow = pair.unseen_flow(&blocking(), agreed(32), direct);
    let Flow {
        publisher,
        mut subscriber,
        ..
    } = flow;
    let mut other_host = pair.a.host.subscriber("other", &blocking()).expect("opens");
    drop(publisher);
    let other = pair.a.node.publisher("other", &PublisherOptions::default());
    let mut other = other.expect("opens");
    // Longer than its thread takes to begin the flow.
    for number in 0..50 {
        let mut lease = pair.a.node.lease(1).expect("a slot");
        lease.write(0, &[number]);
        other.publish(lease, 1).expect("published");
        let sample = other_host.take(BOUND).expect("sound").expect("comes");
        assert_eq!(sample.to_vec(), [number]);
        let_time_pass(Duration::from_millis(1), "a flow could begin meanwhile");
    }
    assert!(subscriber.try_take().expect("sound").is_none());
    // Its agent hears of the end, behind the question for a flow of the other.
    while !matches!(pair.a.hear(), FromProcess::Ended { .. }) {}
}

fn flow_of_closed_subscriber_takes_nothing_and_reports(transport: Transport) {
    let mut pair = Pair::by(transport);
    let flow = pair.unseen_flow(&blocking(), agreed(32), direct);
    let Flow {
        publisher: _publisher,
        subscriber,
        ..
    } = flow;
    let moment = Duration::from_millis(50);
    let_time_pass(
        moment,
        "mostly behind the begin of the flow; each order is sound",
    );
    drop(subscriber);
    let FromProcess::Ended {
        flow: 1, reason, ..
    } = pair.b.hear()
    else {
        panic!("it ends otherwise");
    };
    let either = ["its subscriber has left", "its port has closed"];
    assert!(either.contains(&reason.as_str()), "{reason}");
}

fn forked_copy_leaves_its_parents_flows_alone(transport: Transport) {
    let (mut pair, flow) = begun(transport, &blocking(), agreed(32));
    let node = pair.a.node.clone();
    let mut flow = Some(flow);
    let ended = hythe_sys::fork::run_in_child(|| {
        let mut copy = flow.take().expect("there");
        let refused = [
            copy.publisher.subscribers().is_err(),
            copy.subscriber.connected_publishers().is_err(),
            copy.subscriber.try_take().is_err(),
            copy.subscriber.take(BOUND).is_err(),
            node.lease(1).is_err(),
        ];
        // With them go the copies of the flow's ends, and of all that they are made of.
        drop((copy, node.clone()));
        for side in [&mut pair.a, &mut pair.b] {
            drop(std::mem::replace(&mut side.node, side.host.clone()));
        }
        i32::from(refused.contains(&false))
    });
    assert_eq!(ended.expect("forked"), 0, "the copies are refused");
    let mut flow = flow.expect("the parent's");
    for number in 1..=50 {
        let message = pattern(number, 3_000);
        assert_eq!(flow.publish(&node, &message).delivered, 1);
        assert!(flow.take() == message, "message {number}");
    }
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    assert!(
        pair.a
            .process
            .as_ref()
            .expect("connected")
            .receive::<FromProcess>()
            .is_ok()
    );
}
