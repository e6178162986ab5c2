//! Named semaphores and message queues of a pool, as POSIX has them.
//!
//! They belong to the pool: one stays, with its value or its messages, until it is unlinked, also
//! while no process uses it. What a process has taken from a semaphore and not posted yet is known
//! as held by it: if it dies, the next wait says so ([`SyncError::OwnerDead`]), and
//! [`Semaphore::recover`] gives the counts back, or they come back at once
//! ([`SemaphoreOptions::recover`]).
//!
//! ```
//! use std::time::Duration;
//! use hythe::prelude::*;
//! use hythe::sync::{Deadline, Semaphore, SemaphoreOptions, SyncError};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! let node = Node::join(&pool, "one")?;
//! let full = Semaphore::open(&node, "/full", &SemaphoreOptions::default().create(0))?;
//! full.post()?;
//! full.wait(Deadline::after(Duration::from_secs(1)))?;
//! let over = full.wait(Deadline::after(Duration::from_millis(5)));
//! assert!(matches!(over, Err(SyncError::TimedOut)));
//! drop(full);
//! Semaphore::unlink(&node, "/full")?;
//! # Ok(())
//! # }
//! ```

pub use hythe_node::object::{
    Deadline, MessageQueue, MessageQueueOptions, ObjectCounts, ObjectStatus, Received, Semaphore,
    SemaphoreInfo, SemaphoreOptions, SyncError, list,
};
