//! Takes the newest list of the realm to the hosts that are connected, as soon as there is one.
//!
//! It comes from a command on this host or from another one, and counts here at once: a host that
//! was put out loses its connections. Each connection that is made anew brings the newer list, so
//! hosts are told by a connection on which nothing else is asked. Runs on a thread of its own, and
//! never waits longer than a lease for a host that does not answer.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{LEASE, Served};

/// How often it is looked whether there is somebody who has not been told.
const NAP: Duration = Duration::from_millis(200);
/// How soon a host that could not be told is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Until the agent stops.
pub(super) fn spread(served: &Served<'_>) {
    let mut number = served.realm.identity().document().number;
    let mut next_try = Instant::now();
    while !served.stop.load(Ordering::Relaxed) {
        let newest = served.realm.wait_change(number, NAP);
        if newest != number {
            number = newest;
            next_try = Instant::now();
            // It counts as it did before.
            if let Err(error) = served.apply() {
                tracing::warn!(%error, "the newest list of the realm does not count");
            }
        }
        if Instant::now() >= next_try && !tell(served) {
            next_try = Instant::now() + RETRY;
        }
    }
}

/// Tells the hosts that have an older list. False: not all of them could be told.
fn tell(served: &Served<'_>) -> bool {
    let untold = served.carrier.untold();
    if untold.is_empty() {
        return true;
    }
    served.for_each(&untold, |host, addresses| {
        served.carrier.tell(host, addresses, LEASE).is_ok()
    })
}
