//! `hythe core`: RTOS cores. One file per command.
//!
//! Never talks to a core itself: the crate `hythe` does.

pub use args::CoreCommand;
use hythe_command::args::Globals;
use hythe_command::error::CliError;

mod args;
mod boards;
mod detach;
mod log;
mod registers;
mod run;
mod segments;
mod shell;
mod status;
mod stop;
mod tasks;

/// Runs a command of `hythe core`.
///
/// # Errors
///
/// What cannot be done, with what to do about it.
pub fn run(command: CoreCommand, globals: &Globals) -> Result<(), CliError> {
    match command {
        CoreCommand::Boards => boards::run(globals),
        CoreCommand::Run(args) if args.detach => detach::run(&args, globals),
        CoreCommand::Run(args) => run::run(&args, globals),
        CoreCommand::Status(args) => status::run(args.board.as_deref(), globals),
        CoreCommand::Stop(args) => stop::run(&args, globals),
        CoreCommand::Segments(args) => segments::run(args.board.as_deref(), globals),
        CoreCommand::Tasks(args) => tasks::run(&args, globals),
        CoreCommand::Task { command } => tasks::run_one(&command, globals),
        CoreCommand::Log(args) => log::run(&args.board, globals),
        CoreCommand::Shell(args) => shell::run(&args, globals),
    }
}
