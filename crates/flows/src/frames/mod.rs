//! Short messages by `AF_XDP` frames, beside the TCP connection of a flow over a trusted link.
//!
//! A frame is a hint: it has the number of its message, and brings that past the kernel's protocols
//! when nothing stands in its way. What is not acknowledged within a few round trips is sent by the
//! TCP connection, so frames need neither retransmission nor congestion control, and the subscriber
//! takes each number once. `spec/flows.md` has their layout and the rules of both ends.
//!
//! Used by [`crate::tcp`], whose halves decide what goes which way. Never blocks, never sends the
//! same message twice.

mod encoding;
mod receiving;
mod sending;
mod socket;

pub(crate) use receiving::FrameReceiving;
pub(crate) use sending::FrameSending;
pub(crate) use socket::FrameSocket;
