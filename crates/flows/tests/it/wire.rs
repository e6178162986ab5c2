//! Short messages of a flow are sent by frames while a program serves the interface, and all by TCP
//! when it does not any more.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::served::Loopback;
use crate::support::{BOUND, Flow, Pair, agreed, blocking, direct, pattern, wire_at};
use hythe_flows::message::{FromAgent, WirePlace};
use hythe_testing::{Polling, eventually, let_time_pass, watched};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use tempfile::TempDir;

/// Frames that publishers of `a` have sent.
fn by_frames(pair: &Pair) -> u64 {
    pair.a.flows.wire_statistics().sent
}

fn message(number: u32) -> Vec<u8> {
    let bytes = match number % 50 {
        // Now and then some that no frame takes.
        49 => 100_000,
        48 => 5_000,
        other => other * 25,
    };
    pattern(number, bytes)
}

fn carry(pair: &Pair, flow: &mut Flow, numbers: std::ops::Range<u32>) {
    flow.carry(&pair.a.node, (numbers, 0), message);
}

/// A flow between two processes of which both have a wire at this path.
fn begun(path: &Path) -> (Pair, Flow) {
    begun_with(Some(wire_at(path, 1)))
}

fn begun_with(wire: Option<WirePlace>) -> (Pair, Flow) {
    let mut pair = Pair::new();
    (pair.a.wire, pair.b.wire) = (wire.clone(), wire);
    let mut flow = pair.flow(&blocking(), agreed(32), direct);
    flow.carry_first(&mut pair.a, &message(0));
    (pair, flow)
}

/// Carries messages from this one on until so many frames were sent. Returns the next.
fn until_by_frames(pair: &Pair, flow: &mut Flow, first: u32, frames: u64) -> u32 {
    let (start, before, mut next) = (Instant::now(), by_frames(pair), first);
    while by_frames(pair) < before + frames {
        carry(pair, flow, next..next + 10);
        next += 10;
        assert!(start.elapsed() < BOUND, "{} frames", by_frames(pair));
    }
    next
}

#[test]
fn flow_uses_frames_and_continues_by_tcp_when_program_ends() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let served = lo.serve();
    let (mut pair, mut flow) = begun(&lo.path);
    // The pool is not in memory.
    pair.a
        .await_frames("payload is copied: it is no file on a tmpfs or hugetlbfs");
    let mut next = until_by_frames(&pair, &mut flow, 1, 500);
    served.end();
    carry(&pair, &mut flow, next..next + 500);
    next += 500;
    let (has_frames, why) = pair.a.frames();
    assert!(!has_frames && why.contains("ended"), "{why}");
    carry(&pair, &mut flow, next..next + 100);
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    let all = u64::from(next + 100);
    assert_eq!(flow.subscriber.statistics().messages, all);
}

#[test]
fn agent_changes_program_and_nothing_is_lost() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let mut served = Some(lo.serve());
    let (mut pair, mut flow) = begun_with(None);
    carry(&pair, &mut flow, 1..400);
    assert_eq!(by_frames(&pair), 0);
    let mut next = 400;
    for instance in 1..4 {
        let by_xdp = wire_at(&lo.path, instance);
        let mut polling = Polling::new("both use frames");
        loop {
            pair.carry(flow.number, Some(&by_xdp));
            if pair.frames().map(|(has_frames, _)| has_frames) == [true; 2] {
                break;
            }
            // The service lets go of the last sockets within a moment.
            polling.pause();
        }
        next = until_by_frames(&pair, &mut flow, next, 100);
        match instance {
            // A program that ends, and another in its place.
            1 => {
                served.take().expect("runs").end();
                for (has_frames, reason) in pair.frames() {
                    assert!(!has_frames && reason.contains("ended"), "{reason}");
                }
                served = Some(lo.serve());
            }
            _ => {
                pair.carry(flow.number, None);
                let none = || (false, String::new());
                assert_eq!(pair.frames(), [none(), none()]);
            }
        }
        carry(&pair, &mut flow, next..next + 100);
        next += 100;
        assert_eq!(by_frames(&pair), 0, "of the sockets that there are");
    }
    assert_eq!(flow.subscriber.statistics().dropped, 0);
}

/// Frames are a hint: the subscriber's end has no sockets for them, or loses them.
#[test]
fn frames_that_nobody_takes_cost_no_message() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let _served = lo.serve();
    let (pair, mut flow) = begun(&lo.path);
    let next = until_by_frames(&pair, &mut flow, 1, 50);
    // What is under way then is lost, and the publisher's end does not know.
    for number in next..next + 20 {
        assert_eq!(flow.publish(&pair.a.node, &message(number)).delivered, 1);
    }
    let number = flow.number;
    pair.b.say(&FromAgent::Carry {
        flow: number,
        wire: None,
    });
    for number in next..next + 20 {
        assert!(flow.take() == message(number), "message {number}");
    }
    carry(&pair, &mut flow, next + 20..next + 400);
    assert_eq!(flow.subscriber.statistics().dropped, 0);
}

#[test]
fn spinning_subscriber_takes_messages_of_both_ways() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let served = lo.serve();
    let (pair, mut flow) = begun(&lo.path);
    let node = pair.a.node.clone();
    let mut spin = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            assert_eq!(flow.publish(&node, &message(number)).delivered, 1);
            let start = Instant::now();
            let sample = loop {
                if let Some(sample) = flow.subscriber.try_take().expect("sound") {
                    break sample;
                }
                assert!(start.elapsed() < BOUND, "message {number} does not come");
            };
            assert!(sample.to_vec() == message(number), "message {number}");
        }
    };
    spin(1..300);
    served.end();
    spin(300..500);
    assert_eq!(flow.subscriber.statistics().dropped, 0);
}

#[test]
fn sleeping_subscriber_is_woken_by_frames() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let _served = lo.serve();
    let (pair, flow) = begun(&lo.path);
    let node = pair.a.node.clone();
    let (mut publisher, mut subscriber) = (flow.publisher, flow.subscriber);
    std::thread::scope(|scope| {
        let (taker, take) = watched(move || {
            for number in 1..30 {
                let taken = subscriber.take(BOUND).expect("sound").expect("comes");
                assert!(taken.to_vec() == message(number), "message {number}");
            }
        });
        let taking = scope.spawn(take);
        for number in 1..30 {
            taker.until_asleep();
            let bytes = message(number);
            let mut lease = node.lease(bytes.len()).expect("a slot");
            lease.write(0, &bytes);
            publisher.publish(lease, bytes.len()).expect("published");
        }
        taking.join().expect("no panic");
    });
}

#[test]
fn unserved_interface_leaves_flow_with_tcp_and_reason() {
    let folder = TempDir::new().expect("made");
    let path = folder.path().join("none");
    let (mut pair, mut flow) = begun(&path);
    carry(&pair, &mut flow, 1..60);
    let (has_frames, reason) = pair.a.frames();
    assert!(!has_frames && reason.contains("none"), "{reason}");
    assert!(pair.a.carried.is_empty(), "it says so once");
}

#[test]
fn flow_that_was_refused_asks_again_by_itself() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let (mut pair, mut flow) = begun(&lo.path);
    let refused = pair.frames();
    assert!(refused.iter().all(|(has_frames, _)| !has_frames));
    let tries = Duration::from_millis(1500);
    let_time_pass(tries, "it is refused more than once, and reports it once");
    let served = lo.serve();
    let (start, mut next) = (Instant::now(), 1);
    while pair.a.carried.is_empty() || pair.b.carried.is_empty() {
        carry(&pair, &mut flow, next..next + 10);
        next += 10;
        pair.a.look();
        pair.b.look();
        assert!(start.elapsed() < BOUND, "nobody asks again");
    }
    let both = pair.frames().map(|(has_frames, _)| has_frames);
    assert_eq!(both, [true; 2], "without a word of the agent");
    carry(&pair, &mut flow, next..next + 200);
    next += 200;
    // The agent has seen that program now, and its number: what they have stays.
    pair.carry(flow.number, Some(&wire_at(&lo.path, 2)));
    pair.carry(flow.number, None);
    let none = || (false, String::new());
    assert_eq!(pair.frames(), [none(), none()], "nothing before that");
    carry(&pair, &mut flow, next..next + 50);
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    served.end();
}

#[test]
fn program_that_does_not_answer_is_waited_for_once() {
    let folder = TempDir::new().expect("made");
    let path = folder.path().join("stands");
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let listener = socket_with(family, kind, flags, None).expect("made");
    let place = SocketAddrUnix::new(&path).expect("short enough");
    bind(&listener, &place).expect("bound");
    listen(&listener, 16).expect("listens");
    let (mut pair, mut flow) = begun_with(None);
    let (began, mut reasons) = (Instant::now(), Vec::new());
    for _ in 0..4 {
        let (flow, wire) = (flow.number, Some(wire_at(&path, 1)));
        pair.a.say(&FromAgent::Carry { flow, wire });
        reasons.push(pair.a.frames());
    }
    assert!(reasons.iter().all(|(has_frames, _)| !has_frames));
    accept_with(&listener, flags).expect("it was asked");
    // On an overloaded machine all that may have taken longer than it is let alone.
    if began.elapsed() < Duration::from_secs(10) {
        assert!(reasons[1].1.contains("has not answered"), "{reasons:?}");
        accept_with(&listener, flags).expect_err("once");
    }
    while accept_with(&listener, flags).is_ok() {}
    // Another program may.
    let (number, wire) = (flow.number, Some(wire_at(&path, 2)));
    pair.a.say(&FromAgent::Carry { flow: number, wire });
    eventually("it is asked", || accept_with(&listener, flags).is_ok());
    carry(&pair, &mut flow, 1..60);
}
