//! `hythe completions SHELL`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};
use serde::Serialize;

use crate::args::Globals;
use crate::command_line::Arguments;
use crate::error::CliError;
use crate::output;

#[derive(Serialize)]
struct Document {
    shell: String,
    script: String,
}

pub(crate) fn run(shell: Shell, globals: &Globals) -> Result<(), CliError> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "hythe", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let document = Document {
        shell: shell.to_string(),
        script,
    };
    output::print(globals.json, &document, |document| document.script.clone())
}
