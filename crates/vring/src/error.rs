//! What can go wrong in a transfer.

use std::io;

/// Errors of a transfer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VringError {
    /// The core's region, in which its memory is, cannot be mapped.
    #[error("cannot map the memory of a transfer: {0}")]
    Map(#[source] io::Error),
    /// No core is behind the channel.
    #[error("no core is behind the channel {channel}")]
    NoCore {
        /// The channel.
        channel: String,
    },
    /// The core did not take the memory of the transfer.
    #[error("the core does not take the memory of a transfer on channel {channel}")]
    NotTaken {
        /// The channel.
        channel: String,
    },
    /// The core wrote a length that cannot be.
    #[error("the core sent a fragment that is no part of a message of up to {limit} bytes")]
    BadFragment {
        /// The longest message.
        limit: usize,
    },
    /// The pool's errors.
    #[error(transparent)]
    Node(#[from] hythe_node::NodeError),
}
