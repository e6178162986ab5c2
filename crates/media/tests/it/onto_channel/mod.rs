//! Streams received onto a channel: published where they lie in slots of the pool, or copied where
//! that cannot be.

mod holding;
mod hostile;
mod loopback;
mod media;
mod repaired;
mod same;
mod stage;
