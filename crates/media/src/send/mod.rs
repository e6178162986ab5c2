//! Sending: packets on the wire, each at its instant.
//!
//! A [`session`] takes units of a source and sends them as packets to its destinations: laid out
//! beforehand in slots of our own (`laid`), or from the slots of a channel that their publisher
//! wrote (`held`). What receivers say is heard ([`feedback`]), what they miss is sent again or
//! repaired by parity ([`repair`]), and they get reports.

mod ahead;
pub mod feedback;
mod held;
mod laid;
mod parity;
pub mod repair;
mod reporting;
pub mod session;
pub mod share;
pub mod spacer;
mod store;
