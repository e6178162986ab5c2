//! Looks at the ends that channels have on this host, and tells all sessions when they change.

use std::sync::Arc;
use std::time::Duration;

use hythe_node::hop;

use super::context::Context;
use super::hosts::Hosts;
use super::local::LocalEnds;

/// How often the pool is asked whether its ports have changed: so much later at most a host hears
/// of a new one.
const LOOK: Duration = Duration::from_millis(25);
/// So many looks later at most, what failed is tried again.
const LOOKS_BETWEEN_UPDATES: u32 = 10;

/// Looks until the agent stops.
pub(super) fn run(context: &Arc<Context>, hosts: &Hosts) {
    let pool = &context.options.pool;
    let (mut epoch, mut local) = (None, LocalEnds::default());
    let mut looks = 0_u32;
    let mut is_due = true;
    while !context.stops() {
        let now = hop::epoch(pool);
        if epoch != Some(now) {
            local = LocalEnds::scan(pool);
            epoch = Some(now);
            is_due = true;
        }
        if is_due || looks.is_multiple_of(LOOKS_BETWEEN_UPDATES) {
            for host in hosts.all() {
                if let Some(session) = host.session() {
                    session.update(&local);
                }
            }
        }
        looks = looks.wrapping_add(1);
        is_due = context.changes.wait(LOOK);
    }
}
