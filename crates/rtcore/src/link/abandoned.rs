//! Taking back, in the agent, what a port that died left with the core.

use std::sync::Arc;
use std::time::Duration;

use hythe_pool::ChannelInfo;

use super::attachment::end_session;
use super::map::LinkMap;
use super::right::{Place, Right};
use super::settle;
use hythe_node::NodeError;
use hythe_node::hop::{HopPool as _, Participant};

/// Has a port of the endpoint behind a channel, at which nobody is, something that belongs to
/// nobody?
pub(crate) fn is_left_alone(
    shared: &Arc<Participant>,
    link: &LinkMap,
    channel: &ChannelInfo,
    port: usize,
) -> bool {
    let Some(core) = channel.core else {
        return false;
    };
    if channel.attached[port].is_some() || link.life().is_none() {
        return false;
    }
    // A port without a row was never used.
    let row = shared
        .pool()
        .control()
        .tables()
        .row_of_core_port(core, port);
    row.is_some_and(|row| !settle::is_clean(shared, link, core, Place { port, row }))
}

/// Ends the session that was left open at a port, and takes back its slots once the core has let go
/// of them. False: not within the bound, or somebody attached first.
pub(crate) fn take_back(
    shared: &Arc<Participant>,
    link: &LinkMap,
    channel: &ChannelInfo,
    port: usize,
    bound: Duration,
) -> Result<bool, NodeError> {
    let Some(core) = channel.core else {
        return Ok(false);
    };
    match Right::take_port(shared, channel, port) {
        Ok(Some(right)) => end_session(link, core, (&right, None), bound),
        Ok(None) | Err(NodeError::EndpointTaken { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
