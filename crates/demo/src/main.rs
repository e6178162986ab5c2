//! `hythe-demo`: what `hythe demo` runs, as a program that needs little of Hythe to be built.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hythe_command::args::Globals;
use hythe_command::{CliError, end, logs, wrong_use};
use hythe_demo::command::{self, DemoArgs, StageArgs};

/// Play an MP3 file from flash over an RTOS core to the wire, check it end to end, print what each
/// hop cost
#[derive(Debug, Parser)]
#[command(
    name = "hythe-demo",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
#[command(after_help = "Examples:\n  hythe-demo\n  hythe-demo song.mp3 --board hosted --json")]
struct Arguments {
    #[command(flatten)]
    globals: Globals,
    #[command(flatten)]
    demo: DemoArgs,
    #[command(subcommand)]
    stage: Option<Stage>,
}

#[derive(Debug, Subcommand)]
enum Stage {
    /// One stage of the demo, as a process of its own
    #[command(hide = true)]
    DemoStage(StageArgs),
}

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| wrong_use(error, None));
    ExitCode::from(end(run(arguments)))
}

fn run(arguments: Arguments) -> Result<(), CliError> {
    let Arguments {
        globals,
        demo,
        stage,
    } = arguments;
    logs::start(globals.verbose)?;
    match stage {
        Some(Stage::DemoStage(args)) => command::run_stage(args),
        None => command::run(demo, &globals),
    }
}
