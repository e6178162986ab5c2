//! A flow of a task past the kernel's protocols: the one small program with the right to
//! `AF_XDP` sockets, and the task's end.
//!
//! [`Service`] has an interface: its program, a region of chunks for each queue, the fill and the
//! completion rings. A process connects to it by a Unix socket and passes a connected UDP socket of
//! its own; it gets `AF_XDP` sockets that receive what would come to that socket, and nothing else
//! ([`Wire`]). The UDP socket stays in use beside them: it receives what comes by another way, and
//! sends where the other cannot.
//!
//! A process may pass the file of a region of its pool besides, which the service registers
//! together with its own: then payload leaves from the slots where it lies.
//!
//! What this crate never does: it knows no protocol above UDP, and it never waits for a process.

mod card;
mod client;
mod closer;
mod layout;
mod message;
mod queue;
mod service;

pub use hythe_xdp::Attachment;
pub use hythe_xdp::frame::PAYLOAD_BYTES_MAX;

pub use client::{Sent, Slots, Wire, WireStatistics};
pub use layout::{FRAMES_MAX, PATH, path_of};
pub use service::{Options, Service};
