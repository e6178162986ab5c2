//! What an agent is started with.

use std::sync::Arc;
use std::time::Duration;

use hythe_node::{Node, NodeError, Pool};

use crate::{HostName, Rights};

/// How long a host may be silent before it counts as gone.
const LEASE: Duration = Duration::from_secs(2);
/// Keep-alives in each lease: three may be late or lost.
const KEEP_ALIVES: u32 = 4;

/// Joins a pool under a name, as a node that knows the transports of all hops.
pub type Join = Arc<dyn Fn(&Pool, &str) -> Result<Node, NodeError> + Send + Sync>;

/// What an agent is started with.
#[derive(Clone)]
pub struct AgentOptions {
    pub(crate) host: HostName,
    pub(crate) pool: Pool,
    pub(crate) join: Join,
    pub(crate) rights: Rights,
    pub(crate) lease: Duration,
}

impl AgentOptions {
    /// For this host and its pool, with the hop between processes only and no rights for anybody.
    #[must_use]
    pub fn new(host: HostName, pool: Pool) -> Self {
        Self {
            host,
            pool,
            join: Arc::new(Node::join),
            rights: Rights::default(),
            lease: LEASE,
        }
    }

    /// How the agent joins its pool: a program that knows other hops joins with their transports.
    #[must_use]
    pub fn join(mut self, join: Join) -> Self {
        self.join = join;
        self
    }

    /// What other hosts may do here; default: nothing.
    #[must_use]
    pub fn rights(mut self, rights: Rights) -> Self {
        self.rights = rights;
        self
    }

    /// How long a host may be silent before it counts as gone; default 2 s. A host says something
    /// each quarter of it.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How often an agent says that it lives.
    pub(crate) fn keep_alive(&self) -> Duration {
        self.lease / KEEP_ALIVES
    }
}

impl std::fmt::Debug for AgentOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = formatter.debug_struct("AgentOptions");
        fields.field("host", &self.host).field("lease", &self.lease);
        fields.finish_non_exhaustive()
    }
}
