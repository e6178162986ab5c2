//! What a waiter sees of a channel that ends on a core: its link, from outside.
//!
//! A core makes no marks; its ring wakes the participant, and the waiter then looks here. Never takes anything, and never writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_abi::link::Direction;
use hythe_pool::ChannelIndex;

use super::link_map::LinkMap;
use crate::node::Shared;

/// A look at one endpoint of a core.
#[derive(Debug)]
pub(crate) struct CoreLook {
    link: LinkMap,
    endpoint: usize,
    /// When the port was last asked to go on with the agreement on a session.
    asked: Option<Instant>,
}

impl CoreLook {
    /// How long a waiter with a core may sleep: an emulator may lose a ring.
    pub(crate) const NAP: Duration = Duration::from_millis(20);

    /// At the core behind a channel, if it gives payload.
    pub(crate) fn at(shared: &Arc<Shared>, channel: ChannelIndex) -> Option<Self> {
        let pool = shared.pool();
        let core = pool.control().channel(channel)?.core?;
        if core.direction != Direction::FromCore {
            return None;
        }
        // A link that cannot be mapped is the port's to report: it meets the same.
        let link = LinkMap::open(pool, core.region).ok()?;
        Some(Self {
            link,
            endpoint: core.endpoint as usize,
            asked: None,
        })
    }

    /// Has it something for the port to do: payload, or a step towards a session?
    pub(crate) fn is_ready(&mut self) -> bool {
        let (wanted, agreed) = self.link.endpoint_sessions(self.endpoint);
        // What waits at a core that is down, nobody can take.
        if wanted != 0 && wanted == agreed && self.link.life().is_some() {
            return self.link.has_waiting(self.endpoint);
        }
        // The port takes that step when it tries to take; asked for again and again, but not so that the wait becomes a spin.
        let due = self.asked.is_none_or(|asked| asked.elapsed() >= Self::NAP);
        if due {
            self.asked = Some(Instant::now());
        }
        due
    }
}
