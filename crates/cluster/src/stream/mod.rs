//! One stream: the frames of one channel in one direction, whatever connections carry them.
//!
//! [`Outgoing`] is the sender's side, [`Incoming`] the receiver's. What holds between calls: frames
//! have numbers without gaps; what was sent is kept until it is acknowledged; never more is
//! underway than the window that the receiver granted. Pure state: never sends, waits, or reads a
//! clock.

mod incoming;
mod outgoing;

pub use incoming::Incoming;
pub use outgoing::{Outgoing, Ready};

/// What a peer did that it must not: its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A frame out of order.
    #[error("frame {sequence} where {expected} is due")]
    OutOfOrder {
        /// Its number.
        sequence: u64,
        /// The one that is due.
        expected: u64,
    },
    /// More than the window.
    #[error("{frames} frames of {bytes} bytes that are not acknowledged: more than the window")]
    BeyondWindow {
        /// Frames with this one.
        frames: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// A payload longer than was said to be possible.
    #[error("a payload of {bytes} bytes; the longest possible was said to be {most}")]
    PayloadTooLong {
        /// Its length.
        bytes: u32,
        /// The longest.
        most: u32,
    },
    /// Acknowledged, and not sent.
    #[error("frame {through} was acknowledged; {sent} were sent, {acknowledged} acknowledged")]
    NotSent {
        /// What was acknowledged.
        through: u64,
        /// The last frame that was sent.
        sent: u64,
        /// What was acknowledged before.
        acknowledged: u64,
    },
}
