//! What of a document is drawn, and as which kind of figure.

use super::bars::bars;
use super::distribution::distributions;
use super::document::Document;
use super::figure::Figure;
use super::plot::plots;
use crate::error::ReportError;

/// Costs as bars, times and costs as lines, distributions.
pub(super) fn figures(document: &Document) -> Result<Vec<Box<dyn Figure>>, ReportError> {
    let mut figures: Vec<Box<dyn Figure>> = Vec::new();
    for drawn in bars(document) {
        figures.push(Box::new(drawn));
    }
    for drawn in plots(document) {
        figures.push(Box::new(drawn));
    }
    for drawn in distributions(document)? {
        figures.push(Box::new(drawn));
    }
    Ok(figures)
}
