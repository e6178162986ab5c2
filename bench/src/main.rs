//! `hythe-bench`: how fast a hop is, beside the floor that this machine sets and what people use today.
//!
//! One folder per scenario; `document` is what comes out, `statistics` how figures are made of samples. Each system under test is
//! used as its own users would. Never part of the product: it may use everything, nothing uses it.

mod args;
mod bounce;
mod cpus;
mod document;
mod error;
mod ipc;
mod lookout;
mod machine;
mod soak;
mod statistics;
mod table;
mod waiter;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command, SoakArguments};
use crate::document::Document;
use crate::error::BenchError;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Ipc(arguments) => {
            ipc::run(&arguments).and_then(|document| show(document, arguments.json))
        }
        Command::Waiter(arguments) => {
            waiter::run(&arguments).and_then(|document| show(document, arguments.json))
        }
        Command::Echo(arguments) => ipc::echo(&arguments),
        Command::Soak(arguments) => run_soak(&arguments),
        Command::SoakWorker(arguments) => soak::work(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hythe-bench: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// A run whose figures are not to be trusted still shows them, and then fails.
fn show(document: Document, as_json: bool) -> Result<(), BenchError> {
    let shown = if as_json {
        let mut text = serde_json::to_string_pretty(&document).map_err(std::io::Error::from)?;
        text.push('\n');
        text
    } else {
        table::render(&document)
    };
    std::io::stdout().write_all(shown.as_bytes())?;
    match document.conditions.invalid {
        None => Ok(()),
        Some(why) => Err(BenchError::Invalid(why)),
    }
}

/// A soak that found something says what, behind what it counted until then.
fn run_soak(arguments: &SoakArguments) -> Result<(), BenchError> {
    let report = soak::run(arguments)?;
    let mut text = serde_json::to_string_pretty(&report).map_err(std::io::Error::from)?;
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes())?;
    match report.conditions.invalid {
        None => Ok(()),
        Some(why) => Err(BenchError::Invalid(why)),
    }
}
