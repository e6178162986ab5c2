//! `hythe-media`: what `hythe media` becomes.

use std::process::ExitCode;

use clap::Subcommand as _;
use hythe_command::CommandLine;
use hythe_command::commands::MEDIA;
use hythe_media_command::MediaCommand;

fn main() -> ExitCode {
    ExitCode::from(
        CommandLine::of(&MEDIA, MediaCommand::augment_subcommands).main(hythe_media_command::run),
    )
}
