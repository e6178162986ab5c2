//! Latencies of all documents, one metric at a time, laid over each other: against the percentile,
//! as a histogram, and when the largest came.
//!
//! Only what is of one kind stands in one figure: emulated and real times do not, nor times of
//! differing clocks (`hythe latency compare` refuses those, too).

mod conditions;
mod counts;
mod timeline;
mod untimed;

use hdrhistogram::Histogram;

use super::distribution::{Distribution, Line};
use super::document::{Document, Measurement, plain};
use super::figure::Figure;
use super::palette;
use crate::error::ReportError;
use conditions::letter;
use counts::Counts;
use timeline::{Clock, Timeline};

pub(super) use untimed::Untimed;

/// What documents of latencies call their runs.
const BENCH: &str = "latency";

/// All of it.
pub(super) struct Overlay<'a> {
    documents: Vec<&'a Document>,
    pub(super) groups: Vec<Group>,
}

/// One metric by one clock.
pub(super) struct Group {
    pub(super) title: String,
    /// The title of what it is one of: `task switch` of `task switch, outside`.
    pub(super) base: String,
    /// What tells it from another of the same title.
    pub(super) clock: String,
    /// Which clock, and whether an emulator's.
    pub(super) note: String,
    pub(super) figures: Vec<Box<dyn Figure>>,
}

/// One result, or several that are the same in all.
struct Series<'a> {
    measurement: &'a Measurement,
    histogram: Histogram<u64>,
    /// Places of the documents in which it is.
    documents: Vec<usize>,
}

/// What may stand in one figure.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    metric: String,
    clock: String,
    is_emulated: bool,
}

impl Kind {
    fn of(document: &Document, measurement: &Measurement) -> Self {
        let own = measurement.conditions.get("clock");
        let clock = own.or_else(|| document.conditions.get("clock"));
        Self {
            metric: measurement.metric.clone(),
            clock: clock.map_or_else(|| "unknown".to_owned(), plain),
            is_emulated: document.machine.emulated,
        }
    }

    fn base(&self) -> &str {
        base_of(&self.metric)
    }

    fn title(&self) -> String {
        titled(&self.metric)
    }

    fn note(&self) -> String {
        let emulated = if self.is_emulated {
            "; emulated time"
        } else {
            ""
        };
        format!("Clock: {}{emulated}.", self.clock)
    }
}

/// `task_switch.outside` is one of `task_switch`.
fn base_of(metric: &str) -> &str {
    metric.split_once('.').map_or(metric, |(base, _)| base)
}

/// `task switch, outside`.
fn titled(metric: &str) -> String {
    metric.replace('_', " ").replace('.', ", ")
}

/// Lays all latencies of the documents over each other; none where no document has any.
///
/// # Errors
///
/// A histogram that cannot be read.
pub(super) fn overlay(documents: &[Document]) -> Result<Option<Overlay<'_>>, ReportError> {
    let documents: Vec<&Document> = documents
        .iter()
        .filter(|document| document.bench == BENCH)
        .collect();
    let mut kinds: Vec<(Kind, Vec<Series<'_>>)> = Vec::new();
    for (place, document) in documents.iter().enumerate() {
        for measurement in &document.results {
            let Some(histogram) = histogram(document, measurement)? else {
                continue;
            };
            let kind = Kind::of(document, measurement);
            let found = kinds.iter().position(|(known, _)| *known == kind);
            let found = found.unwrap_or_else(|| {
                kinds.push((kind, Vec::new()));
                kinds.len() - 1
            });
            add(&mut kinds[found].1, measurement, histogram, place);
        }
    }
    if kinds.is_empty() {
        return Ok(None);
    }
    // What is of one metric stands together, in the order of the documents.
    let bases: Vec<String> = kinds.iter().map(|kind| kind.0.base().to_owned()).collect();
    kinds.sort_by_key(|(kind, _)| bases.iter().position(|base| base == kind.base()));
    let several = documents.len() > 1;
    let groups = kinds
        .iter()
        .flat_map(|(kind, series)| groups(kind, series, several));
    let groups = groups.collect();
    Ok(Some(Overlay { documents, groups }))
}

fn histogram(
    document: &Document,
    measurement: &Measurement,
) -> Result<Option<Histogram<u64>>, ReportError> {
    let read = measurement.histogram().transpose();
    let read = read.map_err(|reason| document.refused(reason))?;
    Ok(read.filter(|histogram| !histogram.is_empty()))
}

/// The board alone is measured in each run of a comparison, and repeats to the instruction: the
/// same line five times is one. Also where some of the runs were before times were kept.
fn add<'a>(
    series: &mut Vec<Series<'a>>,
    measurement: &'a Measurement,
    histogram: Histogram<u64>,
    document: usize,
) {
    let same = series.iter_mut().find(|known| {
        let known = known.measurement;
        let (own, other) = (&known.outliers, &measurement.outliers);
        known.case == measurement.case
            && known.is_same_histogram(measurement)
            && known.conditions == measurement.conditions
            && (own == other || own.is_empty() || other.is_empty())
    });
    match same {
        Some(known) => {
            known.documents.push(document);
            if known.measurement.outliers.is_empty() {
                known.measurement = measurement;
            }
        }
        None => series.push(Series {
            measurement,
            histogram,
            documents: vec![document],
        }),
    }
}

/// As many as there are colours in each.
fn groups(kind: &Kind, series: &[Series<'_>], several: bool) -> Vec<Group> {
    let parts = series.chunks(palette::SERIES);
    let count = parts.len();
    let groups = parts.enumerate().map(|(part, series)| {
        let mut title = kind.title();
        if count > 1 {
            title += &format!(" ({} of {count})", part + 1);
        }
        group(kind, title, series, several)
    });
    groups.collect()
}

fn group(kind: &Kind, title: String, series: &[Series<'_>], several: bool) -> Group {
    let names: Vec<String> = series.iter().map(|series| series.name(several)).collect();
    let conditions: Vec<Vec<String>> = series
        .iter()
        .map(|series| series.measurement.own_conditions())
        .collect();
    // What is the same of all is said once.
    let (common, rest) = (&conditions[0], &conditions[1..]);
    let is_common = |said: &String| rest.iter().all(|other| other.contains(said));
    let common: Vec<&String> = common.iter().filter(|said| is_common(said)).collect();
    let lines = names.iter().zip(series).zip(&conditions);
    let lines = lines.map(|((name, series), conditions)| {
        let own = conditions.iter().filter(|said| !common.contains(said));
        let own = own.cloned().collect::<Vec<_>>().join(", ");
        Line::new(name.clone(), own, series.histogram.clone())
    });
    let lines = lines.collect();
    let by_percentile = format!("{title}: latency against percentile");
    let histograms = names.iter().cloned();
    let histograms = histograms.zip(series.iter().map(|series| &series.histogram));
    let mut figures: Vec<Box<dyn Figure>> = vec![
        Box::new(Distribution::new(by_percentile, "latency", lines)),
        Box::new(Counts::new(format!("{title}: histogram"), histograms)),
    ];
    let measured = series.iter();
    let measured = measured.map(|series| (series.measurement, &series.histogram));
    let clock = match kind.is_emulated {
        true => Clock::Emulated,
        false => Clock::Real,
    };
    let timeline = Timeline::new(
        format!("{title}: timeline of outliers"),
        clock,
        names.into_iter().zip(measured),
    );
    if let Some(timeline) = timeline {
        figures.push(Box::new(timeline));
    }
    let common = common.iter().map(|said| format!(" {said}."));
    Group {
        base: titled(kind.base()),
        clock: kind.clock.clone(),
        title,
        note: kind.note() + &common.collect::<String>(),
        figures,
    }
}

impl Series<'_> {
    /// With the letters of its documents, where there are several.
    fn name(&self, several: bool) -> String {
        let case = &self.measurement.case;
        if !several {
            return case.clone();
        }
        let letters: Vec<String> = self.documents.iter().map(|&place| letter(place)).collect();
        format!("{case} [{}]", letters.join(" "))
    }
}

impl Overlay<'_> {
    pub(super) fn is_emulated(&self) -> bool {
        let mut documents = self.documents.iter();
        documents.any(|document| document.machine.emulated)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use hythe_latency::result::Outlier;
    use serde_json::{Value, json};

    use super::super::chart::LAYOUTS;
    use super::super::distribution::tests::encoded;
    use super::super::document::tests::{parsed, small};
    use super::*;

    /// A run of this machine with one result: `times` samples of 1 us and more.
    pub(crate) fn latency(load: &str, metric: &str, times: bool) -> Value {
        let mut document = small();
        document["bench"] = json!("latency");
        document["ratios"] = json!([]);
        document["conditions"] =
            json!({"clock": "CLOCK_MONOTONIC", "load": load, "not_permitted": []});
        let samples = (1..=1000_u64).map(|sample| 1000 + sample * sample);
        let mut result = json!({"case": format!("host/cpu0/{load}"), "metric": metric, "unit": "ns", "count": 1000,
            "min": 1001, "p50": 251_000, "p99": 981_100, "p999": 999_001, "max": 1_001_471,
            "histogram": encoded(samples), "conditions": {"memory_locked": true}});
        if times {
            let outliers = (0..256_u64).map(|at| Outlier {
                at_ns: at * 1_000_000,
                value: 1_001_000 - at * 100,
            });
            result["outliers"] = json!(outliers.collect::<Vec<_>>());
        }
        document["results"] = json!([result]);
        document
    }

    fn laid(documents: &[Value]) -> (Vec<String>, Vec<Vec<String>>) {
        let documents: Vec<Document> = documents
            .iter()
            .map(|document| parsed(document).expect("good"))
            .collect();
        let overlay = overlay(&documents).expect("good").expect("latencies");
        let titles = overlay.groups.iter();
        let titles = titles.map(|group| format!("{} | {}", group.title, group.note));
        let names = overlay.groups.iter().map(|group| {
            let legend = group.figures[0].legend();
            legend.into_iter().map(|key| key.name).collect()
        });
        (titles.collect(), names.collect())
    }

    #[test]
    fn same_metric_of_all_documents_stands_in_one_figure() {
        let idle = latency("idle", "timer", true);
        let hog = latency("hog", "timer", true);
        let (titles, names) = laid(&[idle.clone(), hog, idle, small()]);
        assert_eq!(
            titles,
            ["timer | Clock: CLOCK_MONOTONIC. memory locked: true."]
        );
        let expected = ["host/cpu0/idle [A C]", "host/cpu0/hog [B]"];
        assert_eq!(names[0], expected, "what is the same is drawn once");
    }

    #[test]
    fn what_is_the_same_but_for_its_times_is_drawn_once_with_them() {
        let with = latency("idle", "timer", true);
        let without = latency("idle", "timer", false);
        for documents in [[&with, &without], [&without, &with]] {
            let documents = documents.map(|document| parsed(document).expect("good"));
            let overlay = overlay(&documents).expect("good").expect("latencies");
            let figures = &overlay.groups[0].figures;
            assert_eq!(figures.len(), 3, "one of them a timeline");
            for figure in figures {
                let legend = figure.legend();
                assert_eq!((legend.len(), legend[0].series), (1, 0));
                assert_eq!(legend[0].name, "host/cpu0/idle [A B]");
            }
        }
    }

    #[test]
    fn neither_emulated_and_real_times_nor_clocks_are_mixed() {
        let real = latency("idle", "timer", false);
        let mut emulated = real.clone();
        emulated["machine"]["emulated"] = json!(true);
        let mut other = real.clone();
        other["results"][0]["conditions"]["clock"] = json!("instructions");
        let (titles, names) = laid(&[real, emulated, other]);
        let expected = [
            "timer | Clock: CLOCK_MONOTONIC. ",
            "timer | Clock: CLOCK_MONOTONIC; emulated time. ",
            "timer | Clock: instructions. ",
        ];
        let expected = expected.map(|kind| format!("{kind}memory locked: true."));
        assert_eq!(titles, expected);
        assert!(names.iter().all(|names| names.len() == 1));
    }

    #[test]
    fn overlay_groups_metrics_and_splits_many_lines() {
        let mut document = latency("idle", "timer", true);
        let one = document["results"][0].clone();
        let results = document["results"].as_array_mut().expect("a list");
        for cpu in 1..10 {
            let mut result = one.clone();
            result["case"] = json!(format!("host/cpu{cpu}/idle"));
            results.push(result);
        }
        let mut other = one.clone();
        other["metric"] = json!("futex_wake");
        results.push(other.clone());
        other["metric"] = json!("timer.outside");
        results.push(other);
        let (titles, names) = laid(&[document]);
        let titles: Vec<&str> = titles
            .iter()
            .filter_map(|title| title.split(" |").next())
            .collect();
        let expected = [
            "timer (1 of 2)",
            "timer (2 of 2)",
            "timer, outside",
            "futex wake",
        ];
        assert_eq!(titles, expected);
        let counts: Vec<usize> = names.iter().map(Vec::len).collect();
        assert_eq!(counts, [8, 2, 1, 1]);
        assert_eq!(
            names[0][0], "host/cpu0/idle",
            "no letter of a single document"
        );
    }

    #[test]
    fn overlay_draws_each_figure_with_its_table() {
        let documents = [
            latency("idle", "timer", true),
            latency("idle", "futex_wake", false),
        ];
        let documents = documents.map(|document| parsed(&document).expect("good"));
        let overlay = overlay(&documents).expect("good").expect("latencies");
        let counts: Vec<usize> = overlay
            .groups
            .iter()
            .map(|group| group.figures.len())
            .collect();
        assert_eq!(counts, [3, 2]);
        let untimed = overlay.untimed();
        let untimed: Vec<&str> = untimed.iter().map(|one| one.measures.as_str()).collect();
        assert_eq!(untimed, ["futex wake"]);
        for figure in overlay.groups.iter().flat_map(|group| &group.figures) {
            assert!(!figure.table().is_empty(), "{}", figure.title());
            for layout in LAYOUTS {
                let svg = figure.svg(&layout).expect("drawn");
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            }
        }
    }
}
