//! Ringing the core for what is no message of Hythe's: over the doorbell that Hythe uses itself.

use std::sync::Arc;

use hythe_abi::link::bell_line;
use hythe_abi::{LINE_BYTES, RegionIndex};
use hythe_memory::{Mapped, Memory, Ordering, full_barrier};
use hythe_node::hop::{self, HopNode as _, HopPool as _, Participant};
use hythe_node::{MemberIndex, Node};

use crate::error::VringError;

/// The Linux end of the core's doorbell.
#[derive(Debug)]
pub struct Bell {
    participant: Arc<Participant>,
    region: RegionIndex,
    link: Mapped,
    /// Whoever passes rings on to the core, where they do not reach it otherwise.
    agent: MemberIndex,
}

impl Bell {
    /// Of the core behind a channel.
    ///
    /// # Errors
    /// [`VringError::NoCore`]; what [`HopPool::map_link`](hop::HopPool::map_link) says.
    pub fn of_channel(node: &Node, channel: &str) -> Result<Self, VringError> {
        let pool = node.pool();
        let core = pool.channel(channel).and_then(|channel| channel.core);
        let core = core.ok_or_else(|| VringError::NoCore {
            channel: channel.to_owned(),
        })?;
        Ok(Self {
            participant: Arc::clone(node.participant()),
            region: core.region,
            link: pool.map_link(core.region)?,
            agent: core.agent,
        })
    }

    /// Rings, as a message of Hythe's does (`spec/link.md`: the second line is the bell's).
    pub fn ring(&self) {
        self.link
            .add(LINE_BYTES + bell_line::COUNT, 1, Ordering::Release);
        full_barrier();
        match self.participant.doorbells().of_region(self.region) {
            Some(doorbell) => doorbell.ring(),
            None => hop::wake(self.participant.pool(), self.agent),
        }
    }
}
