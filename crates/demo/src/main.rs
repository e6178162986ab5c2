//! `hythe-demo`: what `hythe demo` becomes, and each stage of the demo.

use std::process::ExitCode;

use clap::{Args as _, Subcommand};
use hythe_command::CommandLine;
use hythe_command::commands::DEMO;
use hythe_demo::command::{self, DemoArgs, StageArgs};

#[derive(Debug, Subcommand)]
enum Stage {
    /// One stage of the demo, as a process of its own
    DemoStage(StageArgs),
}

fn main() -> ExitCode {
    let is_stage = std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "demo-stage");
    ExitCode::from(match is_stage {
        true => CommandLine::of_several(DEMO.program.name, Stage::augment_subcommands)
            .main(|Stage::DemoStage(args), _globals| command::run_stage(args)),
        false => CommandLine::of(&DEMO, DemoArgs::augment_args).main(command::run),
    })
}
