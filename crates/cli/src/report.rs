//! `hythe report`: one page from the results of any bench or latency run.

use std::path::PathBuf;

use clap::Args;
use hythe_report::ReportError;
use hythe_terminal::escaped;
use serde::Serialize;

use crate::args::Globals;
use crate::error::CliError;
use crate::{output, units};

/// Results, and where the page goes.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// Documents that a bench or latency run printed with --json
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The page to write
    #[arg(short, long, value_name = "PAGE")]
    output: PathBuf,
}

#[derive(Serialize)]
struct Done<'a> {
    page: &'a PathBuf,
    documents: usize,
    results: usize,
    plots: usize,
    bytes: usize,
}

pub(crate) fn run(args: &ReportArgs, globals: &Globals) -> Result<(), CliError> {
    let page = hythe_report::page(&args.files)?;
    std::fs::write(&args.output, &page.html).map_err(CliError::file("write", &args.output))?;
    let done = Done {
        page: &args.output,
        documents: page.documents,
        results: page.results,
        plots: page.plots,
        bytes: page.html.len(),
    };
    output::print(globals.json, &done, |done| {
        format!(
            "wrote {}: {} of {}, {}, {}",
            escaped(&done.page),
            units::counted(done.results as u64, "result"),
            units::counted(done.documents as u64, "document"),
            units::counted(done.plots as u64, "plot"),
            units::bytes(done.bytes as u64)
        )
    })
}

/// With what to do about it.
impl From<ReportError> for CliError {
    fn from(error: ReportError) -> Self {
        let remedy = match error {
            ReportError::NoSchema { .. } => " (`hythe bench ipc --json` prints one)",
            _ => "",
        };
        Self::Failed(format!("{error}{remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_without_a_schema_is_told_what_prints_one() {
        let error = CliError::from(ReportError::NoSchema {
            path: "x.json".into(),
            expected: "hythe.result/1",
        });
        assert_eq!(
            error.to_string(),
            "x.json: it names no schema: a result says `hythe.result/1` \
             (`hythe bench ipc --json` prints one)"
        );
    }
}
