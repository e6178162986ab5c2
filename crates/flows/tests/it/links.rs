//! Which link the packets of a flow take.

use std::net::Ipv6Addr;

use crate::support::networks::{ADDRESSES, Networks, ip, is_skipped};
use crate::support::{Flow, Pair, agreed, blocking, direct};

fn carry(pair: &mut Pair, mut flow: Flow) {
    let node = pair.a.node.clone();
    flow.carry_first(&mut pair.a, &[0]);
    for bytes in [0, 64, 1_500, 9_000, 65_536, 300_000] {
        let message: Vec<u8> = (0..bytes).map(|at: u32| (at >> 3) as u8).collect();
        assert_eq!(flow.publish(&node, &message).delivered, 1);
        assert!(flow.take() == message, "{bytes} bytes");
    }
    assert_eq!(flow.subscriber.statistics().dropped, 0);
}

#[test]
fn packets_leave_by_trusted_interface_despite_routes() {
    if is_skipped() {
        return;
    }
    let link = Networks::new();
    // A link that nobody trusts has the nearer route.
    ip("link add third type veth peer name fourth");
    ip("link set third up");
    ip(&format!("route add {}/32 dev third", ADDRESSES[1]));
    let mut pair = Pair::new();
    link.place(&mut pair);
    (pair.a.interface, pair.b.interface) = (Some("first".to_owned()), Some("second".to_owned()));
    let flow = pair.flow(&blocking(), agreed(32), direct);
    carry(&mut pair, flow);
}

#[test]
fn flow_by_ipv6_carries_messages_of_all_sizes() {
    if is_skipped() {
        return;
    }
    let link = Networks::new();
    let addresses = [1, 2].map(|last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
    let begin = |name: &str, address: Ipv6Addr| {
        // Without a look whether another has it, which takes seconds.
        ip(&format!("address add {address}/64 dev {name} nodad"));
    };
    begin("first", addresses[0]);
    link.within_second(|| begin("second", addresses[1]));
    let mut pair = Pair::new();
    link.place(&mut pair);
    [pair.a.address, pair.b.address] = addresses.map(Into::into);
    let flow = pair.flow(&blocking(), agreed(32), direct);
    carry(&mut pair, flow);
}
