//! Streams received onto a channel: published where they lie in slots of the pool, or copied where
//! that cannot be.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod holding;
mod hostile;
mod loopback;
mod media;
mod repaired;
mod same;
mod stage;
#[path = "../support/mod.rs"]
mod support;
