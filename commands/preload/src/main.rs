//! `hythe-preload`: what `hythe preload` becomes.

use std::process::ExitCode;

use clap::Subcommand as _;
use hythe_command::CommandLine;
use hythe_command::commands::PRELOAD;
use hythe_preload_command::PreloadCommand;

fn main() -> ExitCode {
    ExitCode::from(
        CommandLine::of(&PRELOAD, PreloadCommand::augment_subcommands)
            .main(hythe_preload_command::run),
    )
}
