//! What the tasks of a machine share: mailboxes, contexts, groups, and who is in it.
//!
//! [`State`] decides and does nothing else: it is told what a task asks for and which tasks are
//! gone, and returns what is to be sent to whom. Whoever serves it brings that there.

mod barriers;
mod groups;
mod hosts;
mod interface;
mod mailboxes;
mod protocol;
mod state;

pub use hosts::{Host, architecture};
pub use interface::{Clocks, Identity, Machine, Process, Spawn};
pub use protocol::{MailboxClass, Outgoing, Reply, Request, TaskRow, WatchedEvent};
pub use state::State;
