//! Looks at the ends that channels have on this host, and tells all sessions when they change.

use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::hosts::Hosts;
use super::local::LocalEnds;

/// How often the ports of the pool are looked at: so much later at most a host hears of a new one.
const LOOK: Duration = Duration::from_millis(25);

/// Looks until the agent stops.
pub(super) fn run(context: &Arc<Context>, hosts: &Hosts) {
    while !context.stops() {
        let pool = &context.options.pool;
        let local = LocalEnds::scan(pool, |member| context.is_host(member));
        for host in hosts.all() {
            if let Some(session) = host.session() {
                session.update(&local);
            }
        }
        context.changes.wait(LOOK);
    }
}
