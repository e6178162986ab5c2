//! Messages that did not reach a consumer, counted where that consumer sees them.
//!
//! The producer of a connection counts them in the cell *missed*, whatever the reason: a full
//! queue, a quota, an eviction, a loss before this pool. Beside each descriptor of the queue stands
//! a *gap word*: how many were passed by before it was pushed, evictions not counted, since these
//! show in the head. So the consumer knows how many are missing in front of each message, and by
//! the cell how many are missing behind the last one. Each word has one writer. What a peer counts
//! is its word: nothing is decided by it.

use hythe_memory::{Memory, Ordering};

use super::Tables;
use super::connections::ConnectionInfo;
use super::ports::{PortInfo, PortKind};
use hythe_abi::pool::connection;

impl<M: Memory> Tables<'_, M> {
    /// Messages of the producer that did not reach the consumer, since the connection was made.
    #[inline(always)]
    pub fn missed(self, info: &ConnectionInfo) -> u64 {
        let at = self.layout().connection(info.index.0 as usize) + connection::MISSED;
        // Relaxed: whoever took a descriptor has acquired the tail behind what was counted before.
        self.memory().load_cell(at, Ordering::Relaxed)
    }

    /// For the producer: writes the cell.
    pub fn set_missed(self, info: &ConnectionInfo, messages: u64) {
        let at = self.layout().connection(info.index.0 as usize) + connection::MISSED;
        self.memory().store_cell(at, messages, Ordering::Relaxed);
    }

    /// How many of them the consumer's port has counted.
    pub fn counted(self, info: &ConnectionInfo) -> u64 {
        let at = self.layout().connection(info.index.0 as usize) + connection::COUNTED;
        self.memory().load_cell(at, Ordering::Relaxed)
    }

    /// For the consumer: writes how many of them its port has counted.
    pub fn set_counted(self, info: &ConnectionInfo, messages: u64) {
        let at = self.layout().connection(info.index.0 as usize) + connection::COUNTED;
        self.memory().store_cell(at, messages, Ordering::Relaxed);
    }

    /// The gap word of the descriptor with this number. Read before its place is given back.
    pub fn gap(self, info: &ConnectionInfo, number: u32) -> u32 {
        self.memory().load(info.gap(number), Ordering::Relaxed)
    }

    /// For the producer: writes the gap word of the next descriptor, whose place is free. The push
    /// publishes it.
    pub fn set_gap(self, info: &ConnectionInfo, number: u32, messages: u32) {
        self.memory()
            .store(info.gap(number), messages, Ordering::Relaxed);
    }

    /// Adds to what subscribers have counted what they have not looked at yet: one that is stopped
    /// counts nothing itself.
    pub fn add_uncounted(self, ports: &mut [PortInfo]) {
        for info in self.connections().filter(|info| !info.consumer_left) {
            let more = self.missed(&info).saturating_sub(self.counted(&info));
            if more == 0 {
                continue;
            }
            let is_its = |port: &&mut PortInfo| {
                port.index == info.consumer_port && port.kind == PortKind::Subscriber
            };
            if let Some(port) = ports.iter_mut().find(is_its) {
                port.statistics.dropped = port.statistics.dropped.saturating_add(more);
            }
        }
    }
}

impl ConnectionInfo {
    const fn gap(&self, number: u32) -> usize {
        self.gaps + (number & (self.places.capacity - 1)) as usize * 4
    }
}
