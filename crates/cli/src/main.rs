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
mod core;
mod demo;
mod doctor;
mod error;
mod host;
mod hz;
mod job;
mod latency;
mod list;
mod logs;
mod man;
mod media;
mod mpirun;
mod objects;
mod open;
mod other_users;
mod output;
mod play;
mod pool;
mod preload;
mod probe;
mod program;
mod publish;
mod rates;
mod record;
mod remedy;
mod replay;
mod report;
mod screen;
mod stop;
mod subscribe;
mod top;
mod units;
mod who;
mod workspace;

use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use hythe_terminal::escaped;

use crate::command_line::{Arguments, Command};
use crate::error::CliError;

fn main() -> ExitCode {
    let arguments = match mpirun::parse(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(error) => wrong_use(error),
    };
    let code = match run(arguments) {
        Ok(()) => 0,
        Err(error) => {
            if !error.is_reported() {
                // Nobody may be left to read it: whoever started a detached agent.
                output::note_error(&error);
            }
            error.exit_code()
        }
    };
    hythe_screen::exit_if_stuck(code);
    ExitCode::from(code)
}

/// Prints help, version, or what is wrong with the arguments, and ends: as clap does, but without
/// what a terminal would obey of the arguments that are repeated.
fn wrong_use(mut error: clap::Error) -> ! {
    if let Some(hint) = hint(&error) {
        let hints = ContextValue::StyledStrs(vec![StyledStr::from(hint)]);
        error.insert(ContextKind::Suggested, hints);
    }
    let repeated: Vec<(ContextKind, String)> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => Some((kind, escaped(text).to_string())),
            _ => None,
        })
        .collect();
    for (kind, text) in repeated {
        error.insert(kind, ContextValue::String(text));
    }
    error.exit()
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
        Command::Demo(args) => demo::run(args, &globals),
        Command::DemoStage(args) => demo::run_stage(args),
        Command::Play(args) => play::run(args, &globals),
        Command::Pool(command) => pool::run(command, &globals),
        Command::List => list::run(&globals),
        Command::Who => who::run(&globals),
        Command::Top(args) => top::run(&args, &globals),
        Command::Publish(args) => publish::run(&args, &globals),
        Command::Subscribe(args) => subscribe::run(&args, &globals),
        Command::Hz(args) => hz::run(&args, &globals),
        Command::Record(args) => record::run(&args, &globals),
        Command::Replay(args) => replay::run(&args, &globals),
        Command::Preload(command) => preload::run(command, &globals),
        Command::Core(command) => core::run(command, &globals),
        Command::Host(command) => host::run(command, &globals),
        Command::Run(args) => job::run(&args, &globals),
        Command::TaskRunner(args) => job::run_runner(&args, &globals),
        Command::TaskPart(args) => job::run_part(&args, &globals),
        Command::TaskPartRunner(args) => job::run_part_runner(&args, &globals),
        Command::Tasks => job::list(&globals),
        Command::Kill(args) => job::kill(&args, &globals),
        Command::Media(command) => media::run(command, &globals),
        Command::Latency(command) => latency::run(command, &globals),
        Command::Bench(args) => bench::run(&args, &globals),
        Command::Report(args) => report::run(&args, &globals),
        Command::Completions { shell } => completions::run(shell, &globals),
        Command::Man { directory } => man::run(&directory, &globals),
    }
}
