//! `hythe bench SCENARIO`: becomes `hythe-bench`, which measures hops beside their floor and their
//! peers.
//!
//! A program of its own, because it carries the peers it measures against. What it prints, and how
//! it exits, is its own.

use std::ffi::OsString;

use clap::Args;

use crate::args::Globals;
use crate::error::CliError;
use crate::program::Program;

const PROGRAM: Program = Program {
    name: "hythe-bench",
    variable: None,
    remedy: "`cargo build --release -p hythe-bench` makes it from Hythe's sources (`make bench` \
             runs it, too)",
};

/// What to measure.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// The scenario, and what it is told: `hythe bench ipc --help` lists that
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_names = ["SCENARIO", "ARGUMENTS"]
    )]
    scenario: Vec<OsString>,
}

/// Returns only if there is no such program.
pub(crate) fn run(args: &BenchArgs, globals: &Globals) -> Result<(), CliError> {
    Err(PROGRAM.exec(|command| {
        command.args(&args.scenario);
        if globals.json {
            command.arg("--json");
        }
    }))
}
