//! What the publishers of a channel dropped while it was recorded.
//!
//! Each publisher counts the messages that passed by a full queue, or were evicted from one,
//! whichever subscriber's it was: with the recorder as the only subscriber that drops, the count is
//! the recording's own. It stays in the table behind the publisher's end until another port gets
//! its number, so it is looked at often, and by a thread of its own: a disk that keeps the recorder
//! waiting hides no loss. What is not seen: a publisher that came and went between two looks, and
//! drops in front of which its number changed hands.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use hythe::Node;
use hythe::inspect::{PortIndex, PortKind};

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Does something; also returns how many messages were dropped meanwhile.
pub(super) fn counted_during<T>(node: &Node, channel: &str, act: impl FnOnce() -> T) -> (T, u64) {
    let mut losses = Losses::new(node, channel);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let counting = scope.spawn(|| losses.count_until(&over));
        let end = End {
            over: &over,
            counting: counting.thread().clone(),
        };
        let done = act();
        drop(end);
        let dropped = counting.join().unwrap_or_else(|panic| resume_unwind(panic));
        (done, dropped)
    })
}

/// Ends the counting, also when what it goes on during panics.
struct End<'a> {
    over: &'a AtomicBool,
    counting: Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.counting.unpark();
    }
}

/// Counters of the channel's publishers.
struct Losses<'a> {
    node: &'a Node,
    channel: &'a str,
    /// By port and session: what it had counted at first, and at last.
    ports: HashMap<(PortIndex, u32), (u64, u64)>,
}

impl<'a> Losses<'a> {
    /// What was dropped until now does not count.
    fn new(node: &'a Node, channel: &'a str) -> Self {
        let mut losses = Self {
            node,
            channel,
            ports: HashMap::new(),
        };
        losses.look();
        for (first, last) in losses.ports.values_mut() {
            *first = *last;
        }
        losses
    }

    /// Messages dropped since the beginning.
    fn count_until(&mut self, over: &AtomicBool) -> u64 {
        while !over.load(Ordering::Acquire) {
            self.look();
            thread::park_timeout(LOOK_AGAIN);
        }
        self.look();
        let ports = self.ports.values();
        ports.map(|(first, last)| last.saturating_sub(*first)).sum()
    }

    fn look(&mut self) {
        let pool = self.node.pool();
        let Some(channel) = pool.channel(self.channel) else {
            return;
        };
        let open = pool.ports();
        for (&(index, _), (_, last)) in &mut self.ports {
            // Of one that has left; one that is there is looked at below. A number that is being
            // used again counts from zero.
            if open.iter().all(|port| port.index != index) {
                *last = pool.last_statistics(index).dropped.max(*last);
            }
        }
        let publishers = open
            .iter()
            .filter(|port| port.channel == channel.index && port.kind == PortKind::Publisher);
        for port in publishers {
            // One that came since has counted from zero.
            let counted = self.ports.entry((port.index, port.session)).or_default();
            counted.1 = port.statistics.dropped;
        }
    }
}
