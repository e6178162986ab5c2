//! When the largest samples came: a rhythm, a burst or a start that is slow is seen here and
//! nowhere else.

use std::error::Error;

use hdrhistogram::Histogram;
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

/// Whose time is across.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// That of the machine that measured.
    Real,
    /// An emulator's, which counts instructions: seen from outside of the core.
    Emulated,
}

/// Of several series.
#[derive(Debug)]
pub(super) struct Timeline {
    title: String,
    clock: Clock,
    series: Vec<Series>,
    /// Those of which no times were kept.
    untimed: Vec<String>,
}

#[derive(Debug)]
struct Series {
    name: String,
    /// Samples in all.
    count: u64,
    /// So many are as large as the largest.
    largest: u64,
    /// How long it was measured, where that is known.
    lasted_ns: Option<u64>,
    outliers: Vec<Outlier>,
    /// Among those of the other figures: the same colour everywhere.
    place: usize,
}

impl Timeline {
    /// None where no result has times.
    pub(super) fn new<'a>(
        title: String,
        clock: Clock,
        results: impl Iterator<Item = (String, (&'a Measurement, &'a Histogram<u64>))>,
    ) -> Option<Self> {
        let (mut series, mut untimed) = (Vec::new(), Vec::new());
        for (place, (name, (result, histogram))) in results.enumerate() {
            if result.outliers.is_empty() {
                untimed.push(name);
                continue;
            }
            let outliers = result.outliers.clone();
            series.push(Series {
                name,
                count: result.count.unwrap_or(outliers.len() as u64),
                largest: histogram.count_at(histogram.max()),
                lasted_ns: result.lasted_ns,
                outliers,
                place,
            });
        }
        let found = Self {
            title,
            clock,
            series,
            untimed,
        };
        (!found.series.is_empty()).then_some(found)
    }

    fn all(&self) -> impl Iterator<Item = &Outlier> + Clone {
        self.series.iter().flat_map(|series| &series.outliers)
    }
}

impl Series {
    /// Which of all samples are marked.
    fn which(&self) -> String {
        let (count, largest) = (self.count, self.largest);
        let which = match self.outliers.len() {
            1 if largest > 1 => {
                format!("the first of {largest} that are equally large, of {count}")
            }
            kept => format!("the {kept} largest of {count}"),
        };
        match self.lasted_ns {
            // The unit stays with its number where a line is short.
            Some(lasted) => {
                let lasted = axis::time(lasted as f64).replace(' ', "\u{a0}");
                format!("{which} in {lasted}")
            }
            None => which,
        }
    }
}

/// Where it is across: nanoseconds since the start.
fn since(outlier: &Outlier) -> f64 {
    outlier.at_ns as f64
}

/// `250 ms`; the start needs no unit.
fn instant(nanoseconds: f64) -> String {
    match nanoseconds == 0.0 {
        true => "0".to_owned(),
        false => axis::time(nanoseconds),
    }
}

impl Figure for Timeline {
    fn title(&self) -> &str {
        &self.title
    }

    fn caption(&self) -> String {
        let from = match self.clock {
            Clock::Real => "time from the start of the measure",
            Clock::Emulated => {
                "emulated time, by counted instructions, from the measure's first edge on the core's pin (of a timer: from its programming)"
            }
        };
        let mut caption = format!(
            "Each mark is one of the largest samples; smaller ones have no time. Across: {from} to the instant from which it was late; up: how late, on a logarithmic scale."
        );
        if !self.untimed.is_empty() {
            caption += &format!(" No times were kept of {}.", self.untimed.join(", "));
        }
        caption
    }

    fn legend(&self) -> Vec<Key> {
        let keys = self.series.iter().map(|series| Key {
            series: series.place,
            name: series.name.clone(),
            conditions: series.which(),
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
                // Nanoseconds, none left out.
                let at = format!("{:.9}", since(outlier) / NS_PER_SECOND);
                let sample = axis::time(outlier.value as f64);
                table.row(vec![series.name.clone(), at, sample]);
            }
        }
        table
    }

    fn draw<'a>(&self, layout: &Layout, into: &'a mut String) -> Result<(), Box<dyn Error + 'a>> {
        let last = self.all().map(since).fold(0.0, f64::max);
        let lasted = self.series.iter().filter_map(|series| series.lasted_ns);
        let lasted = lasted.max().unwrap_or(0) as f64;
        // One at the very start has some room, too.
        let ends = (0.0, (last * 1.03).max(lasted).max(1e3));
        let name = match self.clock {
            Clock::Real => "time since the start",
            Clock::Emulated => "emulated time since the first edge",
        };
        let across = Axis::linear(name, ends, instant);
        let values = range(self.all().map(|outlier| outlier.value));
        let up = Axis::logarithmic("latency", values, axis::time);
        let marked: Vec<_> = self
            .series
            .iter()
            .map(|series| {
                let places = series.outliers.iter();
                let places = places.map(|outlier| (since(outlier), at(outlier.value).log10()));
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
    use super::super::super::distribution::tests::encoded;
    use super::super::super::document::tests::parsed;
    use super::super::tests::latency;
    use super::*;

    fn timeline(clock: Clock, documents: &[serde_json::Value]) -> Option<Timeline> {
        let documents: Vec<_> = documents
            .iter()
            .map(|document| parsed(document).expect("good"))
            .collect();
        let results: Vec<_> = documents
            .iter()
            .map(|document| &document.results[0])
            .collect();
        let histograms: Vec<_> = results
            .iter()
            .map(|result| result.histogram().expect("good").expect("there"))
            .collect();
        let results = results.into_iter().zip(&histograms);
        let results = results.map(|(result, histogram)| (result.case.clone(), (result, histogram)));
        Timeline::new("t".to_owned(), clock, results)
    }

    #[test]
    fn timeline_names_series_without_times_and_keeps_colours() {
        let documents = [
            latency("io", "timer", false),
            latency("idle", "timer", true),
        ];
        let found = timeline(Clock::Real, &documents);
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
        assert!(html.contains("0.001000000</td><td class=\"number\">1.001 ms"));
        assert!(timeline(Clock::Real, &documents[..1]).is_none());
    }

    #[test]
    fn whose_time_it_is_stands_at_the_axis() {
        for (clock, name) in [
            (Clock::Real, "time since the start"),
            (Clock::Emulated, "emulated time since the first edge"),
        ] {
            let found = timeline(clock, &[latency("idle", "timer", true)]).expect("times");
            let is_emulated = clock == Clock::Emulated;
            assert_eq!(
                found
                    .caption()
                    .contains("emulated time, by counted instructions"),
                is_emulated
            );
            for layout in LAYOUTS {
                let svg = found.svg(&layout).expect("drawn");
                let words: Vec<&str> = svg.lines().map(str::trim).collect();
                for word in [name, "100 ms", "0"] {
                    assert!(words.contains(&word), "{word}: {svg}");
                }
            }
        }
    }

    #[test]
    fn timeline_says_that_one_largest_represents_many() {
        let mut document = latency("idle", "timer", false);
        let result = &mut document["results"][0];
        result["outliers"] = json!([{"at_ns": 5, "value": 1264}]);
        result["histogram"] = json!(encoded(std::iter::repeat_n(1264, 1000)));
        for figure in ["min", "p50", "p99", "p999", "max"] {
            result[figure] = json!(1264);
        }
        result["lasted_ns"] = json!(2_500_000);
        let found = timeline(Clock::Emulated, &[document]).expect("times");
        let said = &found.legend()[0].conditions;
        assert_eq!(
            said,
            "the first of 1000 that are equally large, of 1000 in 2.5\u{a0}ms"
        );
        let svg = found.svg(&LAYOUTS[0]).expect("drawn");
        let ends = svg.lines().any(|line| line.trim() == "2.5 ms");
        assert!(ends, "the axis is as long as the measure was: {svg}");
    }

    #[test]
    fn extremes_can_be_drawn() {
        for (at_ns, value) in [(0, 0), (u64::MAX, u64::MAX)] {
            let mut document = latency("idle", "timer", false);
            document["results"][0]["conditions"]["overflow"] = json!(1);
            document["results"][0]["outliers"] = json!([{"at_ns": at_ns, "value": value}]);
            let found = timeline(Clock::Real, &[document]).expect("a time");
            for layout in LAYOUTS {
                found.svg(&layout).expect("drawn");
            }
        }
    }
}
