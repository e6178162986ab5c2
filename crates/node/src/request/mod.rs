//! Requests and replies: a client asks, one server answers, both without copying
//! (`spec/request.md`).
//!
//! A client makes a connection to each server's port for requests, and a server one back to each
//! client's port for replies (`intake` is the taking end of either). A request goes to the servers
//! in turn, past those whose queues are full; the reply goes to the client that asked. What ties the
//! two together is a number in the headroom of the slot, so a buffer that carries one must have no
//! other holder. A server that goes, or dies, with requests unanswered is seen by its port, behind
//! whatever it had sent: the client learns of it at once, and not by a time-out.
//!
//! Used by applications through [`crate::Node`]. Never waits without a bound, never keeps more than
//! the table of open requests, never sends a request twice.

mod client;
mod intake;
mod options;
mod outlets;
mod server;
mod servers;
mod table;

pub use client::{Client, PendingReply, Reply};
pub use options::{ClientOptions, ServerOptions};
pub use server::{Request, Responder, Server};
