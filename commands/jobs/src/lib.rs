//! `hythe run`, `hythe tasks`, `hythe kill`: programs as tasks of a job.
//!
//! `hythe run` is two processes: the one that was called, which passes on signals and what is
//! typed, and the runner, the parent of the tasks. Each ends everything if the other is killed.
//! Never decides what becomes of a task: `hythe_cluster` does.

mod args;
mod front;
mod hosts;
mod kill;
mod list;
mod part;
mod print;
mod pvm;
mod runner;
mod signals;

pub use args::{KillArgs, PartArgs, PartRunnerArgs, RunArgs, RunnerArgs};
pub use front::run;
pub use kill::run as kill;
pub use list::run as list;
pub use part::{run as run_part, run_runner as run_part_runner};
pub use runner::run as run_runner;

use std::io;

use hythe_command::error::CliError;
use signals::signals;

fn spawn(body: impl FnOnce() + Send + 'static) -> Result<(), CliError> {
    let thread: io::Result<_> = std::thread::Builder::new().spawn(body);
    let thread = thread.map(drop);
    let action = "start a thread";
    thread.map_err(|source| CliError::System { action, source })
}
