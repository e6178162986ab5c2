//! What came of the connections that others tried to make, for `hythe host status`.
//!
//! Counted by the acceptor; a stranger costs a number here, and no line in a log. Never decides.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Counters of a carrier.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: AtomicU64,
    pub(super) not_hythe: AtomicU64,
    pub(super) not_trusted: AtomicU64,
    pub(super) revoked: AtomicU64,
    pub(super) other_version: AtomicU64,
    pub(super) too_slow: AtomicU64,
    pub(super) crowded_out: AtomicU64,
}

/// Their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CarrierCounts {
    /// Connections that hosts of the realm made to this one.
    pub accepted: u64,
    /// Calls that did not begin as this program's do; they were not answered.
    pub not_hythe: u64,
    /// Calls without a certificate of the realm, or with this host's own name.
    pub not_trusted: u64,
    /// Calls with a revoked certificate.
    pub revoked: u64,
    /// Calls of other versions.
    pub other_version: u64,
    /// Calls that did not finish in time, or broke off.
    pub too_slow: u64,
    /// Calls that were ended for newer ones, or that came when too many were waiting.
    pub crowded_out: u64,
}

impl Counts {
    pub(super) fn values(&self) -> CarrierCounts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CarrierCounts {
            accepted: value(&self.accepted),
            not_hythe: value(&self.not_hythe),
            not_trusted: value(&self.not_trusted),
            revoked: value(&self.revoked),
            other_version: value(&self.other_version),
            too_slow: value(&self.too_slow),
            crowded_out: value(&self.crowded_out),
        }
    }
}

/// One more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
