//! Saying that something happened, without data: 40 events for each channel.
//!
//! An event that was raised and not heard yet is not raised twice: a listener that is late hears it
//! once. What must be counted is a message.
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
