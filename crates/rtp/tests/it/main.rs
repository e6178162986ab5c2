//! The tests of this package from outside, in one program: a module for each matter.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fec;
mod hostile_loss;
mod streams;
