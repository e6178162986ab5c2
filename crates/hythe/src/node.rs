//! A node whose ports reach processes, RTOS cores and tasks of other hosts.

use std::ops::Deref;
use std::sync::Arc;

use hythe_node::hop::{self, Transport};
use hythe_node::{NodeError, Pool};

/// This process as a participant of a pool, with ports that reach processes and, with the feature
/// `core`, RTOS cores. With the feature `host` they reach tasks of other hosts by sockets of their
/// own, where the agent of this host offers that; without it, through the agent.
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
        let transports = vec![
            #[cfg(feature = "core")]
            hythe_rtcore::transport(hythe_rtcore::LinkTimeouts::default()),
        ];
        Self::join_by(pool, name, transports)
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
        Self::join_by(pool, name, vec![hythe_rtcore::transport(timeouts)])
    }

    #[cfg_attr(
        not(feature = "host"),
        allow(unused_mut, reason = "nothing is added without the feature")
    )]
    fn join_by(
        pool: &Pool,
        name: &str,
        mut transports: Vec<Arc<dyn Transport>>,
    ) -> Result<Self, NodeError> {
        #[cfg(feature = "host")]
        transports.push(Arc::new(hythe_flows::Flows::new()));
        hop::join(pool, name, &transports).map(Self)
    }
}

impl Deref for Node {
    type Target = hythe_node::Node;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
