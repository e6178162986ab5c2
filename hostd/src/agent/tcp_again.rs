//! Looks whether hosts that are reached over Zenoh can be reached by TCP by now.
//!
//! Then the tunnels to them end, and what they carried is dialled anew: a stream goes on behind
//! what was acknowledged; a session begins anew, and its subscribers are told what they missed.
//! Jobs of tasks would end with their connections, so the tunnels stay until there are none.
//! Runs on a thread of its own.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
        if !tunnelled.is_empty() && !served.agent.carries_tasks() {
            served.for_each(&tunnelled, |host, addresses| {
                served.carrier.leave_tunnels(host, addresses, LEASE)
            });
        }
        look_at = Instant::now() + LOOK;
    }
}
