//! A node whose ports reach processes and RTOS cores.

use std::ops::Deref;

use hythe_node::{NodeError, Pool};

/// This process as a participant of a pool, with ports that reach processes and, with the feature
/// `core`, RTOS cores.
///
/// It dereferences to [`hythe_node::Node`], which has the methods. Clones share the participant; it
/// leaves the pool when the last clone, port, lease and sample is gone.
#[derive(Clone, Debug)]
pub struct Node(hythe_node::Node);

impl Node {
    /// Joins a pool under a name.
    ///
    /// # Errors
    /// As [`hythe_node::Node::join`].
    pub fn join(pool: &Pool, name: &str) -> Result<Self, NodeError> {
        #[cfg(feature = "core")]
        let joined = hythe_rtcore::join(pool, name);
        #[cfg(not(feature = "core"))]
        let joined = hythe_node::Node::join(pool, name);
        joined.map(Self)
    }

    /// As [`join`](Self::join), with time-outs for what the ports do with cores.
    ///
    /// # Errors
    /// As [`hythe_node::Node::join`].
    #[cfg(feature = "core")]
    pub fn join_with(
        pool: &Pool,
        name: &str,
        timeouts: hythe_rtcore::LinkTimeouts,
    ) -> Result<Self, NodeError> {
        hythe_rtcore::join_with(pool, name, timeouts).map(Self)
    }
}

impl Deref for Node {
    type Target = hythe_node::Node;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
