//! Named semaphores and message queues as shared words: the file `objects` (`spec/objects.md`,
//! ADR 0036).
//!
//! [`ObjectTable`] is the file: it finds objects by name, makes and frees them. A [`Section`] is
//! the right to change one object, or the table of names: one participant has it at a time. What
//! a section changes, it changes as a whole: the words as they were are noted first, and whoever
//! takes the section from a dead owner puts them back.
//! Used by the node, which maps the file, waits, and tells who is dead.
//!
//! Never calls the system, never waits, never touches a message, never trusts a word it read: one
//! out of range is [`ObjectError::Damaged`].

mod counts;
mod error;
#[cfg(all(test, loom))]
mod models;
mod queue;
mod section;
mod semaphore;
mod table;

use crate::tables::members::MemberIndex;

pub use counts::ObjectCounts;
pub use error::ObjectError;
pub use queue::{QueuedMessage, Registrant};
pub use section::{Owner, Section, SectionTaken};
pub use semaphore::Wait;
pub use table::{NewObject, ObjectIndex, ObjectInfo, ObjectKind, ObjectTable};

/// A participant in one of its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// Its number.
    pub member: MemberIndex,
    /// Its session; not 0.
    pub session: u32,
}

/// For whom an operation is done: who holds what a wait has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// The participant; for a task of a core its row.
    pub party: Party,
    /// The task's number on its core; 0: a process.
    pub task: u32,
}

impl From<Party> for Who {
    fn from(party: Party) -> Self {
        Self { party, task: 0 }
    }
}
