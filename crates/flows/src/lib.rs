//! Flows: what a publisher sends to a subscriber on another host leaves by a socket of the
//! publisher's own process and comes in by one of the subscriber's. The agents of both hosts set
//! flows up and are never in their path.
//!
//! [`Flows`] is a transport of a node: its targets and sources are the two halves of a TCP
//! connection, sealed by TLS unless both users trust the link. Where another host takes a channel's
//! messages by a port of its agent, the process asks the agent of this host for a flow
//! ([`message`]); that agrees with the other agent on addresses, keys, a secret and limits. Once
//! there is one, the publisher leaves the agent's port and sends by it; when it ends, whatever the
//! reason, it goes back to that port, and what nobody confirmed counts as missing.
//!
//! Over a trusted link, where a program serves the interface with `AF_XDP` sockets
//! ([`hythe_wire`]), short messages may also be sent by frames.
//!
//! What this crate never does: it knows no key of the realm, it talks to no host that its agent has
//! not named, and it sends nothing in clear text over a link that the agents have not agreed on.

mod alone;
#[cfg(test)]
mod fixture;
mod flow;
mod frames;
mod held_up;
pub mod message;
mod position;
mod queue;
mod session;
mod source;
mod target;
mod tcp;
mod transport;
mod unix;
mod watch;

pub use hythe_wire::{WireStatistics, path_of as wire_path};
pub use transport::Flows;
pub use unix::{Connection, Listener};
