//! The core link: the Linux side of `spec/link.md`, as a transport of ports whose channel reaches a
//! core.
//!
//! Up to eight participants are attached to an endpoint, each at a port of its own. Whatever
//! crosses is moved in the ledger first: into the port's row before a push, out of it after a take.
//! A core that is gone or new is noticed by its echo; the next use attaches again.

pub(crate) mod abandoned;
mod attachment;
mod call;
mod client;
mod doorbell_line;
mod events;
pub(crate) mod health;
mod kept;
mod map;
mod right;
mod ring;
mod settle;
mod source;
mod status;
mod supply;
mod target;
mod transport;
mod violation;
mod watch;
mod words;

pub use map::EndpointRecord;
pub(crate) use map::{CoreWords, Life, LinkMap, TakenWords};
pub use status::{BellStatus, CoreCounts, FlowStatus, LinkStatus, QueueStatus};
pub(crate) use transport::CoreLinks;
pub use violation::{ViolatedWord, Violation};
pub use words::call_at_each_store;

/// A wait for a core looks again after this long: an emulator may lose a ring.
pub(crate) const NAP: std::time::Duration = std::time::Duration::from_millis(20);
