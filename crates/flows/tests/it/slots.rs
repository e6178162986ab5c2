//! Short messages leave by frames from the slots where they lie; their slots are free behind that.

use std::time::Instant;

use crate::support::networks::{Networks, is_skipped};
use crate::support::served::Served;
use crate::support::{BOUND, Flow, Pair, agreed, blocking, direct, pattern, wire_at};
use hythe_flows::WireStatistics;
use hythe_node::RegionKind;
use hythe_testing::{Polling, eventually_or_show};
use tempfile::TempDir;

/// Of a frame.
const HEADER_BYTES: u64 = 32;
/// The longest frame but its headers, on a link of 1,500 bytes.
const FRAME_BYTES: u64 = 1_500 - 28;

fn message(number: u32) -> Vec<u8> {
    let bytes = match number % 20 {
        // No frame takes it.
        19 => 9_000,
        // One frame, none so short that it is copied.
        other => 257 + other * 61,
    };
    pattern(number, bytes)
}

/// From a slot that suits the publisher's flow.
fn publish(flow: &mut Flow, number: u32) {
    let bytes = message(number);
    let mut lease = flow.publisher.lease(bytes.len()).expect("a slot");
    lease.write(0, &bytes);
    let published = flow.publisher.publish(lease, bytes.len());
    assert_eq!(published.expect("published").delivered, 1);
}

fn carry(flow: &mut Flow, numbers: std::ops::Range<u32>) {
    for number in numbers {
        publish(flow, number);
        assert!(flow.take() == message(number), "message {number}");
    }
}

/// Carries messages from a number on until so many frames left from slots: what is sent after a
/// pause goes by TCP for a while. Returns the next number.
fn until_from_slots(pair: &Pair, flow: &mut Flow, first: u32, frames: u64) -> u32 {
    let (start, before) = (Instant::now(), statistics(pair).sent_from_slots);
    let mut next = first;
    while statistics(pair).sent_from_slots < before + frames {
        carry(flow, next..next + 20);
        next += 20;
        assert!(start.elapsed() < BOUND, "{:?}", statistics(pair));
    }
    next
}

fn statistics(pair: &Pair) -> WireStatistics {
    pair.a.flows.wire_statistics()
}

/// All slots of the sender's pool are free, and there is a region for cards among them.
fn until_free(pair: &Pair) {
    let mut polling = Polling::new("all slots are free");
    loop {
        let snapshot = pair.a.pool.snapshot();
        let kinds = snapshot.regions.iter().map(|region| region.kind);
        assert!(kinds.clone().any(|kind| kind == RegionKind::Card));
        assert!(snapshot.audit.mismatches.is_empty());
        if snapshot.audit.held == 0 && snapshot.audit.queued == 0 {
            return;
        }
        polling.pause_or_show(|| format!("{:?}", snapshot.audit));
    }
}

/// Two networks, and a service at either end of their link. A service sends from one pool only.
struct Link {
    networks: Networks,
    here: Served,
    _there: Served,
    folder: TempDir,
}

impl Link {
    /// `None`, said aloud, without root.
    fn new() -> Option<Self> {
        if is_skipped() {
            return None;
        }
        let networks = Networks::new();
        let folder = TempDir::new().expect("made");
        let [near, far] = ["first", "second"].map(|name| folder.path().join(name));
        Some(Self {
            here: Served::start(&near, "first"),
            _there: networks.within_second(|| Served::start(&far, "second")),
            networks,
            folder,
        })
    }

    fn begin(&self) -> (Pair, Flow) {
        let mut pair = Pair::on_tmpfs();
        self.networks.place(&mut pair);
        let wire = |name| Some(wire_at(&self.folder.path().join(name), 1));
        (pair.a.wire, pair.b.wire) = (wire("first"), wire("second"));
        let mut flow = pair.flow(&blocking(), agreed(32), direct);
        publish(&mut flow, 0);
        flow.go(&mut pair.a);
        assert!(flow.take() == message(0));
        pair.a.await_frames("");
        (pair, flow)
    }
}

#[test]
fn messages_leave_from_their_slots_by_the_interface() {
    let Some(link) = Link::new() else {
        return;
    };
    let (pair, mut flow) = link.begin();
    let before = statistics(&pair);
    let mut next = until_from_slots(&pair, &mut flow, 1, 1000);
    let after = statistics(&pair);
    let from_slots = after.sent_from_slots - before.sent_from_slots;
    // Headers only; and probes whole.
    let probes = after.sent - before.sent - from_slots;
    let copied = after.copied_bytes - before.copied_bytes - from_slots * HEADER_BYTES;
    eprintln!("{from_slots} frames from slots, {probes} probes, {copied} bytes copied");
    assert!(copied <= probes * FRAME_BYTES);
    assert!(probes < from_slots, "most of it was copied");
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    until_free(&pair);
    // A buffer of the usual region is copied, and so is what is short.
    next = until_from_slots(&pair, &mut flow, next, 1);
    let after = statistics(&pair);
    let node = pair.a.node.clone();
    flow.publish(&node, &[7; 1000]);
    assert_eq!(flow.take(), [7; 1000]);
    let mut lease = flow.publisher.lease(256).expect("a slot");
    lease.write(0, &[8; 256]);
    flow.publisher.publish(lease, 256).expect("published");
    assert_eq!(flow.take(), [8; 256]);
    let last = statistics(&pair);
    assert_eq!(last.sent_from_slots, after.sent_from_slots);
    carry(&mut flow, next..next + 10);
    until_free(&pair);
}

#[test]
fn lost_message_leaves_its_slot_and_goes_by_tcp() {
    let Some(link) = Link::new() else {
        return;
    };
    let (pair, mut flow) = link.begin();
    let next = until_from_slots(&pair, &mut flow, 1, 200);
    // The end of the service loses what is under way, and holds no slot.
    (next..next + 20).for_each(|number| publish(&mut flow, number));
    link.here.end();
    for number in next..next + 20 {
        assert!(flow.take() == message(number), "message {number}");
    }
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    until_free(&pair);
}

/// Slots of the sender's pool that are not free: in the usual region, and in that for cards.
fn held(pair: &Pair) -> [usize; 2] {
    let snapshot = pair.a.pool.snapshot();
    [RegionKind::Linux, RegionKind::Card].map(|kind| {
        let of_kind = snapshot.regions.iter().find(|region| region.kind == kind);
        let index = of_kind.expect("there").index;
        let buffers = snapshot.held_buffers();
        buffers
            .iter()
            .filter(|held| held.place.region == index)
            .count()
    })
}

#[test]
fn slot_is_held_until_kernel_returns_it() {
    let Some(mut link) = Link::new() else {
        return;
    };
    let (pair, mut flow) = link.begin();
    let next = until_from_slots(&pair, &mut flow, 1, 1);
    until_free(&pair);
    link.here.stand();
    let before = statistics(&pair);
    for number in next..next + 10 {
        carry(&mut flow, number..number + 1);
    }
    let left = statistics(&pair);
    // Behind them one that is copied: when its slot is free, all were accepted.
    let node = pair.a.node.clone();
    flow.publish(&node, &[7; 1000]);
    assert_eq!(flow.take(), [7; 1000]);
    let state = || format!("{:?}", held(&pair));
    eventually_or_show("the sender holds none", || held(&pair)[0] == 0, state);
    let in_slots = held(&pair)[1];
    if left.sent_from_slots > before.sent_from_slots {
        assert!(in_slots > 0, "they are with the kernel");
    }
    assert!(in_slots <= 10);
    link.here.go_on();
    until_free(&pair);
    carry(&mut flow, next + 10..next + 20);
    until_free(&pair);
}
