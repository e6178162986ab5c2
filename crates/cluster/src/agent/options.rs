//! What an agent is started with.

use std::path::PathBuf;
use std::time::Duration;

use hythe_node::{Node, NodeError, Pool, hop};

use crate::{HostName, Rights};

/// How long a host may be silent before it counts as gone.
const LEASE: Duration = Duration::from_secs(2);
/// Keep-alives in each lease: three may be late or lost.
const KEEP_ALIVES: u32 = 4;
/// The longest time between two of them: the other host may have the default lease where this one
/// has a longer one.
const KEEP_ALIVE_MAX: Duration = Duration::from_millis(500);

/// What an agent is started with.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    pub(crate) host: HostName,
    pub(crate) pool: Pool,
    pub(crate) join: fn(&Pool, &str) -> Result<Node, NodeError>,
    pub(crate) rights: Rights,
    pub(crate) lease: Duration,
    pub(crate) trusted: Vec<String>,
    pub(crate) allows_frames: bool,
    pub(crate) pool_name: String,
    pub(crate) task_command: PathBuf,
}

impl AgentOptions {
    /// For this host and its pool, with the hop between processes only and no rights for anybody.
    #[must_use]
    pub fn new(host: HostName, pool: Pool) -> Self {
        Self {
            host,
            pool,
            join: |pool, host| hop::join_host(pool, host, &[]),
            rights: Rights::default(),
            lease: LEASE,
            trusted: Vec::new(),
            allows_frames: true,
            pool_name: "default".to_owned(),
            task_command: PathBuf::from("hythe"),
        }
    }

    /// How a participant for a host joins the pool; default: with the hop between processes only.
    /// With those of other hops a channel of a core, for instance, reaches other hosts.
    #[must_use]
    pub const fn join(mut self, join: fn(&Pool, &str) -> Result<Node, NodeError>) -> Self {
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
    /// each quarter of it, and each half second at least: hosts may have different leases, of a
    /// second or more.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Interfaces whose links the user trusts: anybody on such a link may read and forge what goes
    /// over it. Processes send there in clear text, where the other host trusts the link, too.
    /// Default: none; they seal what they send.
    #[must_use]
    pub fn trusted(mut self, interfaces: Vec<String>) -> Self {
        self.trusted = interfaces;
        self
    }

    /// Whether short messages may go over these links by `AF_XDP` frames, too, where a program
    /// serves the interface with them; default: they may.
    #[must_use]
    pub const fn allows_frames(mut self, allows_frames: bool) -> Self {
        self.allows_frames = allows_frames;
        self
    }

    /// The pool's name, for tasks that other hosts have started here; default: `default`.
    #[must_use]
    pub fn pool_name(mut self, pool_name: &str) -> Self {
        pool_name.clone_into(&mut self.pool_name);
        self
    }

    /// The command `hythe`, which starts tasks for other hosts; default: as `PATH` leads to it.
    #[must_use]
    pub fn task_command(mut self, command: PathBuf) -> Self {
        self.task_command = command;
        self
    }

    /// How often an agent says that it lives.
    pub(crate) fn keep_alive(&self) -> Duration {
        (self.lease / KEEP_ALIVES).min(KEEP_ALIVE_MAX)
    }
}
