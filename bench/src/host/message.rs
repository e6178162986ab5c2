//! What the bench and its two ends say to each other: one line of JSON each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::case::{Carrier, Case};
use crate::document::Steady;
use crate::ipc::end::Budget;
use crate::network::{self, Link};
use crate::starter::Neighbour;

/// One case at one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) case: Case,
    pub(super) size: usize,
    /// Samples, at most.
    pub(super) count: u64,
    pub(super) time: Duration,
    /// Behind it, what a message takes beside time is counted (`steady`).
    pub(super) counts_calls: bool,
}

impl Run {
    pub(super) const fn budget(&self) -> Budget {
        Budget {
            count: self.count,
            time: self.time,
        }
    }
}

/// To an end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Put up a link's end and know the other. Answer: `Ready`.
    Join(Link),
    /// Wait until the links carry something: some systems pass by an interface of which the kernel
    /// does not say so yet. Answer: `Ready`.
    AwaitLinks,
    /// To the near end: who the other host is. Answer: `Ready`.
    Meet(Neighbour),
    /// To the far end: send back what comes. Answer: `Listening`, and when the other end has
    /// finished, to [`Order::Collect`], `Ready`.
    Echo(Run),
    /// To the near end: there and back with the far end, which listens at this port. Answer:
    /// `Measured`.
    Measure(Run, u16),
    /// To the near end: there and back within this host, or with whom the system's own starter
    /// starts. Answer: `Measured`.
    MeasureAlone(Run),
    /// To the far end, when the near one has measured. Answer: `Ready`.
    Collect,
    /// To the far end: make a pool for the agent of this carrier. Answer: `Pool`.
    Prepare(Carrier),
    /// To the near end: make a pool and a realm, and take the far host into it, whose pool is
    /// called so; its agent runs then. Answer: `Ready`.
    Introduce(Carrier, String),
    /// To the far end: the agent of this carrier ends. Answer: `Ready`.
    Halt(Carrier),
    /// The agent of this carrier runs at the link of its carrier. Answer: `Ready`.
    Start(Carrier),
    /// To the near end: wait until the agents of this carrier have met. Answer: `Ready`.
    Await(Carrier),
    /// Wait until nobody has a port, nor do agents for the other host. Answer: `Ready`.
    Settle,
    /// The agents end, and the virtual machine of PVM. Answer: `Ready`.
    Part,
    /// The ledgers of all pools add up, and all of them is free. Answer: `Ready`.
    Audit,
}

/// What an end found out, where an order asks for more than to be done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// At this port; 0 where none is needed.
    Listening(u16),
    /// Its name.
    Pool(String),
    /// Base64 of an HdrHistogram V2.
    Measured(String),
    /// The same, and what was counted behind it.
    Counted(String, Steady),
}

impl network::Order for Order {
    type Outcome = Outcome;

    fn join(link: Link) -> Self {
        Self::Join(link)
    }
}
