//! `hythe report`: one page from the results of any bench or latency run.
//!
//! `document` reads and checks results; `overlay` lays the latencies of all over each other,
//! `drawn` says what else is drawn, each a `figure`: `plot` lines, `bars`, `distribution`. They
//! stand on an `axis` each way, in the frame of `chart`, in the colours of `palette`, with a
//! `table` beside. `page` writes the HTML. The page holds everything it shows: no scripts, nothing
//! fetched.

mod axis;
mod bars;
mod chart;
mod distribution;
mod document;
mod drawn;
mod figure;
mod overlay;
mod page;
mod palette;
mod plot;
mod style;
mod table;

use std::path::PathBuf;

use clap::Args;
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
    let documents = args
        .files
        .iter()
        .map(|path| document::read(path))
        .collect::<Result<Vec<_>, _>>()?;
    let page = page::render(&documents)?;
    std::fs::write(&args.output, &page.html).map_err(CliError::file("write", &args.output))?;
    let done = Done {
        page: &args.output,
        documents: documents.len(),
        results: documents
            .iter()
            .map(|document| document.results.len())
            .sum(),
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
