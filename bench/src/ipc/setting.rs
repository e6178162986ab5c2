//! What one run is to do. How: `run`.

use super::case::Case;
use super::end::Budget;
use super::iceoryx2::Place;
use super::outside::Outside;
use crate::lookout::Lookout;
use crate::pool::BenchPool;

/// One-way messages are so much cheaper than round trips.
const MESSAGES_PER_COUNT: u64 = 5;
const MESSAGES_MAX: u64 = 2_000_000;
/// Of a stream: tenths of a second.
const STREAM_BYTES: u64 = 1 << 30;

/// What to run, where, for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) case: Case,
    pub(super) size: usize,
    pub(super) budget: Budget,
    pub(super) cpus: Option<[usize; 2]>,
    pub(super) pool: &'a BenchPool,
    pub(super) iceoryx2: &'a Place,
    pub(super) outside: &'a Outside,
    pub(super) lookout: &'a Lookout,
}

impl Setting<'_> {
    /// Of a one-way run.
    pub(super) fn messages(&self) -> u64 {
        let messages = self.budget.count.saturating_mul(MESSAGES_PER_COUNT);
        let most = match self.case.pattern.stream_depth() {
            Some(_) => STREAM_BYTES / self.size as u64,
            None => MESSAGES_MAX,
        };
        messages.min(most)
    }
}
