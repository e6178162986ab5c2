//! `hythe core`: RTOS cores. One file per command.

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

use crate::args::{CoreCommand, Globals};
use crate::error::CliError;

pub(crate) fn run(command: CoreCommand, globals: &Globals) -> Result<(), CliError> {
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
