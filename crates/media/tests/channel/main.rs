//! Streams from a channel to destinations over the loopback interface, sent from the slots that
//! their publisher wrote.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hold;
mod same;
#[path = "../send/scene.rs"]
#[allow(dead_code, reason = "shared with the tests of sending, which use more")]
mod scene;
mod scribbler;
mod stage;
#[path = "../support/mod.rs"]
mod support;
