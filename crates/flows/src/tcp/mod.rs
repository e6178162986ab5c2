//! TCP halves of a flow: one connection from the publisher's process to the subscriber's.
//!
//! The subscriber's process listens, the publisher's connects and sends a greeting with the flow's
//! secret; the answer contains how many messages have arrived. After that, messages travel one way
//! and acknowledgements the other (`spec/flows.md`). Payload is sent from the slot and, where it is
//! long, received into one. A broken connection is replaced by a new one, which continues with the
//! first message that has not arrived.
//!
//! Over a trusted link short messages may also be sent by frames ([`crate::frames`]).
//!
//! Used by [`crate::flow`] for the two halves and by [`crate::session`] for connecting.
//! Never blocks, never sends a message twice that has arrived.

mod connector;
mod encoding;
mod keys;
mod listener;
mod pipe;
mod receiving;
mod seal;
mod sending;

pub(crate) use connector::{Connector, Destination, Progress};
pub(crate) use encoding::FlowSecret;
pub(crate) use keys::KeyPair;
pub(crate) use listener::FlowListener;
pub(crate) use pipe::Pipe;
pub(crate) use receiving::{TcpReceiving, Terms, Until};
pub(crate) use sending::TcpSending;
