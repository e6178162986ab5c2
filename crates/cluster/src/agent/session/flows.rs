//! What flows need of a session.

use std::sync::atomic::Ordering;

use super::channels::{may_receive, may_send};
use super::sending::Leaving;
use super::window::window_of;
use super::{NONE, Session, lock};
use crate::agent::flows::Pause;
use crate::agent::local::ChannelKey;
use crate::frame::{Control, EndKind};
use hythe_node::PortIndex;

/// Of a network whose round trip is not measured yet.
const ROUND_TRIP_NS: u64 = 1_000_000;
/// The longest that is believed, in nanoseconds.
const ROUND_TRIP_MAX_NS: u64 = 1_000_000_000;

impl Session {
    /// Tells the other side. One that takes nothing in loses the session.
    pub(crate) fn say(&self, message: Control) {
        if let Err(error) = self.outbox.put(message) {
            self.end(&error.to_string());
        }
    }

    /// Why no flow is begun now, if so.
    pub(crate) fn why_no_flows(&self) -> Option<String> {
        let path = self.link.path();
        path.err().or_else(|| lock(&self.pause).why())
    }

    /// A flow has ended by itself: well, or not.
    pub(crate) fn note_end_of_flow(&self, note: impl FnOnce(&mut Pause)) {
        note(&mut lock(&self.pause));
    }

    /// # Errors
    /// The other host may not have what is published here.
    pub(crate) fn may_send(&self, channel: &str) -> Result<(), String> {
        may_send(self, &published(channel)).map_err(|refusal| refusal.to_string())
    }

    /// # Errors
    /// The other host may not publish here.
    pub(crate) fn may_receive(&self, channel: &str) -> Result<(), String> {
        may_receive(self, &published(channel)).map_err(|refusal| refusal.to_string())
    }

    /// Is there a stream that carries what is published on the channel?
    pub(crate) fn has_stream(&self, channel: &str) -> bool {
        lock(&self.channels)
            .sending_stream(&published(channel))
            .is_some()
    }

    /// A publisher has left the port of the channel's stream; when what it sent has arrived,
    /// the flow is told. False: there is no stream.
    pub(crate) fn has_left(&self, channel: &str, port: PortIndex, flow: u32) -> bool {
        let stream = lock(&self.channels).sending_stream(&published(channel));
        let left = stream.is_some_and(|stream| stream.leave(Leaving::new(port, flow)));
        self.wake();
        left
    }

    /// Bytes of this pool that the other host may hold.
    pub(crate) fn own_window(&self) -> u32 {
        let (window, _) = window_of(&self.context.options.pool, 0);
        u32::try_from(window.bytes).unwrap_or(u32::MAX)
    }

    /// The longest payload that fits a slot of this pool.
    pub(crate) fn payload_bytes_max(&self) -> u32 {
        window_of(&self.context.options.pool, 0).1
    }

    pub(crate) fn lease_ns(&self) -> u64 {
        let lease = self.context.options.lease.as_nanos();
        u64::try_from(lease).unwrap_or(u64::MAX)
    }

    pub(crate) fn round_trip_or_default_ns(&self) -> u64 {
        match self.round_trip_ns.load(Ordering::Relaxed) {
            NONE => ROUND_TRIP_NS,
            measured => measured.clamp(1, ROUND_TRIP_MAX_NS),
        }
    }

    pub(crate) fn carrier(&self) -> &str {
        &self.about.carrier
    }
}

fn published(channel: &str) -> ChannelKey {
    ChannelKey {
        kind: EndKind::Publish,
        channel: channel.to_owned(),
    }
}
