//! What flows need of a session with another host.

use std::fmt::Debug;

use hythe_node::{MemberIndex, Pool, PortIndex};
use hythe_pool::PortInfo;

use super::{Link, Pause};
use crate::frame::Control;

/// A session with another host, as flows see it.
pub(crate) trait FlowSession: Debug + Send + Sync {
    /// Chosen here.
    fn number(&self) -> u64;

    /// The other host's name.
    fn host(&self) -> &str;

    /// The participant that stands for the host.
    fn member(&self) -> MemberIndex;

    fn pool(&self) -> &Pool;

    /// The link of its control connection.
    fn link(&self) -> &Link;

    /// Looks at the interface of that again, where it is time.
    fn look_at_link(&self);

    /// What carries everything else.
    fn carrier(&self) -> &str;

    fn is_over(&self) -> bool;

    /// Tells the other side. One that takes nothing in loses the session.
    fn say(&self, message: Control);

    /// Why no flow is begun now, if so.
    fn why_no_flows(&self) -> Option<String>;

    /// A flow has ended by itself: well, or not.
    fn note_end_of_flow(&self, note: &dyn Fn(&mut Pause));

    /// So many messages may or may not have arrived; those will be missing again in the stream of
    /// this channel, where this publisher tells them, if one is named.
    fn note_unconfirmed(&self, messages: u32, told: Option<(&str, &PortInfo)>);

    /// # Errors
    /// The other host may not have what is published here, or is not of the realm any more.
    fn may_send(&self, channel: &str) -> Result<(), String>;

    /// # Errors
    /// The other host may not publish here, or is not of the realm any more.
    fn may_receive(&self, channel: &str) -> Result<(), String>;

    /// Is there a stream that carries what is published on the channel?
    fn has_stream(&self, channel: &str) -> bool;

    /// A publisher has left the port of the channel's stream; when what it sent has arrived,
    /// the flow is told. False: there is no stream.
    fn has_left(&self, channel: &str, port: PortIndex, flow: u32) -> bool;

    /// A flow begins in the place of the channel's stream from there: its publisher waits until
    /// what came by that is acknowledged, so it is at once.
    fn acknowledge_at_once(&self, channel: &str);

    /// Wakes the threads of its streams.
    fn wake(&self);

    /// Bytes of this pool that the other host may hold.
    fn own_window(&self) -> u32;

    /// The longest payload that fits a slot of this pool.
    fn payload_bytes_max(&self) -> u32;

    fn lease_ns(&self) -> u64;
}
