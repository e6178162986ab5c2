//! What of a document is drawn.

use std::error::Error;

use super::bars::bars;
use super::distribution::distributions;
use super::document::Document;
use super::plot::plots;
use crate::error::CliError;

/// Something with a title that stands on a page.
pub(super) trait Figure {
    /// Says what is compared.
    fn title(&self) -> &str;

    /// Adds the SVG element to a text.
    ///
    /// # Errors
    ///
    /// What cannot be drawn.
    fn draw<'a>(&self, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>>;

    /// The SVG element.
    ///
    /// # Errors
    ///
    /// The same, with the title.
    fn svg(&self) -> Result<String, CliError> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| {
            CliError::Failed(format!("cannot draw `{}`: {error}", self.title()))
        })?;
        Ok(svg)
    }
}

/// Costs as bars, times and costs as lines, distributions.
pub(super) fn figures(document: &Document) -> Result<Vec<Box<dyn Figure>>, CliError> {
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
