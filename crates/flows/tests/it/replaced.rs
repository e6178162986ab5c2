//! Another tool takes the XDP program from the interface and puts its own there, while a flow goes
//! by that. In a process of its own: it looks for the program's link among all that are open here.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use crate::support::served::Loopback;
use crate::support::{BOUND, Flow, Pair, agreed, blocking, direct, wire_at};
use hythe_sys::bpf::{Attachment, Link, detach, load_xdp};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// `lo` of each network.
const LOOPBACK: u32 = 1;
/// `r0 = XDP_PASS; exit`
const PASSES_ALL: [u64; 2] = [0x2_0000_00b7, 0x95];

/// The link of the only program that this process has on an interface.
fn link() -> OwnedFd {
    let files = std::fs::read_dir("/proc/self/fd").expect("own").flatten();
    let mut links = files.filter(|file| {
        let target = std::fs::read_link(file.path());
        target.is_ok_and(|target| target == Path::new("anon_inode:bpf_link"))
    });
    let link = links.next().expect("a program is attached").file_name();
    assert_eq!(links.count(), 0, "and one only");
    let number = link.to_str().and_then(|name| name.parse().ok());
    let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("own");
    let none = PidfdGetfdFlags::empty();
    pidfd_getfd(own, number.expect("a number"), none).expect("own")
}

fn message(number: u32) -> Vec<u8> {
    let bytes = 8 + number as usize % 1300;
    number
        .to_le_bytes()
        .iter()
        .copied()
        .cycle()
        .take(bytes)
        .collect()
}

/// Some messages at once. Returns the number of the next.
fn carry(pair: &Pair, flow: &mut Flow, first: u32) -> u32 {
    let next = first + 8;
    flow.carry(&pair.a.node, (first..next, 7), message);
    next
}

/// Until both processes say that the flow uses frames, or none any more, with messages on their way
/// all the time. Returns the next number, and what they say.
fn go_on_until_both_say(
    (pair, flow): (&mut Pair, &mut Flow),
    mut next: u32,
) -> (u32, [(bool, String); 2]) {
    let start = Instant::now();
    while pair.a.carried.is_empty() || pair.b.carried.is_empty() {
        next = carry(pair, flow, next);
        pair.a.look();
        pair.b.look();
        assert!(start.elapsed() < BOUND, "it says nothing");
    }
    (next, pair.frames())
}

#[test]
fn replaced_xdp_program_is_noticed_without_loss() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let served = lo.serve();
    let mut pair = Pair::new();
    let by_xdp = |instance| Some(wire_at(&lo.path, instance));
    (pair.a.wire, pair.b.wire) = (by_xdp(1), by_xdp(1));
    let mut flow = pair.flow(&blocking(), agreed(32), direct);
    flow.carry_first(&mut pair.a, &message(0));
    let (mut next, said) = go_on_until_both_say((&mut pair, &mut flow), 1);
    assert_eq!(said.map(|(has_frames, _)| has_frames), [true; 2]);
    // Some are under way.
    for number in next..next + 16 {
        assert_eq!(flow.publish(&pair.a.node, &message(number)).delivered, 1);
    }
    detach(link()).expect("permitted");
    let program = load_xdp("foreign", &PASSES_ALL).expect("loaded");
    let start = Instant::now();
    let foreign = loop {
        match Link::attach(&program, LOOPBACK, Attachment::Generic) {
            Ok(link) => break link,
            Err(error) => assert!(start.elapsed() < BOUND, "{error}"),
        }
    };
    let error = served.error();
    assert!(error.to_string().contains("taken away"), "{error}");
    for number in next..next + 16 {
        assert!(flow.take() == message(number), "message {number}");
    }
    next += 16;
    let said;
    (next, said) = go_on_until_both_say((&mut pair, &mut flow), next);
    for (has_frames, why) in said {
        assert!(!has_frames && why.contains("ended"), "{why}");
    }
    // When that one has left, and a service is there again, the flow goes by that.
    drop(foreign);
    let served = lo.serve();
    pair.carry(flow.number, by_xdp(2).as_ref());
    // One may have to ask again, where the kernel has not let go of the queue.
    let (mut frames, start) = ([false; 2], Instant::now());
    while frames != [true; 2] {
        next = carry(&pair, &mut flow, next);
        for (has_frames, side) in frames.iter_mut().zip([&mut pair.a, &mut pair.b]) {
            side.look();
            *has_frames = side.carried.pop().map_or(*has_frames, |said| said.0);
        }
        assert!(start.elapsed() < BOUND, "{frames:?}");
    }
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    assert_eq!(flow.subscriber.statistics().messages, u64::from(next));
    served.end();
}
