//! The descriptor queue (one producer, one consumer), the bell that wakes a sleeping peer, and the
//! events of a listener, over any shared memory.
//!
//! Protocol only: the caller passes memory and offsets, gets the outcome, and does the waiting and
//! waking itself. All three are model-checked with loom (`tests/it/loom_*.rs`). Every word has one
//! writer, except the bell's counter and the cell of events.
//!
//! Never trusts the other side's words, never waits, never reads a payload, never knows who holds a
//! slot.

mod bell;
mod events;
mod ring;

pub use bell::{Bell, Ticket};
pub use events::{EventCell, NotRaised};
pub use ring::{Consumer, Producer, QueueError, RingPlaces};
