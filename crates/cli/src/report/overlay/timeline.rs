//! When the largest samples came: a rhythm, a burst or a start that is slow is seen here and nowhere else.

use std::error::Error;

use hythe_latency::result::Outlier;

use super::super::axis::{self, Axis};
use super::super::chart::{self, Layout, Marks, Shape};
use super::super::document::Measurement;
use super::super::figure::{Figure, Key};
use super::super::plot::{at, range};
use super::super::table::Table;

/// So many of each stand in the table, the largest first.
const ROWS: usize = 10;
const NS_PER_SECOND: f64 = 1e9;

/// Of several series.
#[derive(Debug)]
pub(super) struct Timeline {
    title: String,
    series: Vec<Series>,
    /// Those of which no times were kept.
    untimed: Vec<String>,
}

#[derive(Debug)]
struct Series {
    name: String,
    /// Samples in all.
    count: u64,
    outliers: Vec<Outlier>,
    /// Among those of the other figures: the same colour everywhere.
    place: usize,
}

impl Timeline {
    /// None where no result has times.
    pub(super) fn new<'a>(
        title: String,
        results: impl Iterator<Item = (String, &'a Measurement)>,
    ) -> Option<Self> {
        let (mut series, mut untimed) = (Vec::new(), Vec::new());
        for (place, (name, result)) in results.enumerate() {
            if result.outliers.is_empty() {
                untimed.push(name);
                continue;
            }
            let outliers = result.outliers.clone();
            series.push(Series {
                name,
                count: result.count.unwrap_or(outliers.len() as u64),
                outliers,
                place,
            });
        }
        let found = Self {
            title,
            series,
            untimed,
        };
        (!found.series.is_empty()).then_some(found)
    }

    fn all(&self) -> impl Iterator<Item = &Outlier> + Clone {
        self.series.iter().flat_map(|series| &series.outliers)
    }
}

fn seconds(outlier: &Outlier) -> f64 {
    outlier.at_ns as f64 / NS_PER_SECOND
}

impl Figure for Timeline {
    fn title(&self) -> &str {
        &self.title
    }

    fn caption(&self) -> String {
        let mut caption = "Each mark is one of the largest samples; smaller ones have no time. Across: seconds from the start of the measure to the instant from which it was late; up: how late, on a logarithmic scale.".to_owned();
        if !self.untimed.is_empty() {
            caption += &format!(" No times were kept of {}.", self.untimed.join(", "));
        }
        caption
    }

    fn legend(&self) -> Vec<Key> {
        let keys = self.series.iter().map(|series| Key {
            series: series.place,
            name: series.name.clone(),
            conditions: format!("the {} largest of {}", series.outliers.len(), series.count),
            shape: Some(Shape::of(series.place)),
        });
        keys.collect()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["series", ">at, s", ">sample"]);
        for series in &self.series {
            let mut outliers = series.outliers.clone();
            outliers.sort_by_key(|outlier| std::cmp::Reverse(outlier.value));
            for outlier in outliers.iter().take(ROWS) {
                let at = format!("{:.6}", seconds(outlier));
                let sample = axis::time(outlier.value as f64);
                table.row(vec![series.name.clone(), at, sample]);
            }
        }
        table
    }

    fn draw<'a>(&self, layout: &Layout, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>> {
        let last = self.all().map(seconds).fold(0.0, f64::max);
        // One at the very start has some room, too.
        let ends = (0.0, (last * 1.03).max(1e-6));
        let across = Axis::linear("seconds since the start", ends, axis::number);
        let values = range(self.all().map(|outlier| outlier.value));
        let up = Axis::logarithmic("latency", values, axis::time);
        let marked: Vec<_> = self
            .series
            .iter()
            .map(|series| {
                let places = series.outliers.iter();
                let places = places.map(|outlier| (seconds(outlier), at(outlier.value).log10()));
                (series.place, Marks::Shapes(places.collect()))
            })
            .collect();
        chart::draw(into, layout, (&across, &up), &marked)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::chart::LAYOUTS;
    use super::super::super::document::tests::parsed;
    use super::super::tests::latency;
    use super::*;

    fn timeline(documents: &[serde_json::Value]) -> Option<Timeline> {
        let documents: Vec<_> = documents
            .iter()
            .map(|document| parsed(document).expect("good"))
            .collect();
        let results = documents
            .iter()
            .map(|document| (document.results[0].case.clone(), &document.results[0]));
        Timeline::new("t".to_owned(), results)
    }

    #[test]
    fn series_without_times_are_named_and_the_others_keep_their_colours() {
        let found = timeline(&[
            latency("io", "timer", false),
            latency("idle", "timer", true),
        ]);
        let found = found.expect("one has times");
        assert!(
            found
                .caption()
                .contains("No times were kept of host/cpu0/io.")
        );
        let legend = found.legend();
        assert_eq!((legend.len(), legend[0].series), (1, 1));
        assert_eq!(legend[0].conditions, "the 256 largest of 1000");
        let html = found.table().html("t");
        assert_eq!(html.matches("<tr>").count(), 1 + ROWS);
        assert!(html.contains("0.000000</td><td class=\"number\">1.001 ms"));
        assert!(timeline(&[latency("io", "timer", false)]).is_none());
    }

    #[test]
    fn extremes_can_be_drawn() {
        for (at_ns, value) in [(0, 0), (u64::MAX, u64::MAX)] {
            let mut document = latency("idle", "timer", false);
            document["results"][0]["conditions"]["overflow"] = json!(1);
            document["results"][0]["outliers"] = json!([{"at_ns": at_ns, "value": value}]);
            let found = timeline(&[document]).expect("a time");
            for layout in LAYOUTS {
                found.svg(&layout).expect("drawn");
            }
        }
    }
}
