//! Events without data: a channel has 40 of them.
//!
//! Events coalesce: raised several times before a listener takes it, an event is taken once. If
//! each occurrence must be counted, publish messages instead.
//!
//! ```
//! use std::time::Duration;
//! use hythe::prelude::*;
//! use hythe::event::EventId;
//!
//! const DOOR: EventId = EventId::new(3).expect("one of 40");
//! # fn main() -> Result<(), hythe::NodeError> {
//! # let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! let node = Node::join(&pool, "house")?;
//! let mut listener = node.listener("house")?;
//! let mut notifier = node.notifier("house")?;
//! assert_eq!(notifier.notify(DOOR)?, 1, "one listener");
//! assert!(listener.wait(Duration::from_secs(1))?.contains(DOOR));
//! # Ok(())
//! # }
//! ```

pub use hythe_node::{EventId, EventSet, Listener, Notifier};
