//! What the bench and its two ends say to each other: one line of JSON each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::case::{Case, Metric};
use crate::network::{self, Link};
use crate::starter::Neighbour;

/// One case at one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) case: Case,
    /// 0 where the case has its own, or none.
    pub(super) size: usize,
    /// Samples, at most.
    pub(super) count: u64,
    pub(super) time: Duration,
    /// Small, to see that it works.
    pub(super) is_quick: bool,
}

/// To an end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Put up a link's end and know the other. Answer: `Ready`.
    Join(Link),
    /// To the near end: who the other host is. Answer: `Ready`.
    Meet(Neighbour),
    /// To the near end: measure. Answer: what was found.
    Measure(Run),
    /// To the near end: the virtual machine ends. Answer: `Ready`.
    Part,
}

/// One figure of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) metric: Metric,
    pub(super) size: usize,
    /// Base64 of an HdrHistogram V2.
    pub(super) times: String,
}

impl network::Order for Order {
    type Outcome = Vec<Found>;

    fn join(link: Link) -> Self {
        Self::Join(link)
    }
}
