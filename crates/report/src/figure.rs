//! What stands on a page as a drawing. What of a document is drawn: `drawn`.

use std::error::Error;

use super::chart::{Layout, Shape};
use super::table::Table;
use crate::error::ReportError;

/// A drawing with its title, its legend and its figures.
pub(super) trait Figure {
    /// Says what is compared.
    fn title(&self) -> &str;

    /// How it is read: what is across, what is up, what the marks are.
    fn caption(&self) -> String;

    /// Who is drawn as what, in the order of the series. None where names stand in the drawing.
    fn legend(&self) -> Vec<Key>;

    /// The figures that are drawn, or those that tell most.
    fn table(&self) -> Table;

    /// Adds the SVG element to a text.
    ///
    /// # Errors
    ///
    /// What cannot be drawn.
    fn draw<'a>(&self, layout: &Layout, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>>;

    /// The SVG element.
    ///
    /// # Errors
    ///
    /// The same, with the title.
    fn svg(&self, layout: &Layout) -> Result<String, ReportError> {
        let mut svg = String::new();
        let drawn = self.draw(layout, &mut svg);
        drawn.map_err(|error| ReportError::Drawing {
            title: self.title().to_owned(),
            reason: error.to_string(),
        })?;
        Ok(svg)
    }
}

/// A line of a legend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Number of the series.
    pub(super) series: usize,
    pub(super) name: String,
    /// What it depends on, where that says more than the name.
    pub(super) conditions: String,
    /// None: a line.
    pub(super) shape: Option<Shape>,
}

impl Key {
    /// Of lines that have nothing but a name.
    pub(super) fn lines<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Self> {
        let keys = names.enumerate().map(|(series, name)| Self {
            series,
            name: name.to_owned(),
            conditions: String::new(),
            shape: None,
        });
        keys.collect()
    }
}
