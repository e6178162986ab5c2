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
mod hz;
mod list;
mod man;
mod mpirun;
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

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use hythe_command::{error, logs, objects, output, program, remedy, stop, units};
use hythe_terminal::escaped;

use crate::command_line::{Arguments, Command};
use crate::error::CliError;

fn main() -> ExitCode {
    let arguments = match mpirun::parse(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(error) => {
            let hint = hint(&error);
            hythe_command::wrong_use(error, hint)
        }
    };
    let code = hythe_command::end(run(arguments));
    hythe_screen::exit_if_stuck(code);
    ExitCode::from(code)
}

/// Where a word belongs that stands where none does.
fn hint(error: &clap::Error) -> Option<String> {
    let (ContextValue::String(word), ContextValue::StyledStr(usage)) = (
        error.get(ContextKind::InvalidArg)?,
        error.get(ContextKind::Usage)?,
    ) else {
        return None;
    };
    // `hythe host add` takes its name so.
    let is_name = error.kind() == ErrorKind::UnknownArgument
        && !word.starts_with('-')
        && usage.to_string().contains("hythe host init");
    is_name.then(|| {
        format!(
            "the name of this host goes behind --name: hythe host init --name {}",
            escaped(word)
        )
    })
}

fn run(arguments: Arguments) -> Result<(), CliError> {
    let Arguments { globals, command } = arguments;
    logs::start(globals.verbose)?;
    match command {
        Command::Doctor => probe::run(&globals),
        Command::Demo(args) => hythe_demo::command::run(args, &globals),
        Command::DemoStage(args) => hythe_demo::command::run_stage(args),
        Command::Play(args) => hythe_play::command::run(args, &globals),
        Command::Pool(command) => pool::run(command, &globals),
        Command::List => list::run(&globals),
        Command::Who => who::run(&globals),
        Command::Top(args) => top::run(&args, &globals),
        Command::Publish(args) => publish::run(&args, &globals),
        Command::Subscribe(args) => subscribe::run(&args, &globals),
        Command::Hz(args) => hz::run(&args, &globals),
        Command::Record(args) => record::run(&args, &globals),
        Command::Replay(args) => replay::run(&args, &globals),
        Command::Preload(command) => hythe_preload_command::run(command, &globals),
        Command::Core(command) => hythe_core_command::run(command, &globals),
        Command::Host(command) => hythe_hosts_command::run(command, &globals),
        Command::Run(args) => hythe_jobs_command::run(&args, &globals),
        Command::TaskRunner(args) => hythe_jobs_command::run_runner(&args, &globals),
        Command::TaskPart(args) => hythe_jobs_command::run_part(&args, &globals),
        Command::TaskPartRunner(args) => hythe_jobs_command::run_part_runner(&args, &globals),
        Command::Tasks => hythe_jobs_command::list(&globals),
        Command::Kill(args) => hythe_jobs_command::kill(&args, &globals),
        Command::Media(command) => hythe_media_command::run(command, &globals),
        Command::Latency(command) => hythe_latency_command::run(command, &globals),
        Command::Bench(args) => bench::run(&args, &globals),
        Command::Report(args) => hythe_report::command::run(&args, &globals),
        Command::Completions { shell } => completions::run(shell, &globals),
        Command::Man { directory } => man::run(&directory, &globals),
    }
}
