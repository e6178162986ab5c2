//! `hythe core log`: what the core has said since its agent was started last.

use hythe::core::control;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    board: &'a str,
    log: String,
}

pub(super) fn run(board: &str, globals: &Globals) -> Result<(), CliError> {
    let log = control::log(&globals.open()?, board)?;
    output::print(globals.json, &Document { board, log }, |document| {
        // Consoles end lines with both.
        document.log.replace("\r\n", "\n")
    })
}
