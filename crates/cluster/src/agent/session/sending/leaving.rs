//! Publishers that send by flows from now on: what they sent by this stream comes first.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hythe_node::PortIndex;

use super::lock;

/// A publisher that has left the stream's port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    port: PortIndex,
    flow: u32,
    /// The last frame in front of its flow, once all that it sent is taken.
    through: Option<u64>,
}

impl Leaving {
    pub(crate) const fn new(port: PortIndex, flow: u32) -> Self {
        Self {
            port,
            flow,
            through: None,
        }
    }
}

/// All of a stream.
#[derive(Debug, Default)]
pub(super) struct LeavingPublishers {
    all: Mutex<Vec<Leaving>>,
    is_some: AtomicBool,
}

impl LeavingPublishers {
    pub(super) fn add(&self, leaving: Leaving) {
        lock(&self.all).push(leaving);
        self.is_some.store(true, Ordering::Release);
    }

    /// Is there any? The thread of the stream asks in front of each message.
    pub(super) fn is_some(&self) -> bool {
        self.is_some.load(Ordering::Acquire)
    }

    /// Those that have nothing in the queues any more are in front of this frame.
    pub(super) fn note_taken(&self, last: u64, remains: impl Fn(PortIndex) -> bool) {
        for leaving in &mut *lock(&self.all) {
            if leaving.through.is_none() && !remains(leaving.port) {
                leaving.through = Some(last);
            }
        }
    }

    /// The flows of those for which all up to this frame was waited for.
    pub(super) fn take_arrived(&self, acknowledged: u64) -> Vec<u32> {
        let mut all = lock(&self.all);
        let is_over = |it: &mut Leaving| it.through.is_some_and(|last| last <= acknowledged);
        let flows = all.extract_if(.., is_over).map(|leaving| leaving.flow);
        let flows = flows.collect();
        self.is_some.store(!all.is_empty(), Ordering::Release);
        flows
    }
}

/// Messages that flows left unconfirmed. They were counted when the flows ended, and their
/// publishers tell as many as missing by the port that they go back to: none is counted twice.
#[derive(Debug, Default)]
pub(super) struct CountedByFlows(AtomicU64);

impl CountedByFlows {
    pub(super) fn add(&self, messages: u32) {
        self.0.fetch_add(messages.into(), Ordering::Relaxed);
    }

    /// So many messages are missing: how many of them are counted already?
    pub(super) fn take(&self, missing: u64) -> u64 {
        if missing == 0 {
            return 0;
        }
        let less = |counted: u64| Some(counted.saturating_sub(missing));
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.unwrap_or(0).min(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_flow_left_unconfirmed_is_not_counted_again_when_it_is_told() {
        let counted = CountedByFlows::default();
        assert_eq!(counted.take(3), 0);
        counted.add(5);
        assert_eq!([counted.take(0), counted.take(2)], [0, 2]);
        // Others were dropped besides.
        assert_eq!(counted.take(7), 3);
        assert_eq!(counted.take(1), 0);
    }

    #[test]
    fn a_flow_comes_behind_all_that_its_publisher_sent_before() {
        let leaving = LeavingPublishers::default();
        assert!(!leaving.is_some());
        for (port, flow) in [(3, 30), (4, 40)] {
            leaving.add(Leaving::new(PortIndex(port), flow));
        }
        assert!(leaving.is_some());
        // The first has something in a queue.
        leaving.note_taken(7, |port| port == PortIndex(3));
        assert!(leaving.take_arrived(6).is_empty());
        assert_eq!(leaving.take_arrived(7), [40]);
        leaving.note_taken(9, |_| false);
        assert!(leaving.take_arrived(8).is_empty());
        assert_eq!(leaving.take_arrived(9), [30]);
        assert!(!leaving.is_some());
    }
}
