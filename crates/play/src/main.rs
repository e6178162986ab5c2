//! `hythe-play`: what `hythe play` becomes.

use std::process::ExitCode;

use clap::Args as _;
use hythe_command::CommandLine;
use hythe_command::commands::PLAY;
use hythe_play::command::{PlayArgs, run};

fn main() -> ExitCode {
    let code = CommandLine::of(&PLAY, PlayArgs::augment_args).main(run);
    hythe_screen::exit_if_stuck(code);
    ExitCode::from(code)
}
