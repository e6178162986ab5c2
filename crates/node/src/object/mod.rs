//! Named semaphores and message queues of a pool, for its processes; for the tasks of a core, who
//! acts for them.
//!
//! The words and what may happen to them are the pool crate's (`hythe_pool::ObjectTable`). Here
//! are the file `objects`, the waits, the rights of users, and who is dead: a participant whose
//! record was recovered or given back. An object stays until it is unlinked and nobody has it open.
//! Between calls no lock is held.
//!
//! Never waits for another's operation longer than two seconds, whatever the other does.
//! Allocates nothing for an operation on an open object.

mod changes;
mod claims;
mod deadline;
mod error;
mod file;
mod listing;
mod lock;
mod message_queue;
mod messages;
mod name;
mod open;
mod semaphore;
mod sleep;
mod watch;

use std::time::Duration;

pub use changes::ObjectChanges;
pub use claims::Claimed;
pub use error::SyncError;
pub(crate) use file::OBJECTS;
pub use hythe_pool::ObjectCounts;
pub use listing::{ObjectStatus, list};
pub use message_queue::{MessageQueue, MessageQueueOptions, Received};
pub use semaphore::{Semaphore, SemaphoreInfo, SemaphoreOptions};

pub use deadline::Deadline;

/// A wait looks again after so long, whether or not somebody woke it: who should have may be dead.
///
/// No part of a second: between two naps a signal interrupts nothing, and programs like to send
/// one some seconds after they have started.
const LONGEST_NAP: Duration = Duration::from_millis(97);
