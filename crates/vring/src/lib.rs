//! The baseline that Hythe is compared with: messages to a core and back, copied in fragments of
//! 496 bytes over two rings, as RPMsg does it.
//!
//! `hythe bench core` and `hythe play --method copy` call it. The rings and their buffers are in
//! one slot of the core's region ([`Memory`]), which goes to the core as a message, so that the
//! ledger knows who has it. The core's side of the same words is `rtos/transports/vring`. A
//! [`Sender`] and a [`Receiver`] are the ends of a ring on this side; [`sleeping`] has ends that
//! sleep until something comes.
//!
//! What the core wrote is checked before it is used. Never trusts a length, never waits without a
//! bound, and is no part of what applications use.

mod bell;
mod error;
mod memory;
mod ring;
pub mod sleeping;

pub use bell::Bell;
pub use error::VringError;
pub use memory::{BYTES, Memory};
pub use ring::{BUFFERS, FRAGMENT_BYTES, Places, Receiver, Sender, Sleeps};
