//! `hythe core stop`: stops an agent, in whatever process it runs, and waits until it and its core
//! are gone.

use crate::args::CoreStopArgs;
use hythe::core::control;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    stopped: &'a str,
}

pub(super) fn run(args: &CoreStopArgs, globals: &Globals) -> Result<(), CliError> {
    control::stop(&globals.open()?, &args.board, args.timeout)?;
    let document = Document {
        stopped: &args.board,
    };
    output::print(globals.json, &document, |document| {
        format!("stopped board {}", document.stopped)
    })
}
