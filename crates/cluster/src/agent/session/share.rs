//! What other hosts may take of the tables of this pool: ports, connections, and memory for deep
//! queues. How many ports there are follows from what the other host sends and wants, and how deep
//! they are from what it asks for, so it is looked at each time a port is to be opened for one.
//!
//! Slots are bounded elsewhere: by the window, and by what a receiver may occupy.

use std::collections::BTreeMap;

use hythe_abi::pool::QUEUE_SEGMENT_DESCRIPTORS;
use hythe_node::hop::HopPool as _;
use hythe_node::{MemberIndex, MemberKind, Node};

use crate::agent::local::queue_depth;
use crate::agent::parts::{HOST_PART, HOSTS_PART};
use crate::error::ClusterError;

/// Descriptors of the memory that each connection has.
const SHALLOW: u32 = QUEUE_SEGMENT_DESCRIPTORS as u32;

/// What is taken of the tables.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    ports: u32,
    connections: u32,
    /// Of deep queues, in segments: what there are, and those of ports without any yet.
    deep: u32,
}

/// May one more port be opened for a host, with queues of that depth?
///
/// # Errors
/// [`ClusterError::Share`].
pub(super) fn check(node: &Node, depth: u32) -> Result<(), ClusterError> {
    let limits = node.pool().control().layout().limits();
    let deep = limits.queue_segments.saturating_sub(limits.connections);
    let (own, all) = taken(node);
    let more = deep_segments(depth);
    for (what, own, all, more, limit) in [
        ("ports", own.ports, all.ports, 1, limits.ports),
        (
            "connections",
            own.connections,
            all.connections,
            1,
            limits.connections,
        ),
        ("segments for deep queues", own.deep, all.deep, more, deep),
    ] {
        let (of_one, of_all) = (limit / HOST_PART, limit / HOSTS_PART);
        let is_beyond = own.saturating_add(more) > of_one || all.saturating_add(more) > of_all;
        if more > 0 && is_beyond {
            return Err(ClusterError::Share {
                what,
                own,
                of_one,
                all,
                of_all,
            });
        }
    }
    Ok(())
}

/// By this host, and by all.
fn taken(node: &Node) -> (Taken, Taken) {
    let tables = node.pool().control().tables();
    let is_host = |member: MemberIndex| tables.member_kind(member) == Some(MemberKind::Host);
    let (mut own, mut all) = (Taken::default(), Taken::default());
    let mut queues: BTreeMap<u32, u32> = BTreeMap::new();
    let mut add = |member: MemberIndex, add: &dyn Fn(&mut Taken)| {
        add(&mut all);
        if member == node.index() {
            add(&mut own);
        }
    };
    for connection in tables.connections() {
        let ends = [connection.producer, connection.consumer];
        if let Some(host) = ends.into_iter().find(|end| is_host(*end)) {
            add(host, &|taken| taken.connections += 1);
        }
        *queues.entry(connection.consumer_port.0).or_default() += 1;
    }
    for port in tables.ports().filter(|port| is_host(port.member)) {
        let queues = queues.get(&port.index.0).copied().unwrap_or(0).max(1);
        let deep = queues.saturating_mul(deep_segments(port.depth));
        add(port.member, &|taken| {
            taken.ports += 1;
            taken.deep = taken.deep.saturating_add(deep);
        });
    }
    (own, all)
}

/// Segments of a queue beyond what each connection has.
fn deep_segments(depth: u32) -> u32 {
    match queue_depth(depth) {
        depth if depth <= SHALLOW => 0,
        depth => depth.div_ceil(SHALLOW),
    }
}
