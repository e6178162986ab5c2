//! `AF_XDP`: frames between a network card and memory that processes share with it, past the
//! kernel's protocols.
//!
//! One program with the right to it puts a [`Program`] on an interface, registers a [`Region`] of
//! chunks for each queue ([`QueueSocket`]) and makes further sockets of these queues, which it
//! passes to processes without any right ([`TaskSocket`]). Those receive and send by rings of their
//! own; filling and completing stays with the one. [`frame`] has the headers.
//!
//! What this crate never does: it decides nothing about who may have a socket, it retries nothing,
//! and it hands out no reference to bytes that a card or another process may write.

pub mod frame;
mod program;
mod region;
mod ring;
mod socket;

pub use hythe_sys::bpf::Attachment;
pub use program::{FlowIndex, Program};
pub use region::{CHUNK_BYTES, OtherFile, Region, sealed};
pub use ring::{Address, Consumer, Frame, ImpossibleWord, Observer, Producer};
pub use socket::{Dropped, Queue, QueueSocket, RingSizes, TaskSocket, interface_index, observe};
