//! Calls of methods by number, over the requests of a channel (`spec/services.md`): between
//! processes, from a process to a core and from a core to a process.
//!
//! [`Caller`] calls through a [`Client`](crate::Client), [`Table`] serves through a
//! [`Server`](crate::Server): what those say of lost servers, late replies and limits holds here.
//! Argument and result stand behind a header of [`HEADER_BYTES`], in the buffers that travel, and
//! can be written and read there.
//!
//! ```
//! # fn main() -> Result<(), hythe_node::NodeError> {
//! # let root = std::env::temp_dir().join(format!("hythe-call-{}", std::process::id()));
//! use std::time::Duration;
//! use hythe_node::rpc::{Caller, Table};
//! use hythe_node::{ClientOptions, Node, Pool, PoolOptions, ServerOptions};
//!
//! const SUM: u32 = 1;
//! const SECOND: Duration = Duration::from_secs(1);
//! let options = PoolOptions::new("example").root(&root).bytes(16 << 20);
//! let node = Node::join(&Pool::open_or_create(&options)?, "doc-test")?;
//! let mut server = node.server("sums", &ServerOptions::default())?;
//! let mut client = node.client("sums", &ClientOptions::default())?;
//! let mut table = Table::new().method(SUM, |call| {
//!     let sum: u64 = call.argument().to_vec().into_iter().map(u64::from).sum();
//!     call.reply(&sum.to_le_bytes())
//! });
//!
//! let mut caller = Caller::new(&mut client);
//! let pending = caller.begin(SUM, &[1, 2, 250], SECOND)?;
//! // Usually another process.
//! assert_eq!(table.serve(&mut server, SECOND)?, Some(true));
//! let sum = caller.wait(pending, SECOND)?.expect("a result");
//! assert_eq!(sum.to_vec(), 253_u64.to_le_bytes());
//! # drop((sum, client, server, node));
//! # Pool::remove(&options)?;
//! # std::fs::remove_dir_all(&root).ok();
//! # Ok(())
//! # }
//! ```
//!
//! Never retries: whether a method has run on a server that went is not known.

mod call;
mod caller;
mod table;

pub use call::Call;
pub use caller::Caller;
pub use table::Table;

/// Bytes in front of an argument or result.
pub const HEADER_BYTES: usize = hythe_abi::services::BYTES;

/// Is this the number of a method of a program's own?
#[must_use]
pub const fn is_method(number: u32) -> bool {
    number != 0 && number <= hythe_abi::services::OWN_METHOD_MAX
}
