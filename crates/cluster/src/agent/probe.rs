//! Why a host that has to dial this one does not: it is called, and the connection closed again.
//!
//! One thread for all hosts, one call at a time: it is for people, who look at a status. Never
//! begins a session.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::context::Context;
use super::hosts::Hosts;
use crate::HostName;

/// How long such a host has for itself first.
const FIRST: Duration = Duration::from_secs(2);
/// Between two calls to one host.
const EVERY: Duration = Duration::from_secs(5);
/// How often it is looked whether one is due.
const NAP: Duration = Duration::from_millis(200);

/// Until the agent stops.
pub(super) fn run(context: &Context, hosts: &Hosts) {
    // When each of those that are waited for is called next.
    let mut due: BTreeMap<HostName, Instant> = BTreeMap::new();
    while !context.stops() {
        hythe_sys::wait::sleep(NAP);
        let mut awaited = hosts.all();
        awaited.retain(|host| host.is_awaited());
        due.retain(|name, _| awaited.iter().any(|host| host.record.name == *name));
        for host in awaited {
            let now = Instant::now();
            let at = due.entry(host.record.name.clone()).or_insert(now + FIRST);
            if *at <= now && !context.stops() && host.is_awaited() {
                host.probe();
                *at = Instant::now() + EVERY;
            }
        }
    }
}
