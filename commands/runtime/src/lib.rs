//! What the commands of Hythe have in common: the options of every command, errors with what to do
//! about them and their exit codes, output for people and as JSON, signals that ask to stop.
//!
//! A program's `main` is [`end`] of what it did. Never names a command's own arguments.

#![deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "`output` escapes what is printed for people"
)]

#[cfg(feature = "hosts")]
pub mod agent;
pub mod args;
pub mod commands;
pub mod description;
mod ending;
pub mod error;
pub mod front;
mod limits;
pub mod logs;
pub mod objects;
mod open;
pub mod output;
pub mod program;
pub mod remedy;
mod screen;
pub mod stop;
pub mod units;
pub mod workspace;

pub use ending::{end, wrong_use};
pub use error::CliError;
pub use front::CommandLine;
pub use open::tell_made;
