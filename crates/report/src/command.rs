//! `hythe report`: one page from the results of any bench or latency run, or a table as a picture.

use std::path::{Path, PathBuf};

use clap::Args;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::{output, units};
use hythe_terminal::escaped;
use serde::Serialize;

use crate::ReportError;

/// Results, and where the page goes.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Documents that a bench or latency run printed with --json
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The page to write
    #[arg(short, long, value_name = "PAGE", required_unless_present = "picture")]
    output: Option<PathBuf>,
    /// Write the table of one result of `bench ipc` as an SVG, with machine and date
    #[arg(long, value_name = "SVG", conflicts_with = "output")]
    picture: Option<PathBuf>,
}

#[derive(Serialize)]
struct Done<'a> {
    page: &'a Path,
    documents: usize,
    results: usize,
    plots: usize,
    bytes: usize,
}

#[derive(Serialize)]
struct Drawn<'a> {
    picture: &'a Path,
    bytes: usize,
}

/// Writes the page or the picture.
///
/// # Errors
///
/// What cannot be read, drawn or written.
pub fn run(args: &ReportArgs, globals: &Globals) -> Result<(), CliError> {
    match (&args.picture, &args.output) {
        (Some(picture), _) => draw(&args.files, picture, globals),
        (None, Some(page)) => write_page(&args.files, page, globals),
        // clap asks for one of them.
        (None, None) => Err(CliError::WrongUse(
            "neither --output nor --picture says what to write".to_owned(),
        )),
    }
}

fn draw(files: &[PathBuf], to: &Path, globals: &Globals) -> Result<(), CliError> {
    let [file] = files else {
        return Err(CliError::WrongUse(format!(
            "--picture is made of one result, not of {}",
            files.len()
        )));
    };
    let svg = crate::picture(file)?;
    std::fs::write(to, &svg).map_err(CliError::file("write", to))?;
    let done = Drawn {
        picture: to,
        bytes: svg.len(),
    };
    output::print(globals.json, &done, |done| {
        format!(
            "wrote {}: {}",
            escaped(done.picture),
            units::bytes(done.bytes as u64)
        )
    })
}

fn write_page(files: &[PathBuf], to: &Path, globals: &Globals) -> Result<(), CliError> {
    let page = crate::page(files)?;
    std::fs::write(to, &page.html).map_err(CliError::file("write", to))?;
    let done = Done {
        page: to,
        documents: page.documents,
        results: page.results,
        plots: page.plots,
        bytes: page.html.len(),
    };
    output::print(globals.json, &done, |done| {
        format!(
            "wrote {}: {} of {}, {}, {}",
            escaped(done.page),
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
    fn document_without_a_schema_is_told_what_prints_one() {
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
