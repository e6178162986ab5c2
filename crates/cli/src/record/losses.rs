//! What the publishers of a channel dropped while it was recorded.
//!
//! Each publisher counts the messages that passed by a full queue, whichever subscriber's it was: with the recorder as the only
//! subscriber that drops, the count is the recording's own. A publisher takes its counter with it when it leaves, so they are looked at
//! often; what it drops behind the last look is not seen.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hythe::{Node, PortIndex, PortKind};

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Counters of the channel's publishers.
pub(super) struct Losses<'a> {
    node: &'a Node,
    channel: &'a str,
    looked: Instant,
    /// By port and session: what it had counted at first, and at last.
    ports: HashMap<(PortIndex, u32), (u64, u64)>,
}

impl<'a> Losses<'a> {
    /// What was dropped until now does not count.
    pub(super) fn new(node: &'a Node, channel: &'a str) -> Self {
        let mut losses = Self {
            node,
            channel,
            looked: Instant::now(),
            ports: HashMap::new(),
        };
        losses.look_now();
        for (first, last) in losses.ports.values_mut() {
            *first = *last;
        }
        losses
    }

    /// Looks, if it is time to.
    pub(super) fn look(&mut self) {
        if self.looked.elapsed() >= LOOK_AGAIN {
            self.look_now();
        }
    }

    /// Messages dropped since the beginning.
    pub(super) fn count(&mut self) -> u64 {
        self.look_now();
        let ports = self.ports.values();
        ports.map(|(first, last)| last.saturating_sub(*first)).sum()
    }

    fn look_now(&mut self) {
        self.looked = Instant::now();
        let control = self.node.pool().control();
        let Some(channel) = control.find_channel(self.channel) else {
            return;
        };
        let publishers = control
            .ports()
            .filter(|port| port.channel == channel.index && port.kind == PortKind::Publisher);
        for port in publishers {
            // One that came since has counted from zero.
            let counted = self.ports.entry((port.index, port.session)).or_default();
            counted.1 = port.statistics.dropped;
        }
    }
}
