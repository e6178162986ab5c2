//! The descriptor queue (one producer, one consumer), the bell and the events of a listener, over
//! any shared memory.
//!
//! Pure protocol: it is handed memory and offsets and says what happened; whoever calls does the
//! waiting and the waking. All are model-checked with loom (`tests/loom_*.rs`). Every word has one
//! writer, except the bell's count and the cell of events.
//!
//! Never trusts the other side's words, never waits, never looks into a payload, never knows who
//! holds a slot.

mod bell;
mod events;
mod ring;

pub use bell::{Bell, Ticket};
pub use events::{EventCell, NotRaised};
pub use ring::{Consumer, Producer, QueueError, RingPlaces};
