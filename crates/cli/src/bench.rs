//! `hythe bench SCENARIO`: becomes `hythe-bench`, which measures hops beside their floor and their
//! peers.
//!
//! A program of its own, because it carries the peers it measures against. What it prints, and how
//! it exits, is its own.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use hythe_terminal::escaped;

use crate::args::Globals;
use crate::error::CliError;

const PROGRAM: &str = "hythe-bench";

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
    let own = std::env::current_exe().ok();
    let beside = own
        .as_deref()
        .and_then(Path::parent)
        .map(|folder| folder.join(PROGRAM));
    // A name without a folder is looked for in PATH.
    let program = beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from(PROGRAM));
    let mut command = Command::new(&program);
    command.args(&args.scenario);
    if globals.json {
        command.arg("--json");
    }
    let error = command.exec();
    if error.kind() != ErrorKind::NotFound {
        return Err(CliError::file("run", program)(error));
    }
    let folder = own
        .as_deref()
        .and_then(Path::parent)
        .unwrap_or(Path::new("?"));
    Err(CliError::Failed(format!(
        "`{PROGRAM}` is neither in {} nor in PATH: `cargo build --release -p {PROGRAM}` makes it from Hythe's sources (`make bench` runs it, too)",
        escaped(&folder)
    )))
}
