//! Requests and replies: a request goes to one of the servers of a channel, and its reply comes
//! back to the client.
//!
//! Several requests may be open at a time. Each ends with a reply, or with an error that says why
//! there is none. If the server dies, the error comes at once. A reply may reuse the request's
//! buffer.
//!
//! ```
//! use std::time::Duration;
//! use hythe::prelude::*;
//! use hythe::request::{ClientOptions, ServerOptions};
//!
//! # fn main() -> Result<(), hythe::NodeError> {
//! # let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! let node = Node::join(&pool, "both")?;
//! let mut server = node.server("upper", &ServerOptions::default())?;
//! let mut client = node.client("upper", &ClientOptions::default())?;
//!
//! let mut lease = client.lease(5)?;
//! lease.write(0, b"hello");
//! let pending = client.request(lease, 5)?;
//!
//! // Usually another process.
//! let request = server.take(Duration::from_secs(1))?.expect("a request");
//! let answer = request.sample().to_vec().to_ascii_uppercase();
//! let mut lease = server.lease(answer.len())?;
//! lease.write(0, &answer);
//! request.reply(lease, answer.len())?;
//!
//! let reply = client.wait(pending, Duration::from_secs(1))?.expect("a reply");
//! assert_eq!(reply.to_vec(), b"HELLO");
//! # Ok(())
//! # }
//! ```

pub use hythe_node::{
    Client, ClientOptions, PendingReply, Reply, Request, Responder, Server, ServerLoss,
    ServerOptions,
};
