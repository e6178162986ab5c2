//! What travels between two agents, as bytes: `spec/host.md`.
//!
//! A connection begins with a [`Preamble`] each way. Then come messages with their length in front
//! (`message`): a [`Hello`] and its [`Answer`]; on a control connection [`Control`] ever after,
//! on a data connection frames, each a [`Header`] and its payload. Pure: bytes in, values out.
//! Never reads a connection, never trusts a length.

mod control;
mod header;
mod hello;
mod message;
mod text;

pub use control::{
    CarriedType, Control, EndKind, Ends, FlowOffer, FlowSide, FlowTaken, NotTaken, Policy, Want,
};
pub use header::{FrameKind, Header};
pub use hello::{
    Answer, Hello, HostFacts, Opening, PREAMBLE_BYTES, Preamble, Purpose, TasksWish, VERSION,
    Window,
};
pub use message::{Assembler, MESSAGE_BYTES_MAX, encode};

/// Bytes that are not what the page says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The other end is no agent of Hythe.
    #[error("the connection begins with {0:02x?}: no agent of Hythe is at the other end")]
    NotAnAgent([u8; 8]),
    /// The other end speaks another version.
    #[error(
        "the other agent speaks version {theirs} of the protocol, this one {VERSION}: install the \
         same release of Hythe on both hosts"
    )]
    OtherVersion {
        /// Theirs.
        theirs: u32,
    },
    /// A message longer than any is.
    #[error("a message of {bytes} bytes; the longest has {MESSAGE_BYTES_MAX}")]
    TooLong {
        /// What its length says.
        bytes: u64,
    },
    /// A message that cannot be read.
    #[error("a message of {bytes} bytes that cannot be read: {reason}")]
    Unreadable {
        /// Its length.
        bytes: usize,
        /// What is wrong.
        reason: String,
    },
    /// A frame of a kind that is not known.
    #[error("a frame of kind {0}, which is not known")]
    UnknownKind(u32),
    /// A frame without payload that says it has some.
    #[error("a frame of kind {kind:?} with {length} bytes of payload; it has none")]
    UnexpectedPayload {
        /// Its kind.
        kind: FrameKind,
        /// Its length.
        length: u32,
    },
}
