//! Looks at the ends that channels have on this host, and tells the sessions when they change.
//!
//! One thread, as a participant of its own: it sleeps until a port opens or closes, or a session
//! changes. Never waits for another host.

use std::time::{Duration, Instant};

use hythe_node::hop;

use super::context::Context;
use super::hosts::Hosts;
use super::local::LocalEnds;

/// What failed is tried again after so long; by that time a bell that was lost is made up for.
const LOOK: Duration = Duration::from_millis(500);

/// Looks until the agent stops.
pub(super) fn run(context: &Context, hosts: &Hosts) {
    while !context.stops() {
        if let Err(error) = follow(context, hosts) {
            tracing::error!(%error, "the pool is not looked at");
            hythe_sys::wait::sleep(LOOK);
        }
    }
    // No publisher waits for what is not looked at any more.
    context.pool_agent.answer_always();
}

fn follow(context: &Context, hosts: &Hosts) -> Result<(), hythe_node::NodeError> {
    let (pool, agent) = (&context.options.pool, &context.pool_agent);
    let (mut seen, mut local) = (None, LocalEnds::default());
    let mut next = Instant::now();
    while !context.stops() {
        // All three before the look: what comes meanwhile ends the wait.
        let (asked, changes, epoch) = (agent.asked(), context.changes(), hop::epoch(pool));
        if seen != Some(epoch) {
            local = LocalEnds::scan(pool);
        }
        let now = Instant::now();
        let is_for_all = context.take_all_changed() || seen != Some(epoch) || now >= next;
        if is_for_all {
            next = now + LOOK;
        }
        seen = Some(epoch);
        let mut is_early = false;
        for session in hosts.all().iter().filter_map(|host| host.session()) {
            if session.take_changed() || is_for_all {
                session.update(&local);
            }
            is_early |= session.has_early_streams();
        }
        if is_for_all {
            context.flows.look_after_alone();
        }
        // A publisher that has just opened goes on when its first message can go on, too. It waits
        // for a bounded time: no host that does not answer holds it up for longer.
        if !is_early {
            agent.answer(asked);
        }
        agent.wait(next.saturating_duration_since(now), || {
            let is_same = agent.asked() == asked && context.changes() == changes;
            !is_same || hop::epoch(pool) != epoch || context.stops()
        })?;
    }
    Ok(())
}
