//! Taking back, in the agent, what a port that died left with the core.

use std::sync::Arc;
use std::time::Duration;

use hythe_pool::ChannelInfo;

use super::attachment::{Right, end_session};
use super::map::LinkMap;
use super::settle;
use hythe_node::NodeError;
use hythe_node::hop::Participant;

/// Has the endpoint behind a channel, which nobody is attached to, something that belongs to
/// nobody?
pub(crate) fn is_left_alone(
    shared: &Arc<Participant>,
    link: &LinkMap,
    channel: &ChannelInfo,
) -> bool {
    let Some(core) = channel.core else {
        return false;
    };
    channel.attached.is_none() && link.life().is_some() && !settle::is_clean(shared, link, core)
}

/// Ends the session that a dead port left open, and takes back its slots once the core has let go
/// of them. False: not within the bound, or a port was quicker.
pub(crate) fn take_back(
    shared: &Arc<Participant>,
    link: &LinkMap,
    channel: &ChannelInfo,
    bound: Duration,
) -> Result<bool, NodeError> {
    let Some(core) = channel.core else {
        return Ok(false);
    };
    match Right::take(shared, channel) {
        Ok(Some(_right)) => end_session(shared, link, core, bound),
        Ok(None) | Err(NodeError::EndpointTaken { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
