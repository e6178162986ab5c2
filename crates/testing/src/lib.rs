//! What tests of several crates share: chances that a seed repeats, damaged inputs, golden vectors.
//!
//! A dev-dependency only: it is never a part of a product, and never knows one of our crates. What one crate's tests need alone
//! stands beside them.

mod dice;
pub mod vectors;

pub use dice::{Dice, play};
