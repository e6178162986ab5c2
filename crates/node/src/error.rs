//! What can go wrong, with what to do about it.

use std::io;
use std::path::PathBuf;

use hythe_abi::RegionIndex;
use hythe_pool::{PoolError, SendError};

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The system refused something about a file of the pool.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No permission, with what would be needed.
    #[error("permission denied: {} has mode {mode:04o}, owner {owner}, group {group}; ask its owner, or join that group", path.display())]
    Permission {
        /// The path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// Its owner's user id.
        owner: u32,
        /// Its group id.
        group: u32,
    },
    /// The directory is not safe to use.
    #[error("refusing to use {}: {reason}", path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// There is no such pool.
    #[error("there is no pool `{name}` in {}: `hythe pool create {name}` makes it", root.display())]
    NoSuchPool {
        /// The name.
        name: String,
        /// Where it was looked for.
        root: PathBuf,
    },
    /// The pool is in use.
    #[error("pool `{name}` is in use by {}: stop them first, or use --force", members.join(", "))]
    InUse {
        /// The name.
        name: String,
        /// Who takes part.
        members: Vec<String>,
    },
    /// The system has not enough memory for the pool.
    #[error("no room for {bytes} bytes at {}: {source}; enlarge the file system, or make the pool smaller (--size)", path.display())]
    NoRoom {
        /// Bytes needed.
        bytes: u64,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The ledger or a table refused.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A subscriber did not make room in time.
    #[error(
        "the subscriber of channel `{channel}` made no room within {waited_ms} ms: {subscriber}"
    )]
    Blocked {
        /// The channel.
        channel: String,
        /// How long was waited.
        waited_ms: u64,
        /// Which subscriber.
        subscriber: String,
    },
    /// The buffer cannot be seen by the receiver.
    #[error("a buffer of region {} cannot be seen by the core behind channel `{channel}`; lease it from region {} (Publisher::lease does)", region.0, wanted.0)]
    RegionNotVisible {
        /// The channel.
        channel: String,
        /// The buffer's region.
        region: RegionIndex,
        /// The core's region.
        wanted: RegionIndex,
    },
    /// More than the endpoint on the core takes.
    #[error(
        "{bytes} bytes are more than the core endpoint behind channel `{channel}` takes ({largest})"
    )]
    TooLargeForCore {
        /// The channel.
        channel: String,
        /// Bytes of the message.
        bytes: u32,
        /// What the endpoint takes.
        largest: u32,
    },
    /// Somebody else uses the endpoint.
    #[error(
        "the core endpoint behind channel `{channel}` serves one port at a time, and {holder} is attached to it"
    )]
    EndpointTaken {
        /// The channel.
        channel: String,
        /// Who: name and process.
        holder: String,
    },
    /// The core is not there, or does not answer.
    #[error("the core behind channel `{channel}` does not answer: {reason}")]
    CoreSilent {
        /// The channel.
        channel: String,
        /// What was waited for.
        reason: String,
    },
    /// The channel carries payload the other way.
    #[error(
        "channel `{channel}` ends on a core and carries payload {direction}; a {port} is not possible on it"
    )]
    WrongDirection {
        /// The channel.
        channel: String,
        /// Which way.
        direction: &'static str,
        /// What was asked for.
        port: &'static str,
    },
    /// A core's link has nonsense in it.
    #[error("the link of region {} is not usable: {reason}", region.0)]
    BadLink {
        /// The link's region.
        region: RegionIndex,
        /// What is wrong.
        reason: String,
    },
}

impl From<SendError> for NodeError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Pool(error) => Self::Pool(error),
            SendError::Full => Self::Pool(PoolError::Busy("a queue")),
        }
    }
}

/// Names path and action of an I/O error.
pub(crate) fn file(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> NodeError {
    move |source| NodeError::File {
        action,
        path: path.into(),
        source,
    }
}
