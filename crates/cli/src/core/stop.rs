//! `hythe core stop`: stops an agent, in whatever process it runs, and waits until it and its core
//! are gone.

use hythe::core::control;
use serde::Serialize;

use crate::args::{CoreStopArgs, Globals};
use crate::error::CliError;
use crate::output;

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
