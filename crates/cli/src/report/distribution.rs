//! Distributions as SVG: how large errors in the spacing of packets are, up to which percentile, one line for each system.

use std::collections::BTreeMap;
use std::error::Error;

use hdrhistogram::Histogram;
use plotters::prelude::*;

use super::document::Document;
use super::figure::Figure;
use super::plot::{COLOURS, FONT, HEIGHT, WIDTH, at, nanoseconds, range};
use crate::error::CliError;

/// The metrics whose distribution says more than a few percentiles.
const METRICS: &str = "spacing_error";
/// From 90 to 99 percent, and so on.
const POINTS_PER_DECADE: u32 = 20;
/// Percentiles of more nines are those of single samples.
const DECADES_MAX: u32 = 7;

/// Half of the last percentile's label.
const LAST_LABEL_WIDTH: u32 = 40;

/// How many nines a percentile has (0: none, 1: 90 %, 2: 99 %), and the value that it keeps.
type Point = (f64, u64);

/// Several systems, measured in one way.
#[derive(Debug)]
pub(super) struct Distribution {
    title: String,
    /// By system.
    series: BTreeMap<String, Vec<Point>>,
}

/// One figure for each metric and number of calls.
pub(super) fn distributions(document: &Document) -> Result<Vec<Distribution>, CliError> {
    let mut found: Vec<Distribution> = Vec::new();
    for measurement in &document.results {
        if !measurement.metric.starts_with(METRICS) {
            continue;
        }
        let Some(histogram) = measurement.histogram() else {
            continue;
        };
        let histogram = histogram
            .map_err(|why| CliError::Failed(format!("{}: {why}", document.path.display())))?;
        if histogram.is_empty() {
            continue;
        }
        let (system, way) = measurement.system_and_way();
        let mut title = format!("{}, {way}", measurement.metric.replace('_', " "));
        if let Some(calls) = measurement.calls {
            title += &format!(": {calls} at once");
        }
        let place = found.iter().position(|figure| figure.title == title);
        let place = place.unwrap_or_else(|| {
            let series = BTreeMap::new();
            found.push(Distribution { title, series });
            found.len() - 1
        });
        found[place]
            .series
            .insert(system.to_owned(), points(&histogram));
    }
    Ok(found)
}

/// As far as samples reach.
fn points(histogram: &Histogram<u64>) -> Vec<Point> {
    let reach = (histogram.len().max(1) as f64).log10();
    let steps = (0..=DECADES_MAX * POINTS_PER_DECADE)
        .map(|step| f64::from(step) / f64::from(POINTS_PER_DECADE));
    let steps = steps.take_while(|nines| *nines <= reach);
    steps
        .map(|nines| {
            let quantile = 1.0 - 10_f64.powf(-nines);
            (nines, histogram.value_at_quantile(quantile))
        })
        .collect()
}

/// `0 %`, `90 %`, `99.9 %`.
fn percentile(nines: f64) -> String {
    let digits = (nines.round() as usize).saturating_sub(2);
    format!("{:.digits$} %", (1.0 - 10_f64.powf(-nines)) * 100.0)
}

impl Figure for Distribution {
    fn title(&self) -> &str {
        &self.title
    }

    /// Each nine more takes as much room as the one before, so that rare errors are seen as well as usual ones.
    fn draw<'a>(&self, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>> {
        let points = || self.series.values().flatten();
        let nines = points().fold(1.0, |most: f64, point| most.max(point.0));
        let (low, high) = range(points().map(|point| point.1));
        let area = SVGBackend::with_string(into, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .margin_right(LAST_LABEL_WIDTH)
            .x_label_area_size(36)
            .y_label_area_size(80)
            .build_cartesian_2d(0.0..nines.ceil(), (low..high).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("percentile")
            .y_desc("error")
            .x_labels(nines.ceil() as usize + 1)
            .x_label_formatter(&|nines| percentile(*nines))
            .y_label_formatter(&|time| nanoseconds(*time))
            .label_style(FONT)
            .axis_desc_style(FONT)
            .light_line_style(WHITE)
            .draw()?;
        for ((system, points), colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let line = points.iter().map(|point| (point.0, at(point.1)));
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
                .label(system)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled())
                });
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

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use serde_json::{Value, json};

    use super::super::document::tests::{parsed, small};
    use super::*;

    fn encoded(values: impl Iterator<Item = u64>) -> String {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("good");
        values.for_each(|value| histogram.saturating_record(value));
        let mut bytes = Vec::new();
        let written = V2Serializer::new().serialize(&histogram, &mut bytes);
        written.expect("written");
        STANDARD.encode(bytes)
    }

    fn row(case: &str, metric: &str, histogram: &str) -> Value {
        json!({"case": case, "size_bytes": 172, "metric": metric, "unit": "ns", "calls": 2000,
            "min": 1, "p50": 2, "p99": 3, "p999": 4, "max": 5, "histogram": histogram})
    }

    #[test]
    fn both_systems_stand_in_one_figure_for_each_metric() {
        let mut document = small();
        let calm = encoded((1..=1000).map(|error| error * 1000));
        document["results"] = json!([
            row("sendto/calls", "spacing_error_sent", &calm),
            row("hythe/calls", "spacing_error_sent", &calm),
            row("hythe/calls", "spacing_error_received", &calm),
            row(
                "hythe/calls",
                "spacing_error_received",
                &encoded(std::iter::empty())
            ),
            row("floor/poll/untouched", "round_trip", "not looked at"),
        ]);
        let found = distributions(&parsed(&document).expect("good")).expect("good");
        let titles: Vec<&str> = found.iter().map(Figure::title).collect();
        let expected = [
            "spacing error sent, calls: 2000 at once",
            "spacing error received, calls: 2000 at once",
        ];
        assert_eq!(titles, expected);
        let line = &found[0].series["hythe"];
        // A thousand samples reach to 99.9 %.
        assert_eq!(line.len(), 61);
        let [first, ninety, last] = [0, 20, 60].map(|place| line[place].1);
        assert_eq!((first, last), (1000, 999_423), "to a part in a thousand");
        assert!((899_000..=901_000).contains(&ninety), "{ninety}");
        let svg = found[0].svg().expect("drawn");
        let labels: Vec<&str> = svg.lines().filter(|line| !line.contains('<')).collect();
        for label in [
            "sendto",
            "hythe",
            "0 %",
            "90 %",
            "99 %",
            "99.9 %",
            "percentile",
        ] {
            assert!(labels.contains(&label), "no {label}: {labels:?}");
        }
    }

    #[test]
    fn a_histogram_that_is_none_is_refused_with_its_case() {
        for (broken, why) in [("%", "no base64"), ("AAAA", "no HdrHistogram")] {
            let mut document = small();
            document["results"] = json!([row("hythe/calls", "spacing_error_sent", broken)]);
            let refused = distributions(&parsed(&document).expect("read")).expect_err(broken);
            let text = refused.to_string();
            assert!(text.contains("hythe/calls") && text.contains(why), "{text}");
        }
    }

    #[test]
    fn a_single_sample_can_be_drawn() {
        let mut document = small();
        let one = encoded(std::iter::once(0));
        document["results"] = json!([row("hythe/calls", "spacing_error_sent", &one)]);
        let found = distributions(&parsed(&document).expect("good")).expect("good");
        found[0].svg().expect("drawn");
    }
}
