//! Taking part in a pool with cores as targets and sources of channels.

use std::sync::Arc;
use std::time::Duration;

use hythe_node::hop::{HopNode as _, Transport};
use hythe_node::{Node, NodeError, Pool, hop};

use crate::LinkTimeouts;
use crate::link::CoreLinks;

/// For how long a core holds up a channel of another host, as its only receiver. The stream of the
/// channel stands still meanwhile, and cannot end.
const WINDOW_OF_HOST: Duration = Duration::from_secs(1);

/// What makes a node's ports reach cores, for a node that knows other hops, too.
#[must_use]
pub fn transport(timeouts: LinkTimeouts) -> Arc<dyn Transport> {
    Arc::new(CoreLinks::new(timeouts))
}

/// Joins a pool under a name, as a node whose ports reach cores, too.
///
/// # Errors
/// As [`Node::join`].
pub fn join(pool: &Pool, name: &str) -> Result<Node, NodeError> {
    join_with(pool, name, LinkTimeouts::default())
}

/// As [`join`], with time-outs for what the ports do with cores.
///
/// # Errors
/// As [`Node::join`].
pub fn join_with(pool: &Pool, name: &str, timeouts: LinkTimeouts) -> Result<Node, NodeError> {
    hop::join(pool, name, &[transport(timeouts)])
}

/// Joins a pool for another host, as participant `host NAME`, whose ports reach cores, too. A core
/// that is the only receiver of what comes from there is waited for 1 s at most while its queue is
/// full, not for the 10 s of a process.
///
/// # Errors
/// As [`Node::join`].
pub fn join_host(pool: &Pool, host: &str) -> Result<Node, NodeError> {
    let timeouts = LinkTimeouts::default().window(WINDOW_OF_HOST);
    hop::join_host(pool, host, &[transport(timeouts)])
}

/// As [`join`], but each ring passes through the agent of its core, as on boards whose doorbell is
/// one line. For measurements of both.
///
/// # Errors
/// As [`Node::join`].
pub fn join_without_doorbells(pool: &Pool, name: &str) -> Result<Node, NodeError> {
    let node = join(pool, name)?;
    node.participant().doorbells().refuse();
    Ok(node)
}
