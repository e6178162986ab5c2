//! What tests of several crates share: chances that a seed repeats, damaged inputs, golden vectors,
//! reserved ports, edit lists of movies, turns among processes, programs to run, limits of memory,
//! counted pages.
//!
//! A dev-dependency only: it is never a part of a product, and never knows one of our crates. What
//! one crate's tests need alone stands beside them.

mod control_group;
mod dice;
mod edit_lists;
mod modules;
mod pages;
mod ports;
mod programs;
mod turns;
pub mod vectors;

pub use control_group::ControlGroup;
pub use dice::{Dice, play};
pub use edit_lists::{Edit, with_edits};
pub use modules::in_module;
pub use pages::count_pages;
pub use ports::reserve_ports;
pub use programs::{assert_is_built_of_its_sources, copy_program, write_script};
pub use turns::Turn;

/// Held by tests that start a process, which has copies of all sockets until its `exec`, and by
/// those that bind a port again, which such a copy keeps.
#[cfg(test)]
static STARTING: std::sync::Mutex<()> = std::sync::Mutex::new(());
