//! Repair of lost packets, from one session to another and with receivers that lie.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod askers;
#[path = "../receive/passing.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of receiving, which use more"
)]
mod passing;
mod relay;
#[path = "../send/scene.rs"]
#[allow(dead_code, reason = "shared with the tests of sending, which use more")]
mod scene;
mod way;
mod ways;
