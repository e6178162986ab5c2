//! The descriptor queue (one producer, one consumer) and the bell, over any shared memory.
//!
//! Pure protocol: it is handed memory and offsets and says what happened; whoever calls does the waiting and the waking. Both
//! are model-checked with loom (`tests/loom_*.rs`). Every word has one writer, except the bell's count.
//!
//! Never trusts the other side's words, never waits, never looks into a payload, never knows who holds a slot.

mod bell;
mod ring;

pub use bell::{Bell, Ticket};
pub use ring::{Consumer, Producer, QueueError, RingPlaces};
