//! An open channel: what its two directions share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hythe_cluster::{Copies, OpenChannelStatus};
use hythe_node::{ChannelType, Node};
use zenoh::Session;

/// Payload is copied into Zenoh's batch and by the kernel into the socket, and the same way back:
/// out of the socket, and into the slot.
const COPIES: Copies = Copies {
    sending: 2,
    receiving: 2,
};

/// What both directions use.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) node: Node,
    pub(super) session: Session,
    /// By which agents of one realm know each other's messages.
    pub(super) marker: String,
    pub(super) carries: ChannelType,
    pub(super) counts: Arc<Counts>,
}

/// They outlive the ports.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: Count,
    pub(super) not_sent: Count,
    pub(super) taken: Count,
    pub(super) not_taken: Count,
    reason: Mutex<String>,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Channel {
    /// Can a message of the channel be so long? Whether a slot is large enough, a lease shows.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        // Fits: 32 bits.
        let of_value = self.carries.bytes as usize;
        match of_value {
            0 => true,
            _ if self.carries.name.starts_with('[') => bytes.is_multiple_of(of_value),
            _ => bytes == of_value,
        }
    }

    /// What went wrong last.
    pub(super) fn say(&self, reason: &str) {
        self.counts.say(reason);
    }
}

impl Counts {
    pub(super) fn say(&self, reason: &str) {
        let mut kept = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        reason.clone_into(&mut kept);
    }

    pub(super) fn status(&self, name: &str, key: String) -> OpenChannelStatus {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        OpenChannelStatus {
            channel: name.to_owned(),
            key,
            reason: reason.clone(),
            sent: self.sent.now(),
            not_sent: self.not_sent.now(),
            taken: self.taken.now(),
            not_taken: self.not_taken.now(),
            copies: COPIES,
        }
    }
}
