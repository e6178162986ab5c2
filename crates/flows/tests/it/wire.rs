//! Messages of a flow go past the kernel's protocols while a program serves the interface, and by
//! UDP when it does not any more.

use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::networks::udp_datagrams;
use crate::support::served::Loopback;
use crate::support::{BOUND, Flow, Pair, agreed, blocking, direct, pattern, short_by};
use hythe_flows::measure::{BYTES_MAX, Bulk, Choice, Measured, Others, Prober, choose};
use hythe_flows::message::{Carrier, FromAgent, WireUse};
use hythe_testing::{Polling, eventually, let_time_pass, watched};
use hythe_wire::Wire;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use tempfile::TempDir;

/// Datagrams that sockets of UDP have taken in this network.
fn by_udp() -> u64 {
    udp_datagrams("InDatagrams")
}

fn message(number: u32) -> Vec<u8> {
    let bytes = match number % 50 {
        // Now and then one that the kernel cuts, and one of several packets.
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
    begun_with(Some(short_by(path, 1)))
}

fn begun_with(wire: Option<WireUse>) -> (Pair, Flow) {
    let mut pair = Pair::new();
    (pair.a.wire, pair.b.wire) = (wire.clone(), wire);
    let mut flow = pair.flow(&blocking(), agreed(32), direct);
    flow.carry_first(&mut pair.a, &message(0));
    (pair, flow)
}

#[test]
fn flow_goes_by_the_wire_and_on_by_udp_when_that_ends() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let served = lo.serve();
    let (mut pair, mut flow) = begun(&lo.path);
    // The pool is not in memory.
    let why = "payload is copied: it is no file on a tmpfs or hugetlbfs";
    pair.a.await_carrier(Carrier::Xdp, why);
    let before = by_udp();
    carry(&pair, &mut flow, 1..1000);
    let datagrams = by_udp() - before;
    // Long runs, and what is sent after a pause on a machine that is overloaded.
    assert!(
        datagrams < 1000,
        "{datagrams} of more than 2000 datagrams came by UDP"
    );
    served.end();
    carry(&pair, &mut flow, 1000..1500);
    let (carrier, why) = pair.a.carrier();
    assert_eq!(
        (carrier, why.contains("ended")),
        (Carrier::Udp, true),
        "{why}"
    );
    carry(&pair, &mut flow, 1500..1600);
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    assert_eq!(flow.subscriber.statistics().messages, 1600);
}

#[test]
fn agent_changes_what_carries_a_flow_and_nothing_is_lost() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let mut served = Some(lo.serve());
    let (mut pair, mut flow) = begun_with(None);
    let flow_number = flow.number;
    let mut next = 1;
    let mut carry_some = |pair: &mut Pair, flow: &mut Flow| {
        let before = by_udp();
        carry(pair, flow, next..next + 400);
        next += 400;
        by_udp() - before
    };
    assert!(carry_some(&mut pair, &mut flow) > 400, "all by UDP");
    for instance in 1..4 {
        let by_xdp = Some(short_by(&lo.path, instance));
        let choose = |pair: &Pair, wire: &Option<WireUse>| {
            for side in [&pair.a, &pair.b] {
                let (flow, wire) = (flow_number, wire.clone());
                side.say(&FromAgent::Carry { flow, wire });
            }
        };
        let mut polling = Polling::new("both carry by AF_XDP");
        loop {
            choose(&pair, &by_xdp);
            let said = pair.carriers();
            if said.map(|(carrier, _)| carrier) == [Carrier::Xdp; 2] {
                break;
            }
            // The service lets go of the last sockets within a moment.
            polling.pause();
        }
        assert!(carry_some(&mut pair, &mut flow) < 400, "nearly none by UDP");
        match instance {
            // A program that ends, and another in its place.
            1 => {
                served.take().expect("runs").end();
                for (carrier, reason) in pair.carriers() {
                    assert_eq!((carrier, reason.contains("ended")), (Carrier::Udp, true));
                }
                served = Some(lo.serve());
            }
            _ => {
                choose(&pair, &None);
                let udp = || (Carrier::Udp, String::new());
                assert_eq!(pair.carriers(), [udp(), udp()]);
            }
        }
        assert!(carry_some(&mut pair, &mut flow) > 400, "all by UDP");
    }
    assert_eq!(flow.subscriber.statistics().dropped, 0);
}

#[test]
fn spinning_subscriber_takes_messages_of_any_carrier() {
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
fn subscriber_that_sleeps_is_woken_by_the_wire() {
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
fn unserved_interface_makes_flow_use_udp_with_reason() {
    let folder = TempDir::new().expect("made");
    let path = folder.path().join("none");
    let (mut pair, mut flow) = begun(&path);
    carry(&pair, &mut flow, 1..60);
    let (carrier, reason) = pair.a.carrier();
    assert_eq!(
        (carrier, reason.contains("none")),
        (Carrier::Udp, true),
        "{reason}"
    );
    assert!(pair.a.carried.is_empty(), "it says so once");
}

#[test]
fn flow_that_was_refused_asks_again_by_itself() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let (mut pair, mut flow) = begun(&lo.path);
    let refused = pair.carriers();
    assert!(refused.iter().all(|(carrier, _)| *carrier == Carrier::Udp));
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
    let [one, other] = pair.carriers().map(|(carrier, _)| carrier);
    assert_eq!(
        [one, other],
        [Carrier::Xdp; 2],
        "without a word of the agent"
    );
    carry(&pair, &mut flow, next..next + 200);
    next += 200;
    // The agent has seen that program now, and its number: what they have stays.
    let number = flow.number;
    let tell = |pair: &Pair, wire: Option<WireUse>| {
        for side in [&pair.a, &pair.b] {
            let (flow, wire) = (number, wire.clone());
            side.say(&FromAgent::Carry { flow, wire });
        }
    };
    tell(&pair, Some(short_by(&lo.path, 2)));
    tell(&pair, None);
    let udp = || (Carrier::Udp, String::new());
    assert_eq!(pair.carriers(), [udp(), udp()], "nothing before that");
    carry(&pair, &mut flow, next..next + 50);
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    served.end();
}

/// Measures until what is found is so: on a machine that is overloaded samples come too late.
fn measured_until(one: &mut Prober, path: &Path, is_so: impl Fn(&Measured) -> bool) -> Measured {
    let (start, mut last) = (Instant::now(), None);
    for attempt in 1.. {
        // Each try takes its time, and a busy machine spoils most of them.
        assert!(start.elapsed() < 5 * BOUND, "{last:?}");
        match one.measure(Ok(path.to_owned())) {
            Ok(measured) if is_so(&measured) => return measured,
            other => last = Some(other),
        }
        // In turns: until the program is off the interface again, and sooner.
        let pause = Duration::from_millis([100, 1_000][attempt % 2]);
        let_time_pass(pause, "another moment of the program on the interface");
    }
    unreachable!("without end");
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
        let (flow, wire) = (flow.number, Some(short_by(&path, 1)));
        pair.a.say(&FromAgent::Carry { flow, wire });
        reasons.push(pair.a.carrier());
    }
    assert!(reasons.iter().all(|(by, _)| *by == Carrier::Udp));
    accept_with(&listener, flags).expect("it was asked");
    // On an overloaded machine all that may have taken longer than it is let alone.
    if began.elapsed() < Duration::from_secs(10) {
        assert!(reasons[1].1.contains("has not answered"), "{reasons:?}");
        accept_with(&listener, flags).expect_err("once");
    }
    while accept_with(&listener, flags).is_ok() {}
    // Another program may.
    let (number, wire) = (flow.number, Some(short_by(&path, 2)));
    pair.a.say(&FromAgent::Carry { flow: number, wire });
    eventually("it is asked", || accept_with(&listener, flags).is_ok());
    carry(&pair, &mut flow, 1..60);
}

#[test]
fn agents_measure_both_carriers_and_cost_of_program() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let served = lo.serve();
    let here = [127, 0, 0, 1].into();
    let open = |word| Prober::open((here, Some("lo")), 1_500, word).expect("loopback");
    let (mut one, mut other) = (open(1), open(2));
    let at = |prober: &Prober| (here, prober.port().expect("bound")).into();
    let (at_one, at_other) = (at(&one), at(&other));
    one.meet(at_other, 2).expect("connected");
    other.meet(at_one, 1).expect("connected");
    let (bell, ring) = std::io::pipe().expect("made");
    let there = lo.path.clone();
    let answering = std::thread::spawn(move || {
        let long = Duration::from_secs(600);
        other
            .answer(bell.as_fd(), Some(&there), long)
            .expect("sound");
    });
    let measured = measured_until(&mut one, &lo.path, |found| {
        let xdp = found.xdp.as_ref().ok();
        let is_beside = xdp.is_some_and(|it| matches!(it.others, Others::Beside(_)));
        // A busy machine loses bursts, whose speed is not known then: a choice does without.
        let has_speed = xdp.is_some_and(|it| it.figures.bytes_per_s.is_some());
        is_beside && has_speed && found.is_whole()
    });
    eprintln!("{measured:?}");
    assert!(measured.bytes <= BYTES_MAX);
    // Measured again at once, the program has not left yet, and so there is nothing to compare.
    let is_unknown = |found: &Measured| {
        let xdp = found.xdp.as_ref().ok();
        xdp.is_some_and(|it| it.others == Others::Beside(Bulk::default()))
    };
    let measured = measured_until(&mut one, &lo.path, is_unknown);
    assert_eq!(measured.others_percent(), None);
    // Somebody else pays for the program.
    let socket = UdpSocket::bind((here, 0)).expect("bound");
    socket.connect(at_other).expect("set");
    let other_flow = Wire::connect(&lo.path, &socket, None, BOUND).expect("granted");
    // The socket's last flow is about to end still, or the other end is late.
    let measured = measured_until(&mut one, &lo.path, |found| found.xdp.is_ok());
    let by_xdp = measured.xdp.expect("just seen");
    assert_eq!(by_xdp.others, Others::PaidAlready);
    drop(other_flow);
    // The service is gone.
    served.end();
    let measured = measured_until(&mut one, &lo.path, |found| found.xdp.is_err());
    let choice = choose(&Choice::default(), &measured);
    assert!(
        choice.why.starts_with(lo.path.to_str().expect("text")),
        "{choice:?}"
    );
    drop(ring);
    answering.join().expect("no panic");
}
