//! Taking part in a pool with cores as targets and sources of channels.

use std::sync::Arc;

use hythe_node::{Node, NodeError, Pool, hop};

use crate::link::CoreLinks;

/// Joins a pool under a name, as a node whose ports reach cores, too. The facade's nodes do.
///
/// # Errors
/// As [`Node::join`].
pub fn join(pool: &Pool, name: &str) -> Result<Node, NodeError> {
    hop::join(pool, name, &[Arc::new(CoreLinks)])
}
