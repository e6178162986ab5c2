//! Processes with a network each, and veth links between them, for the scenarios that need several
//! hosts.
//!
//! Nothing has a name that others see: a network is held by its process alone and goes with it, and
//! the link with the networks. The host's own network is not touched.

mod end;
mod link;
mod message;
mod process;

pub(crate) use end::{answer, begin, next_order, ready, show_own_interfaces};
pub(crate) use link::{LinkPlan, connect, put_up, wait_until_up};
pub(crate) use message::{Answer, Link, Order};
pub(crate) use process::Process;
