//! Distributions as SVG: how large errors in the spacing of packets, or between picture and sound,
//! are, up to which percentile, one line for each system.

use std::error::Error;

use hdrhistogram::Histogram;

use super::axis::{self, Axis};
use super::chart::{self, Layout, Marks};
use super::document::Document;
use super::figure::{Figure, Key};
use super::plot::{at, range};
use super::table::Table;
use crate::error::ReportError;

/// The metrics whose distribution says more than a few percentiles.
const METRICS: [&str; 2] = ["spacing_error", "sync_error"];
/// From 90 to 99 percent, and so on.
const POINTS_PER_DECADE: u32 = 20;
/// Percentiles of more nines are those of single samples.
const DECADES_MAX: u32 = 7;

/// What the table has of each, beside the least and the largest.
const QUANTILES: [(&str, f64); 6] = [
    (">p50", 0.5),
    (">p90", 0.9),
    (">p99", 0.99),
    (">p99.9", 0.999),
    (">p99.99", 0.9999),
    (">p99.999", 0.99999),
];

/// How many nines a percentile has (0: none, 1: 90 %, 2: 99 %), and the value that it keeps.
type Point = (f64, u64);

/// Several systems, measured in one way.
#[derive(Debug)]
pub(super) struct Distribution {
    title: String,
    /// What is distributed: an error, a latency.
    what: &'static str,
    lines: Vec<Line>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Line {
    name: String,
    /// What it depends on.
    conditions: String,
    points: Vec<Point>,
    histogram: Histogram<u64>,
}

impl Line {
    /// Of a histogram with samples.
    pub(super) fn new(name: String, conditions: String, histogram: Histogram<u64>) -> Self {
        Self {
            name,
            conditions,
            points: points(&histogram),
            histogram,
        }
    }

    /// Of few samples a high percentile is the largest of them, and says no more.
    fn reaches(&self, quantile: f64) -> bool {
        (1.0 - quantile) * self.histogram.len() as f64 >= 1.0 - 1e-9
    }

    fn cells(&self, quantiles: &[f64]) -> Vec<String> {
        let histogram = &self.histogram;
        let time = |value: u64| axis::time(value as f64);
        let mut cells = vec![self.name.clone(), histogram.len().to_string()];
        cells.push(time(histogram.min()));
        cells.extend(quantiles.iter().map(|&quantile| {
            let value = self
                .reaches(quantile)
                .then(|| time(histogram.value_at_quantile(quantile)));
            value.unwrap_or_default()
        }));
        cells.push(time(histogram.max()));
        cells
    }
}

impl Distribution {
    pub(super) fn new(title: String, what: &'static str, lines: Vec<Line>) -> Self {
        Self { title, what, lines }
    }
}

/// One figure for each metric and number of calls.
pub(super) fn distributions(document: &Document) -> Result<Vec<Distribution>, ReportError> {
    let mut found: Vec<Distribution> = Vec::new();
    for measurement in &document.results {
        let mut drawn = METRICS.iter();
        if !drawn.any(|metric| measurement.metric.starts_with(metric)) {
            continue;
        }
        let Some(histogram) = measurement.histogram() else {
            continue;
        };
        let histogram = histogram.map_err(|reason| document.refused(reason))?;
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
            found.push(Distribution::new(title, "error", Vec::new()));
            found.len() - 1
        });
        let line = Line::new(system.to_owned(), String::new(), histogram);
        found[place].lines.push(line);
    }
    Ok(found)
}

/// As far as samples reach, and up to the largest there. In one pass: to ask for each percentile
/// takes one each.
fn points(histogram: &Histogram<u64>) -> Vec<Point> {
    let count = histogram.len().max(1) as f64;
    let reach = count.log10();
    let steps = (0..=DECADES_MAX * POINTS_PER_DECADE)
        .map(|step| f64::from(step) / f64::from(POINTS_PER_DECADE));
    let steps = steps.take_while(|nines| *nines < reach - 1e-9);
    // The last but one stands below the largest.
    let end = reach.min(f64::from(DECADES_MAX));
    let (mut recorded, mut below, mut value) = (histogram.iter_recorded(), 0.0, 0);
    let mut points = Vec::new();
    for nines in steps.chain([end]) {
        // What is left above it, rounded down, so that the last of a whole number of nines is not
        // the largest of all.
        let above = (count * 10_f64.powf(-nines) + 1e-6).floor();
        while below < (count - above).max(1.0) {
            let Some(step) = recorded.next() else {
                break;
            };
            below += step.count_at_value() as f64;
            value = step.value_iterated_to();
        }
        points.push((nines, value));
    }
    points.push((end, histogram.max()));
    points
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

    fn caption(&self) -> String {
        let what = self.what;
        format!(
            "Up: the {what} that so many of all samples do not exceed, on a logarithmic scale. Across: how many that are, 1/(1-p) on a logarithmic scale: each nine more is as wide as the one before. A line ends with the largest sample, where its samples end."
        )
    }

    fn legend(&self) -> Vec<Key> {
        let mut keys = Key::lines(self.lines.iter().map(|line| line.name.as_str()));
        for (key, line) in keys.iter_mut().zip(&self.lines) {
            key.conditions.clone_from(&line.conditions);
        }
        keys
    }

    fn table(&self) -> Table {
        let reached = QUANTILES.iter().filter(|(_, quantile)| {
            let mut lines = self.lines.iter();
            lines.any(|line| line.reaches(*quantile))
        });
        let (names, quantiles): (Vec<&str>, Vec<f64>) = reached.copied().unzip();
        let headings = [&["series", ">count", ">min"][..], &names, &[">max"]];
        let mut table = Table::new(&headings.concat());
        for line in &self.lines {
            table.row(line.cells(&quantiles));
        }
        table
    }

    /// Each nine more takes as much room as the one before, so that rare errors are seen as well as
    /// usual ones.
    fn draw<'a>(&self, layout: &Layout, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let nines = points().fold(1.0, |most: f64, point| most.max(point.0));
        let across = Axis::whole("percentile", (0.0, nines), percentile);
        let values = range(points().map(|point| point.1));
        let up = Axis::logarithmic(self.what, values, axis::time);
        let lines = self.lines.iter().map(|line| {
            let places = line.points.iter();
            let places = places.map(|point| (point.0, at(point.1).log10()));
            Marks::Line(places.collect())
        });
        let marked: Vec<_> = lines.enumerate().collect();
        chart::draw(into, layout, (&across, &up), &marked)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use serde_json::{Value, json};

    use super::super::chart::LAYOUTS;
    use super::super::document::tests::{parsed, small};
    use super::*;

    pub(crate) fn encoded(values: impl Iterator<Item = u64>) -> String {
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
        let line = &found[0].lines[1].points;
        // A thousand samples reach to 99.9 %, where the largest of them stands.
        assert_eq!(line.len(), 62);
        let [first, ninety, before, last] = [0, 20, 60, 61].map(|place| line[place].1);
        assert_eq!((first, before), (1000, 999_423), "to a part in a thousand");
        assert_eq!(last, found[0].lines[1].histogram.max());
        assert!((899_000..=901_000).contains(&ninety), "{ninety}");
        let names: Vec<String> = found[0].legend().into_iter().map(|key| key.name).collect();
        assert_eq!(names, ["sendto", "hythe"]);
        let html = found[0].table().html("table");
        assert!(
            html.contains(">p99.9<") && !html.contains(">p99.99<"),
            "a thousand samples have no p99.99: {html}"
        );
        let svg = found[0].svg(&LAYOUTS[0]).expect("drawn");
        let labels: Vec<&str> = svg.lines().filter(|line| !line.contains('<')).collect();
        for label in ["0 %", "90 %", "99 %", "99.9 %", "percentile"] {
            assert!(labels.contains(&label), "no {label}: {labels:?}");
        }
    }

    #[test]
    fn histogram_that_is_none_is_refused_with_its_case() {
        for (broken, why) in [("%", "no base64"), ("AAAA", "no HdrHistogram")] {
            let mut document = small();
            document["results"] = json!([row("hythe/calls", "spacing_error_sent", broken)]);
            let refused = distributions(&parsed(&document).expect("read")).expect_err(broken);
            let text = refused.to_string();
            assert!(text.contains("hythe/calls") && text.contains(why), "{text}");
        }
    }

    #[test]
    fn single_sample_can_be_drawn() {
        let mut document = small();
        let one = encoded(std::iter::once(0));
        document["results"] = json!([row("hythe/calls", "spacing_error_sent", &one)]);
        let found = distributions(&parsed(&document).expect("good")).expect("good");
        for layout in LAYOUTS {
            found[0].svg(&layout).expect("drawn");
        }
    }
}
