//! What tests of several crates share: waiting for a state, chances that a seed repeats, damaged
//! inputs, golden vectors, reserved ports, edit lists of movies, turns among processes, programs to
//! run, limits of memory, counted pages.
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
mod threads;
mod turns;
pub mod vectors;
mod waiting;

pub use control_group::ControlGroup;
pub use dice::{Dice, play};
pub use edit_lists::{Edit, with_edits};
pub use modules::in_module;
pub use pages::count_pages;
pub use ports::reserve_ports;
pub use programs::{assert_is_built_of_its_sources, copy_program, write_script};
pub use threads::{
    WatchedThread, sleeps_of_threads, until_process_sleeps, until_thread_is_in_call, watched,
};
pub use turns::Turn;
pub use waiting::{
    BOUND, Polling, await_kill, eventually, eventually_or_show, eventually_some, let_time_pass,
    stays,
};

/// Held by tests that start a process, which has copies of all sockets until its `exec`, and by
/// those that bind a port again, which such a copy keeps.
#[cfg(test)]
static STARTING: std::sync::Mutex<()> = std::sync::Mutex::new(());
