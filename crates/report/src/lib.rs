//! One HTML page from the result documents of bench and latency runs, or one table as a picture.
//!
//! `hythe report` calls [`page`] and [`picture`]; the module of that name draws the latter.
//! `document` reads and checks results. `overlay` draws the latencies of all documents in one chart
//! for each metric; `drawn` lists the other charts of a document, each a `figure`: `plot` draws
//! lines, `bars` bars, `distribution` percentiles. `axis` scales them, `paper` has what a paper
//! measured, `reaches` the tables of the host hop, `tasks` those of a comparison with PVM; `chart`
//! draws the frame, `palette` has the colours, `table` the numbers beside a chart. `html` writes
//! the page. It needs no scripts and loads nothing.
//!
//! But for [`command`], it never prints and never writes a file; it refuses to draw results that it
//! could not check.

mod axis;
mod bars;
mod chart;
pub mod command;
mod distribution;
mod document;
mod drawn;
mod error;
mod figure;
mod html;
mod overlay;
mod palette;
mod paper;
mod picture;
mod plot;
mod reaches;
mod style;
mod table;
mod tasks;
mod units;

use std::path::{Path, PathBuf};

pub use error::ReportError;

/// A page, and what is on it.
#[derive(Clone, Debug)]
pub struct Page {
    /// The page, whole.
    pub html: String,
    /// Documents it was made from.
    pub documents: usize,
    /// Results in them.
    pub results: usize,
    /// Figures drawn of them.
    pub plots: usize,
}

/// Reads result documents (`hythe.result/1`) and makes a page of them, in their order.
///
/// # Errors
///
/// [`ReportError::Read`] for a file that cannot be read, [`ReportError::NoSchema`] and
/// [`ReportError::Document`] for one that is no result, or holds figures that cannot be;
/// [`ReportError::Drawing`] if a figure cannot be drawn.
pub fn page(files: &[PathBuf]) -> Result<Page, ReportError> {
    let documents = files.iter().map(|path| document::read(path));
    let documents = documents.collect::<Result<Vec<_>, _>>()?;
    let rendered = html::render(&documents)?;
    Ok(Page {
        html: rendered.html,
        documents: documents.len(),
        results: documents
            .iter()
            .map(|document| document.results.len())
            .sum(),
        plots: rendered.plots,
    })
}

/// Reads one result document of scenario `ipc` and makes an SVG of it: what messages between two
/// processes take by hythe and by others, where hythe loses, on which machine and day.
///
/// # Errors
///
/// As [`page`]; [`ReportError::Document`] for a result of another scenario.
pub fn picture(file: &Path) -> Result<String, ReportError> {
    picture::svg(&document::read(file)?)
}
