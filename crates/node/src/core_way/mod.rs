//! The way to a core: the Linux side of a link (`spec/link.md`), used by ports whose channel ends on a core.
//!
//! One participant at a time is attached to an endpoint. Whatever crosses is moved in the ledger first: into the endpoint's row
//! before a push, out of it after a take. A core that is gone or new is noticed by its echo; the next use attaches again.

mod attachment;
pub(crate) mod caretaker;
mod link_map;
mod look;
mod receiver;
mod sender;
mod settle;

pub use link_map::{EndpointRecord, LinkMap, LinkStatus};
pub(crate) use look::CoreLook;
pub(crate) use receiver::CoreReceiver;
pub(crate) use sender::CoreSender;
