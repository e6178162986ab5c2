//! Plots as SVG, to stand inside a page: times by size, one line for each system.

use std::collections::BTreeMap;
use std::error::Error;

use plotters::prelude::*;

use super::document::Document;
use crate::error::CliError;
use crate::units;

const WIDTH: u32 = 860;
const HEIGHT: u32 = 420;
const FONT: (&str, u32) = ("sans-serif", 13);
/// Told apart also by those who see no red and green (Okabe and Ito, 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// One point: size in bytes, p50 and p99 in nanoseconds.
type Point = (u64, u64, u64);

/// Times of several systems, measured in one way.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    /// By system, in the order of size.
    series: BTreeMap<String, Vec<Point>>,
}

/// What of a document can be drawn: cases with times of at least two sizes.
pub(super) fn plots(document: &Document) -> Vec<Plot> {
    let mut found: Vec<Plot> = Vec::new();
    for measurement in &document.results {
        let (Some(times), Some(size)) = (measurement.times(), measurement.size_bytes) else {
            continue;
        };
        let (system, way) = measurement.system_and_way();
        let title = format!("{} {way}", measurement.metric.replace('_', " "));
        let place = found.iter().position(|plot| plot.title == title);
        let place = place.unwrap_or_else(|| {
            let series = BTreeMap::new();
            found.push(Plot { title, series });
            found.len() - 1
        });
        let series = found[place].series.entry(system.to_owned()).or_default();
        series.push((size, times.p50, times.p99));
    }
    for plot in &mut found {
        plot.series
            .values_mut()
            .for_each(|points| points.sort_unstable());
    }
    found.retain(|plot| plot.series.values().any(|points| points.len() > 1));
    found
}

impl Plot {
    /// The SVG element. Both axes are logarithmic, that of sizes with powers of two; p99 stands above each p50 as a ring.
    pub(super) fn svg(&self) -> Result<String, CliError> {
        let mut svg = String::new();
        self.draw(&mut svg)
            .map_err(|error| CliError::Failed(format!("cannot draw `{}`: {error}", self.title)))?;
        Ok(svg)
    }

    fn draw(&self, into: &mut String) -> Result<(), Box<dyn Error>> {
        let points = || self.series.values().flatten();
        let sizes = exponents(points().map(|point| point.0));
        let times = range(points().flat_map(|point| [point.1, point.2]));
        let area = SVGBackend::with_string(into, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(80)
            .build_cartesian_2d(sizes.0..sizes.1, (times.0..times.1).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("payload")
            .y_desc("p50 (line) and p99 (ring)")
            // One for each power of two; where they are too many, the library leaves out some.
            .x_labels((sizes.1 - sizes.0) as usize + 1)
            .x_label_formatter(&|size| units::bytes(size.exp2() as u64))
            .y_label_formatter(&|time| nanoseconds(*time))
            .label_style(FONT)
            .axis_desc_style(FONT)
            .light_line_style(WHITE)
            .draw()?;
        for ((system, points), colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let line = points.iter().map(|point| (exponent(point.0), at(point.1)));
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)).point_size(3))?
                .label(system)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled())
                });
            let rings = points
                .iter()
                .map(|point| Circle::new((exponent(point.0), at(point.2)), 3, *colour));
            chart.draw_series(rings)?;
        }
        chart
            .configure_series_labels()
            .label_font(FONT)
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
        Ok(())
    }
}

/// The place of a size on an axis of powers of two.
fn exponent(size: u64) -> f64 {
    at(size).log2()
}

/// Whole powers of two around all sizes.
fn exponents(sizes: impl Iterator<Item = u64>) -> (f64, f64) {
    let both = sizes
        .map(exponent)
        .fold((64.0_f64, 0.0_f64), |(least, greatest), size| {
            (least.min(size.floor()), greatest.max(size.ceil()))
        });
    (both.0 - 0.5, both.1 + 0.5)
}

/// Zero has no place on a logarithmic axis.
fn at(figure: u64) -> f64 {
    figure.max(1) as f64
}

/// From half the least to twice the greatest.
fn range(figures: impl Iterator<Item = u64> + Clone) -> (f64, f64) {
    let least = figures.clone().min().unwrap_or(1);
    let greatest = figures.max().unwrap_or(1);
    (at(least) / 2.0, at(greatest) * 2.0)
}

/// `250 ns`, `3.2 us`.
fn nanoseconds(time: f64) -> String {
    match time {
        ..1e3 => format!("{time:.0} ns"),
        1e3..1e6 => format!("{:.1} us", time / 1e3),
        1e6..1e9 => format!("{:.1} ms", time / 1e6),
        _ => format!("{:.1} s", time / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::document::tests::{parsed, small};
    use super::*;

    #[test]
    fn one_plot_for_each_way_with_a_line_for_each_system() {
        let plots = plots(&parsed(&small()).expect("good"));
        assert_eq!(plots.len(), 1, "a rate is no line");
        assert_eq!(plots[0].title, "round trip poll/untouched");
        assert_eq!(plots[0].series["hythe"], [(64, 400, 800), (4096, 410, 820)]);
        let svg = plots[0].svg().expect("drawn");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(
            svg.contains("floor") && svg.contains("hythe") && svg.contains("4 KiB"),
            "{svg}"
        );
    }

    #[test]
    fn extremes_can_be_drawn() {
        let mut document = small();
        for (result, time) in [(0, 0_u64), (1, u64::MAX)] {
            for key in ["min", "p50", "p99", "p999", "max"] {
                document["results"][result][key] = json!(time);
            }
            document["results"][result]["size_bytes"] = json!(time);
        }
        let plots = plots(&parsed(&document).expect("good"));
        plots[0].svg().expect("drawn");
    }
}
