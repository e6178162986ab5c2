//! Looks whether hosts that are reached over Zenoh can be reached by TCP by now.
//!
//! Then the tunnels to them end, and what they carried is dialled anew: a stream goes on behind
//! what was acknowledged; a session begins anew, and its subscribers are told what they missed.
//! Jobs of tasks would end with their connections, so the tunnels to a host stay until it and this
//! one have no job together.
//! Runs on a thread of its own.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hythe_cluster::HostName;

use super::{LEASE, Served};

/// Between two looks. A dial is a handful of packets.
const LOOK: Duration = Duration::from_secs(5);
/// How often it is looked whether the agent is to stop.
const NAP: Duration = Duration::from_millis(200);

/// Until the agent stops.
pub(super) fn watch(served: &Served<'_>) {
    let mut look_at = Instant::now() + LOOK;
    while !served.stop.load(Ordering::Relaxed) {
        std::thread::sleep(NAP);
        if Instant::now() < look_at {
            continue;
        }
        let tunnelled = served.carrier.tunnelled();
        let are_idle = |host: &HostName| served.agent.without_tasks(host, || ()).is_some();
        let idle: Vec<HostName> = tunnelled.into_iter().filter(are_idle).collect();
        served.for_each(&idle, |host, addresses| {
            if !served.carrier.try_tcp(host, addresses, LEASE) {
                return false;
            }
            // A job may have begun meanwhile.
            let left = || served.carrier.leave_tunnels(host);
            served.agent.without_tasks(host, left).is_some()
        });
        look_at = Instant::now() + LOOK;
    }
}
