//! Rates between two looks at the counters of ports. Pure: who looks says when.

use std::collections::HashMap;
use std::time::Instant;

use hythe::PortStatistics;
use hythe::inspect::{PortIndex, PortInfo};
use serde::Serialize;

/// What the ports had counted at some moment. A port number is used again: the session tells its
/// owners apart.
#[derive(Debug)]
pub(crate) struct Counts {
    at: Instant,
    ports: HashMap<(PortIndex, u32), PortStatistics>,
}

/// The rates of several ports together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Direction {
    pub(crate) ports: usize,
    pub(crate) messages: u64,
    pub(crate) messages_per_second: f64,
    pub(crate) payload_bytes_per_second: f64,
    /// Bytes of a payload in the middle; none where no message was counted.
    pub(crate) mean_bytes: Option<f64>,
    pub(crate) dropped: u64,
    pub(crate) dropped_per_second: f64,
}

impl Counts {
    pub(crate) fn of<'a>(at: Instant, ports: impl IntoIterator<Item = &'a PortInfo>) -> Self {
        let counted = ports
            .into_iter()
            .map(|port| ((port.index, port.session), port.statistics));
        Self {
            at,
            ports: counted.collect(),
        }
    }

    pub(crate) const fn at(&self) -> Instant {
        self.at
    }

    /// Seconds from these counts to a later moment.
    pub(crate) fn seconds_until(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.at).as_secs_f64()
    }

    /// What `ports`, as they are `now`, have counted since.
    pub(crate) fn until<'a>(
        &self,
        now: Instant,
        ports: impl IntoIterator<Item = &'a PortInfo>,
    ) -> Direction {
        let mut sum = Direction::default();
        let mut bytes = 0;
        for port in ports {
            // A port that has come since has counted from zero.
            let old = self.ports.get(&(port.index, port.session));
            let (old, new) = (old.copied().unwrap_or_default(), port.statistics);
            sum.ports += 1;
            sum.messages += new.messages.saturating_sub(old.messages);
            sum.dropped += new.dropped.saturating_sub(old.dropped);
            bytes += new.payload_bytes.saturating_sub(old.payload_bytes);
        }
        // Two looks at one moment are no interval.
        let seconds = self.seconds_until(now).max(1e-9);
        sum.messages_per_second = sum.messages as f64 / seconds;
        sum.payload_bytes_per_second = bytes as f64 / seconds;
        sum.dropped_per_second = sum.dropped as f64 / seconds;
        sum.mean_bytes = (sum.messages > 0).then(|| bytes as f64 / sum.messages as f64);
        sum
    }
}
