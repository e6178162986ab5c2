//! Requests and replies: a client asks, one server answers, both without copying
//! (`spec/request.md`).
//!
//! A client connects to each server's port for requests, and a server connects to each client's
//! port for replies (`intake` receives on either side). A request goes to the next server in turn
//! whose queue is not full. The reply goes to the client that asked. A number in the headroom of
//! the slot matches the two, so a buffer that carries a request or reply must have no other holder.
//! When a server closes or dies with unanswered requests, the client sees that its port is gone,
//! after all replies that the server had sent: the request fails at once, not after a time-out.
//!
//! Applications use it through [`crate::Node`]. Never waits without a bound, never keeps more than
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
