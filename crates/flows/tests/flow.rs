//! Messages of a publisher reach a subscriber of another pool by a flow.

mod support;

use hythe_node::{PortPolicy, SubscriberOptions};
use support::{Pair, agreed};

/// So that bytes at a wrong place are seen.
fn pattern(number: u32, bytes: usize) -> Vec<u8> {
    let bytes = 0..bytes as u32;
    bytes
        .map(|at| (number.wrapping_mul(31).wrapping_add(at.wrapping_mul(7)) >> 3) as u8)
        .collect()
}

fn blocking() -> SubscriberOptions {
    SubscriberOptions::default().policy(PortPolicy::Block { timeout_ms: 60_000 })
}

#[test]
fn messages_of_all_sizes_arrive_once_and_in_their_order() {
    let mut pair = Pair::new();
    let mut flow = pair.flow(&blocking(), agreed(32), |from, to| (from, to));
    let sizes = [0, 1, 64, 1_403, 1_404, 1_405, 10_000, 65_536, 300_000];
    let message = |number: u32| pattern(number, sizes[number as usize % sizes.len()]);
    let node = pair.a.node.clone();
    assert_eq!(flow.publish(&node, &message(0)).delivered, 1);
    flow.go(&mut pair.a);
    const AHEAD: u32 = 16;
    for number in 1..300 + AHEAD {
        if number < 300 {
            assert_eq!(flow.publish(&node, &message(number)).delivered, 1);
        }
        if let Some(next) = number.checked_sub(AHEAD) {
            assert!(flow.take() == message(next), "message {next}");
        }
    }
    assert_eq!(flow.subscriber.statistics().dropped, 0);
    assert_eq!(flow.subscriber.statistics().messages, 300);
}
