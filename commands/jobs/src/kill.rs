//! `hythe kill`: sends a signal to a task. Its runner does it, whose child the task is: so the
//! signal never meets another process that has got the task's process id.

use hythe_cluster::tasks::{self, TaskId};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use serde::Serialize;

use super::KillArgs;

#[derive(Serialize)]
struct Document {
    task: TaskId,
    signal: i32,
}

/// `hythe kill`.
///
/// # Errors
///
/// What cannot be done, with what to do about it.
pub fn run(args: &KillArgs, globals: &Globals) -> Result<(), CliError> {
    tasks::kill(&globals.open_to_use()?, args.task, args.signal)?;
    let document = Document {
        task: args.task,
        signal: args.signal,
    };
    output::print(globals.json, &document, |document| {
        let name = signal_hook::low_level::signal_name(document.signal);
        let name = name.map_or_else(|| document.signal.to_string(), str::to_owned);
        format!("sent {name} to task {}", document.task)
    })
}
