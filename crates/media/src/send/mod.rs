//! Sending: packets on the wire, each at its instant.
//!
//! A [`session`] takes units of a source and sends them as packets to its destinations: built
//! beforehand in slots of the wire region (`prebuilt`), or from the slots of a channel that their
//! publisher wrote (`zero_copy_queue`). It reads the RTCP of the receivers ([`feedback`]), sends
//! lost packets again or repairs them by parity ([`repair`]), and sends RTCP reports.

mod ahead;
pub mod feedback;
mod parity;
mod prebuilt;
pub mod repair;
mod reporting;
pub mod session;
pub mod share;
pub mod spacer;
mod store;
mod zero_copy_queue;
