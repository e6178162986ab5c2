//! `hythe doctor`: prints what the probes of [`crate::doctor`] found. A missing fast path is a
//! finding, not a failure.

use serde::Serialize;

use crate::args::Globals;
use crate::doctor::{Probe, probe_all, render};
use crate::error::CliError;
use crate::output;

#[derive(Serialize)]
struct Document {
    probes: Vec<Probe>,
}

pub(crate) fn run(globals: &Globals) -> Result<(), CliError> {
    let document = Document {
        probes: probe_all(),
    };
    output::print(globals.json, &document, |document| render(&document.probes))
}
