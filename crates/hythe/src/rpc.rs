//! Calls of methods by number, between processes and with RTOS cores.
//!
//! A call is a request ([`crate::request`]) with a method, an argument, and a result or the reason
//! why there is none: an unknown method, a result larger than the caller takes, an error of the
//! method's own, a lost server, a time-out. Several calls may be outstanding, and be answered in
//! any order.
//!
//! ```
//! use std::time::Duration;
//! use hythe::prelude::*;
//! use hythe::request::{ClientOptions, ServerOptions};
//! use hythe::rpc::{Caller, Table};
//!
//! const UPPER: u32 = 1;
//! const SECOND: Duration = Duration::from_secs(1);
//!
//! # fn main() -> Result<(), hythe::NodeError> {
//! # let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! let node = Node::join(&pool, "both")?;
//! let mut server = node.server("text", &ServerOptions::default())?;
//! let mut client = node.client("text", &ClientOptions::default())?;
//!
//! let mut caller = Caller::new(&mut client);
//! let known = caller.begin(UPPER, b"hello", SECOND)?;
//! let unknown = caller.begin(7, b"", SECOND)?;
//!
//! // Usually another process, or the program of a core.
//! let mut table = Table::new().method(UPPER, |call| {
//!     let upper = call.argument().to_vec().to_ascii_uppercase();
//!     call.reply(&upper)
//! });
//! while table.serve(&mut server, Duration::ZERO)?.is_some() {}
//!
//! let result = caller.wait(known, SECOND)?.expect("a result");
//! assert_eq!(result.to_vec(), b"HELLO");
//! let refused = caller.wait(unknown, SECOND).expect_err("there is none");
//! assert_eq!(refused.to_string(), "the server of channel `text` has no method 7");
//! # Ok(())
//! # }
//! ```

pub use hythe_node::rpc::{Call, Caller, HEADER_BYTES, Table, is_method};
