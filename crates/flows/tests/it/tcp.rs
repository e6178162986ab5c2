//! TCP connections of flows: they break, are replaced, and lie.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::support::tcp_relay::TcpRelay;
use crate::support::{BOUND, Flow, Pair, agreed, blocking, direct, pattern};
use hythe_flows::message::{FromAgent, FromProcess, PublicKey, Transport};
use hythe_testing::eventually;

/// A flow by a relay that has carried its first message.
fn begun_by_relay(transport: Transport) -> (Pair, Flow, TcpRelay) {
    let mut pair = Pair::by(transport);
    let mut relay = None;
    let mut flow = pair.flow(&blocking(), agreed(32), |sending, receiving| {
        let port = relay.insert(TcpRelay::to(receiving)).port();
        (port, sending)
    });
    flow.carry_first(&mut pair.a, &[0]);
    (pair, flow, relay.expect("made"))
}

#[test]
fn broken_connection_is_replaced_and_nothing_comes_twice() {
    for transport in [Transport::Tcp, Transport::Tls] {
        breaks_and_continues(transport);
    }
}

fn breaks_and_continues(transport: Transport) {
    let (pair, mut flow, relay) = begun_by_relay(transport);
    let message = |number: u32| pattern(number, number * 977 % 60_000);
    for round in 0..5 {
        let first = 1 + round * 40;
        // With messages in both kernels, in the relay, and in the subscriber's queue.
        for number in first..first + 10 {
            flow.publish(&pair.a.node, &message(number));
        }
        relay.cut();
        for number in first..first + 10 {
            assert!(flow.take() == message(number), "message {number}");
        }
        flow.carry(&pair.a.node, (first + 10..first + 40, 8), message);
    }
    assert!(relay.connections() >= 6, "{}", relay.connections());
    assert!(flow.subscriber.try_take().expect("sound").is_none());
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    assert_eq!(flow.publisher.statistics().dropped, 0);
}

#[test]
fn idle_connection_that_breaks_is_replaced() {
    let (pair, mut flow, relay) = begun_by_relay(Transport::Tcp);
    relay.cut();
    eventually("another connection", || relay.connections() == 2);
    assert_eq!(flow.publish(&pair.a.node, &[1]).delivered, 1);
    assert_eq!(flow.take(), [1]);
}

#[test]
fn flow_ends_when_subscriber_listens_no_more() {
    let (mut pair, mut flow, relay) = begun_by_relay(Transport::Tcp);
    for number in 1..=3 {
        assert_eq!(flow.publish(&pair.a.node, &[number]).delivered, 1);
    }
    // As if its process were killed: the port refuses.
    drop(relay);
    let FromProcess::Ended {
        flow: 1,
        reason,
        // What was taken may have been acknowledged.
        unconfirmed: 3..=4,
    } = pair.a.hear()
    else {
        panic!("it ends otherwise");
    };
    assert!(reason.contains("process has ended"), "{reason}");
}

#[test]
fn flow_without_connection_never_begins() {
    let mut pair = Pair::by(Transport::Tcp);
    // A port that refuses.
    let refusing = TcpRelay::to(9).port();
    let flow = pair.unseen_flow(&blocking(), agreed(32), |sending, _| (refusing, sending));
    let FromProcess::Ended {
        flow: 1,
        reason,
        unconfirmed: 0,
    } = pair.a.hear()
    else {
        panic!("it ends otherwise");
    };
    assert!(reason.contains("127.0.0.1"), "{reason}");
    let mut flow = flow;
    assert_eq!(flow.publish(&pair.a.node, &[1]).delivered, 1);
    let by_agent = flow.host_subscriber.take(BOUND).expect("sound");
    assert_eq!(by_agent.expect("it comes").to_vec(), [1]);
}

#[test]
fn flow_that_ends_while_it_connects_reports_that() {
    for finishes in [true, false] {
        let mut pair = Pair::by(Transport::Tcp);
        // Its kernel accepts, and nobody answers the greeting.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        let port = silent.local_addr().expect("bound").port();
        let mut flow = pair.unseen_flow(&blocking(), agreed(32), |sending, _| (port, sending));
        let (mut stream, _) = silent.accept().expect("it connects");
        stream.read_exact(&mut [0; 32]).expect("it greets");
        let why = "the right to it is withdrawn".to_owned();
        let (word, expected) = match finishes {
            true => (FromAgent::Finish { flow: 1 }, ""),
            false => (
                FromAgent::End {
                    flow: 1,
                    reason: why.clone(),
                },
                why.as_str(),
            ),
        };
        pair.a.say(&word);
        let ended = FromProcess::Ended {
            flow: 1,
            reason: expected.to_owned(),
            unconfirmed: 0,
        };
        assert_eq!(pair.a.hear(), ended);
        assert_eq!(
            flow.publish(&pair.a.node, &[1]).delivered,
            1,
            "by the agent"
        );
    }
}

#[test]
fn sealed_flow_shows_no_payload() {
    let secret = b"what only two processes may read".repeat(20);
    for (transport, is_shown) in [(Transport::Tcp, true), (Transport::Tls, false)] {
        let (pair, mut flow, relay) = begun_by_relay(transport);
        flow.publish(&pair.a.node, &secret);
        assert!(flow.take() == secret);
        let seen = relay.seen();
        let found = seen.windows(32).any(|bytes| bytes == &secret[..32]);
        assert_eq!(found, is_shown, "{transport:?}");
        let greets = seen.windows(8).any(|bytes| bytes == b"HYTHEFLW");
        assert_eq!(greets, is_shown, "{transport:?}: its secret");
    }
}

#[test]
fn changed_byte_breaks_connection_and_nothing_is_lost() {
    let (pair, mut flow, relay) = begun_by_relay(Transport::Tls);
    let message = |number: u32| pattern(number, 40_000);
    for number in 1..20 {
        relay.change();
        flow.publish(&pair.a.node, &message(number));
        assert!(flow.take() == message(number), "message {number}");
        eventually("it is changed", || relay.has_changed());
    }
    assert!(relay.connections() > 10, "{}", relay.connections());
}

#[test]
fn process_with_another_key_gets_no_flow() {
    // Told that of each end in turn: who has another is refused by the other.
    for at_publisher in [true, false] {
        let mut pair = Pair::by(Transport::Tls);
        let side = match at_publisher {
            true => &mut pair.a,
            false => &mut pair.b,
        };
        side.told_key = Some(PublicKey([7; 32]));
        let mut flow = pair.unseen_flow(&blocking(), agreed(32), direct);
        let FromProcess::Ended {
            flow: 1,
            unconfirmed: 0,
            ..
        } = pair.a.hear()
        else {
            panic!("it ends otherwise");
        };
        assert_eq!(flow.publish(&pair.a.node, &[1]).delivered, 1);
        let by_agent = flow.host_subscriber.take(BOUND).expect("sound");
        assert_eq!(by_agent.expect("it comes").to_vec(), [1]);
        assert!(flow.subscriber.try_take().expect("sound").is_none());
    }
}

/// A header of `spec/flows.md`.
fn header(number: u64, length: u64) -> [u8; 16] {
    let mut header = [0; 16];
    header[..8].copy_from_slice(&number.to_le_bytes());
    header[8..].copy_from_slice(&length.to_le_bytes());
    header
}

/// A subscriber's flow, and a test in the place of its publisher, connected and greeted.
fn lying() -> (Pair, Flow, TcpStream) {
    let mut pair = Pair::by(Transport::Tcp);
    let mut port = 0;
    let flow = pair.unseen_flow(&blocking(), agreed(4), |sending, receiving| {
        port = receiving;
        // The true publisher has none.
        direct(sending, TcpRelay::to(9).port())
    });
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("connects");
    stream.set_read_timeout(Some(BOUND)).expect("set");
    let agreed = agreed(4);
    let mut greeting = b"HYTHEFLW\x01\0\0\0".to_vec();
    greeting.extend_from_slice(&agreed.number.to_le_bytes());
    greeting.extend_from_slice(&agreed.word.to_le_bytes());
    greeting.extend_from_slice(&[0; 8]);
    stream.write_all(&greeting).expect("sent");
    let mut answer = [0; 32];
    stream.read_exact(&mut answer).expect("answered");
    assert_eq!(answer[16..], [0; 16]);
    (pair, flow, stream)
}

#[test]
fn subscriber_ends_flow_of_publisher_that_lies() {
    let short = |numbers: std::ops::Range<u64>| -> Vec<u8> {
        numbers
            .flat_map(|number| [header(number, 1).as_slice(), &[7]].concat())
            .collect()
    };
    let lies: [(&str, Vec<u8>); 5] = [
        ("message 1 where 0 is next", header(1, 1).to_vec()),
        (
            "sends message 3 where 1 is next",
            [short(0..1), short(3..4)].concat(),
        ),
        ("2000000 bytes where 1048576", header(0, 2_000_000).to_vec()),
        ("reserved bytes", header(0, 1 << 32).to_vec()),
        ("more than 4 messages", short(0..5)),
    ];
    for (expected, bytes) in lies {
        let (mut pair, mut flow, mut stream) = lying();
        // It may be cut off amid that.
        let _ = stream.write_all(&bytes);
        let FromProcess::Ended { reason, .. } = pair.b.hear() else {
            panic!("{expected}: it ends otherwise");
        };
        assert!(reason.contains(expected), "{reason}");
        // What came before the lie is taken, and the pool is whole.
        while flow.subscriber.try_take().expect("sound").is_some() {}
        drop(flow);
        eventually("all slots are free", || {
            pair.b.pool.snapshot().audit.held == 0
        });
    }
}

#[test]
fn partial_message_holds_one_slot_until_flow_ends() {
    let (pair, mut flow, mut stream) = lying();
    stream.write_all(&header(0, 100_000)).expect("sent");
    stream.write_all(&[1; 50_000]).expect("sent");
    eventually("it has a slot", || pair.b.pool.snapshot().audit.held == 1);
    assert!(flow.subscriber.try_take().expect("sound").is_none());
    stream.write_all(&[1; 50_000]).expect("sent");
    assert_eq!(flow.take(), [1; 100_000]);
    stream.write_all(&header(1, 100_000)).expect("sent");
    drop(flow);
    eventually("all slots are free", || {
        pair.b.pool.snapshot().audit.held == 0
    });
}
