//! What the bench and its two ends say to each other: one line of JSON each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::case::{Carrier, Case};
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
    /// To the near end: make a pool and a realm, start an agent, and add the far host, whose pool
    /// is called so. Answer: `Ready`.
    Introduce(Carrier, String),
    /// Wait until nobody has a port, nor do agents for the other host. Answer: `Ready`.
    Settle,
    /// The agents end, and the virtual machine of PVM. Answer: `Ready`.
    Part { is_near: bool },
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
}

impl network::Order for Order {
    type Outcome = Outcome;

    fn join(link: Link) -> Self {
        Self::Join(link)
    }
}
