//! What can go wrong between hosts.

use std::io;

use hythe_node::NodeError;

use crate::frame::FrameError;
use crate::stream::Violation;
use crate::{CarrierError, Refusal};

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// No connection.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// The other side closed the connection.
    #[error("the other host closed the connection")]
    Closed,
    /// Nothing came.
    #[error("nothing came for {0:?}")]
    Silent(std::time::Duration),
    /// The other side sends what makes no sense.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other side does what it must not.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The other side has more of something than it may.
    #[error("the other host has more than {most} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The most.
        most: usize,
    },
    /// The other host, or all together, have what they may of a table of this pool.
    #[error(
        "the other host has {own} of {of_one} {what} of this pool that one host may have, \
         all hosts {all} of {of_all}"
    )]
    Share {
        /// Of what.
        what: &'static str,
        /// What it has.
        own: u32,
        /// What one may have.
        of_one: u32,
        /// What all have.
        all: u32,
        /// What all may have.
        of_all: u32,
    },
    /// The other side says no.
    #[error("the other host refuses: {}", hythe_terminal::escaped(.0))]
    Refused(String),
    /// The other side says goodbye.
    #[error("the other host ended the session: {}", hythe_terminal::escaped(.0))]
    Bye(String),
    /// A rule of this host says no.
    #[error(transparent)]
    NotPermitted(#[from] Refusal),
    /// The other side expects something else.
    #[error("{0}")]
    Unexpected(String),
    /// The session is over.
    #[error("the session is over")]
    Over,
    /// The pool of this host.
    #[error(transparent)]
    Node(#[from] NodeError),
}
