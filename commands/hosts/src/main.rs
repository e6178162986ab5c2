//! `hythe-hosts`: what `hythe host` becomes.

use std::process::ExitCode;

use clap::Subcommand as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use hythe_command::CommandLine;
use hythe_command::commands::HOST;
use hythe_hosts_command::{HostCommand, run};
use hythe_terminal::escaped;

fn main() -> ExitCode {
    let line = CommandLine::of(&HOST, HostCommand::augment_subcommands);
    ExitCode::from(line.main_with(|words| line.parse(&words), hint, run))
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
