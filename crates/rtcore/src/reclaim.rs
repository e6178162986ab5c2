//! Taking back what ports that died left with the core.
//!
//! A port whose owner died goes on holding slots in its row, and its session stays open at the
//! core. Whoever attaches there next takes everything back; if nobody does within [`LOOKS`] looks,
//! the agent does: so nothing is lost either way, and what the dead one had published is
//! still worked off.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hythe_abi::pool::CORE_PORTS_MAX;
use hythe_node::hop::{self, HopNode as _, HopPool as _};
use hythe_node::{MemberIndex, Node};
use hythe_pool::{ChannelInfo, CoreCounter};

use crate::boot::Endpoint;
use crate::counters::SeenRows;
use crate::link::health::Health;
use crate::link::{LinkMap, Violation, abandoned};

/// How often it looks.
const LOOK: Duration = Duration::from_millis(250);
/// Looks after which what nobody works off any more is taken back: one second.
const LOOKS: u32 = 4;
/// How long the core may take to let go, until the next try.
const BOUND: Duration = Duration::from_millis(300);

/// Looks after endpoints that nobody is attached to, until `over`. Unpark the thread to end it at
/// once.
///
/// Looks after the words of the link, too, and counts in the `row` of the core what it finds.
/// Returns the rows that the core had.
pub(crate) fn run(
    node: &Node,
    (link, row, mut health): (&LinkMap, Option<MemberIndex>, Health),
    endpoints: &[Endpoint],
    over: &AtomicBool,
) -> SeenRows {
    let mut seen = SeenRows::default();
    let mut looks = vec![[0; CORE_PORTS_MAX]; endpoints.len()];
    loop {
        seen.look(node.pool(), row);
        thread::park_timeout(LOOK);
        if over.load(Ordering::Acquire) {
            return seen;
        }
        if let Some(violation) = health.look(node.pool(), link) {
            note_renewal(node, row, violation);
            if link.note_ring() {
                hop::wake(node.pool(), node.index());
            }
        }
        for (endpoint, looks) in endpoints.iter().zip(&mut looks) {
            let channel = node.pool().control().tables().channel(endpoint.channel);
            let ours = channel.filter(|channel| channel.core == Some(endpoint.binding));
            let Some(channel) = ours else {
                *looks = [0; CORE_PORTS_MAX];
                continue;
            };
            for (port, looks) in looks.iter_mut().enumerate() {
                look_at_port(node, link, (&channel, port), looks);
            }
        }
    }
}

/// A session was begun anew, because of this.
fn note_renewal(node: &Node, row: Option<MemberIndex>, violation: Violation) {
    tracing::warn!(%violation, "a core broke its link; its agent begins a new session");
    if let Some(row) = row {
        let (what, value) = (violation.word.to_number(), violation.value);
        let tables = node.pool().control().tables();
        tables.count_core_violations(row, 1, what, value);
        tables.count_core(row, CoreCounter::Renewals, 1);
    }
}

/// Takes back what was left at a port, when it was found there often enough.
fn look_at_port(
    node: &Node,
    link: &LinkMap,
    (channel, port): (&ChannelInfo, usize),
    looks: &mut u32,
) {
    if !abandoned::is_left_alone(node.participant(), link, channel, port) {
        *looks = 0;
        return;
    }
    *looks += 1;
    if *looks < LOOKS {
        return;
    }
    match abandoned::take_back(node.participant(), link, channel, port, BOUND) {
        Ok(done) => tracing::debug!(channel = channel.name, port, done, "took back"),
        Err(error) => tracing::warn!(channel = channel.name, port, %error, "could not take back"),
    }
}
