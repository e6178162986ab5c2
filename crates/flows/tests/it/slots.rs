//! Messages leave past the kernel's protocols from the slots where they lie, and arrive whole also
//! where packets are lost; their slots are free behind that.

use crate::support;

use std::path::Path;
use std::time::Instant;

use crate::support::networks::{Networks, is_skipped, udp_datagrams};
use crate::support::relay::{Faults, Relay};
use crate::support::served::{Loopback, Served};
use crate::support::{BOUND, Flow, Pair, agreed, blocking, direct, pattern};
use hythe_flows::WireStatistics;
use hythe_flows::message::{Carrier, WireUse};
use hythe_node::RegionKind;
use hythe_testing::{Polling, eventually_or_show};
use tempfile::TempDir;

/// Of a packet.
const HEADER_BYTES: u64 = 48;
/// Of a packet on a link of 1,500 bytes.
const PAYLOAD_BYTES: usize = 1_500 - 48 - HEADER_BYTES as usize;

fn message(number: u32) -> Vec<u8> {
    let bytes = match number % 20 {
        // One of several packets, which are in two chunks each.
        19 => 9_000,
        18 => 4_700,
        // One packet, none so short that it is copied.
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
/// pause goes by UDP for a while. Returns the next number.
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

fn begin(pair: &mut Pair, relay: impl FnOnce(u16, u16) -> (u16, u16)) -> Flow {
    let mut flow = pair.flow(&blocking(), agreed(32), relay);
    publish(&mut flow, 0);
    flow.go(&mut pair.a);
    assert!(flow.take() == message(0));
    pair.a.await_carrier(Carrier::Xdp, "");
    flow
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

fn by_wire(path: &Path) -> Option<WireUse> {
    Some(support::short_by(path, 1))
}

#[test]
fn messages_leave_from_their_slots_by_the_interface() {
    if is_skipped() {
        return;
    }
    let networks = Networks::new();
    let folder = TempDir::new().expect("made");
    let [near, far] = ["first", "second"].map(|name| folder.path().join(name));
    let _here = Served::start(&near, "first");
    let _there = networks.within_second(|| Served::start(&far, "second"));
    let mut pair = Pair::on_tmpfs();
    networks.place(&mut pair);
    (pair.a.wire, pair.b.wire) = (by_wire(&near), by_wire(&far));
    let mut flow = begin(&mut pair, direct);
    let (before, udp_before) = (statistics(&pair), udp_datagrams("OutDatagrams"));
    let mut next = until_from_slots(&pair, &mut flow, 1, 1000);
    let (after, udp) = (
        statistics(&pair),
        udp_datagrams("OutDatagrams") - udp_before,
    );
    let from_slots = after.sent_from_slots - before.sent_from_slots;
    // Had the others not left past UDP, there would be as many datagrams of that.
    let all: usize = (1..next)
        .map(|number| message(number).len().div_ceil(PAYLOAD_BYTES))
        .sum();
    eprintln!("{all} packets, {from_slots} from slots, {udp} by UDP");
    assert!(udp < all as u64 - 500, "{udp} of {all} packets by UDP");
    // Headers only; and probes, and short pieces of what was lost, whole.
    let short = after.sent - before.sent - from_slots;
    let copied = after.copied_bytes - before.copied_bytes - from_slots * HEADER_BYTES;
    eprintln!("{short} frames copied, {copied} bytes");
    assert!(copied <= short * (HEADER_BYTES + 256));
    assert!(short < from_slots, "most of it was copied");
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
fn lost_message_is_sent_again_from_its_slot() {
    let Some(lo) = Loopback::new() else {
        return;
    };
    let served = lo.serve();
    let mut pair = Pair::on_tmpfs();
    // The receiver goes by UDP: a pool is sent from, of those at an interface.
    pair.a.wire = by_wire(&lo.path);
    let faults = Faults {
        lost: 50,
        doubled: 50,
        swapped: 50,
        damaged: 50,
    };
    let mut held = None;
    let mut flow = begin(&mut pair, |first, second| {
        let (relay, ports) = Relay::between(first, second, faults);
        held = Some(relay);
        ports
    });
    let before = statistics(&pair).sent_from_slots;
    let start = Instant::now();
    let mut next = 1;
    while statistics(&pair).sent_from_slots < before + 200 {
        // Several at once, so that packets overtake each other.
        (next..next + 20).for_each(|number| publish(&mut flow, number));
        for number in next..next + 20 {
            assert!(flow.take() == message(number), "message {number}");
        }
        next += 20;
        assert!(start.elapsed() < BOUND, "{:?}", statistics(&pair));
    }
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    until_free(&pair);
    // The end of the service loses nothing either, and holds no slot.
    (next..next + 20).for_each(|number| publish(&mut flow, number));
    served.end();
    for number in next..next + 20 {
        assert!(flow.take() == message(number), "message {number}");
    }
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
    let Some(lo) = Loopback::new() else {
        return;
    };
    let mut served = lo.serve();
    let mut pair = Pair::on_tmpfs();
    pair.a.wire = by_wire(&lo.path);
    let mut flow = begin(&mut pair, direct);
    let next = until_from_slots(&pair, &mut flow, 1, 1);
    until_free(&pair);
    served.stand();
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
    served.go_on();
    until_free(&pair);
    carry(&mut flow, next + 10..next + 20);
    until_free(&pair);
}
