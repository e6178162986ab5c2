//! Ringing the core for what is no message of Hythe's: over the doorbell that Hythe uses itself.

use hythe_abi::LINE_BYTES;
use hythe_abi::link::bell_line;
use hythe_memory::{Mapped, Memory, Ordering, full_barrier};
use hythe_node::Pool;
use hythe_node::hop::{self, HopPool as _};
use hythe_pool::MemberIndex;

use crate::error::BenchError;

/// The Linux end of the core's doorbell.
#[derive(Debug)]
pub(super) struct Bell {
    pool: Pool,
    link: Mapped,
    /// Whoever passes rings on to the core.
    agent: MemberIndex,
}

impl Bell {
    /// Of the core behind a channel.
    pub(super) fn of_channel(pool: &Pool, channel: &str) -> Result<Self, BenchError> {
        let core = pool.channel(channel).and_then(|channel| channel.core);
        let core = core.ok_or_else(|| {
            BenchError::PeerLost(format!("no core is behind the channel {channel}"))
        })?;
        Ok(Self {
            pool: pool.clone(),
            link: pool.map_link(core.region)?,
            agent: core.agent,
        })
    }

    /// Rings, as a message of Hythe's does (`spec/link.md`: the second line is the bell's).
    pub(super) fn ring(&self) {
        self.link
            .add(LINE_BYTES + bell_line::COUNT, 1, Ordering::Release);
        full_barrier();
        hop::wake(&self.pool, self.agent);
    }
}
