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
    /// Wait until the link carries something: some systems pass by an interface of which the kernel
    /// does not say so yet. Answer: `Ready`.
    AwaitLink,
    /// To the near end: who the other host is. Answer: `Ready`.
    Meet(Neighbour),
    /// To the near end: begin a realm and take the far host into it, whose agent runs then. Answer:
    /// `Ready`.
    Introduce,
    /// To the far end: its agent, which was started at all addresses, ends. Answer: `Ready`.
    Halt,
    /// The agent runs at the link, and lets the other host start programs. Answer: `Ready`.
    Start,
    /// To the near end: wait until the agents have met. Answer: `Ready`.
    Await,
    /// To the near end: measure. Answer: what was found.
    Measure(Run),
    /// The agent ends, and the virtual machine of PVM. Answer: `Ready`.
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
