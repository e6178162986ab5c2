//! The `hythe` command.
//!
//! One file per command; `command_line` defines them all, `error` picks the exit code. Never
//! contains behaviour of the pool: what it does, an application can do with the crate `hythe`.

#![deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "`output` escapes what is printed for people"
)]

mod args;
mod bench;
mod command_line;
mod completions;
mod doctor;
mod hop;
mod hz;
mod list;
mod man;
mod other_users;
mod pool;
mod probe;
mod publish;
mod rates;
mod record;
mod replay;
mod subscribe;
mod top;
mod who;

use std::ffi::OsString;
use std::process::ExitCode;

use hythe_command::{error, logs, objects, output, program, remedy, stop, units};

use crate::command_line::{Arguments, Command};
use crate::error::CliError;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let done = match hop::called(&words) {
        Some(called) => Err(called.run()),
        None => run(command_line::parse(&words)
            .unwrap_or_else(|error| hythe_command::wrong_use(error, None))),
    };
    ExitCode::from(hythe_command::end(done))
}

fn run(arguments: Arguments) -> Result<(), CliError> {
    let Arguments { globals, command } = arguments;
    logs::start(globals.verbose)?;
    match command {
        Command::Doctor => probe::run(&globals),
        Command::Pool(command) => pool::run(command, &globals),
        Command::List => list::run(&globals),
        Command::Who => who::run(&globals),
        Command::Top(args) => top::run(&args, &globals),
        Command::Publish(args) => publish::run(&args, &globals),
        Command::Subscribe(args) => subscribe::run(&args, &globals),
        Command::Hz(args) => hz::run(&args, &globals),
        Command::Record(args) => record::run(&args, &globals),
        Command::Replay(args) => replay::run(&args, &globals),
        Command::Bench(args) => bench::run(&args, &globals),
        Command::Completions { shell } => completions::run(shell, &globals),
        Command::Man { directory } => man::run(&directory, &globals),
    }
}
