//! What the boots showed, as a `hythe.result/1` document.
//!
//! Differences are given by the *spread*: the larger of the two ranges from the fastest boot to the slowest. Never mends a figure.

use serde::Serialize;

use super::Scale;
use super::board;
use super::case::{FileSystem, Way};
use super::error::BootError;
use super::series::Series;
use crate::document::{Figures, Machine, Ratio, SCHEMA};
use crate::error::BenchError;
use crate::{machine, statistics};

/// What the paper's board saved (ARM11 at 533 MHz, SLC NAND of about 2 MB/s), by size.
const PAPER_SAVED_NS: [(usize, f64); 2] = [(1 << 20, 0.29e9), (4 << 20, 1.65e9)];

/// The document.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    bench: &'static str,
    pub(super) command: String,
    commit: String,
    pub(super) machine: Machine,
    pub(super) results: Vec<Row>,
    pub(super) ratios: Vec<Ratio>,
    pub(crate) conditions: Conditions,
}

/// One figure, or the times of one case at one size.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) case: String,
    pub(super) size_bytes: usize,
    pub(super) metric: &'static str,
    pub(super) unit: &'static str,
    /// Boots.
    pub(super) count: u64,
    #[serde(flatten)]
    pub(super) figures: Figures,
    pub(super) conditions: RowConditions,
}

/// What this row depends on, and what was seen beside the times.
#[derive(Debug, Default, Serialize)]
pub(super) struct RowConditions {
    emulated: bool,
    /// What runs beside the test.
    load: &'static str,
    /// Pages of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pages: Option<u64>,
    /// The fewest of them in memory when the real init began, over all boots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resident_at_start: Option<u64>,
    /// The same, when the test program began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resident_before_use: Option<u64>,
    /// The reading alone, on the board's own clock: the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    guest_read_ns: Option<f64>,
    /// The same read once more in the same boots, the fastest: the pages are cold, but the file system knows the file already.
    #[serde(skip_serializing_if = "Option::is_none")]
    again_ns: Option<u128>,
    /// Each boot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    samples_ns: Vec<u64>,
    /// What `preload-init` said in the last boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<String>,
    /// The paper's figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paper_ns: Option<f64>,
}

/// What all figures depend on, and whether they hold.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    pub(super) emulated: bool,
    pub(super) board: String,
    pub(super) file_system: String,
    /// The board's, not this machine's.
    pub(super) kernel: Option<String>,
    /// What the file is made of.
    content: &'static str,
    boots: u32,
    uncommitted: Option<bool>,
    /// Load of this machine in the minute before, and in the last minute of the run.
    pub(super) load: [f64; 2],
    /// Boots that came to nothing.
    pub(super) failures: Vec<String>,
    /// Why the figures are not to be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invalid: Option<String>,
}

impl Report {
    pub(super) fn new(
        file_system: FileSystem,
        scale: &Scale,
        series: &[Series],
        failures: Vec<String>,
        load_before: f64,
    ) -> Result<Self, BenchError> {
        let invalid = (!failures.is_empty()).then(|| {
            format!(
                "{} boots came to nothing: {}",
                failures.len(),
                failures.join("; ")
            )
        });
        let mut machine = machine::describe();
        machine.emulated = true;
        let conditions = Conditions {
            emulated: true,
            board: board::describe(file_system),
            file_system: file_system.to_string(),
            kernel: series.iter().find_map(Series::kernel).map(str::to_owned),
            content: "random bytes, which do not compress",
            boots: scale.boots,
            uncommitted: machine::is_changed(),
            load: [load_before, machine::load()],
            failures,
            invalid,
        };
        let mut results = series.iter().map(times).collect::<Result<Vec<_>, _>>()?;
        results.extend(series.iter().filter_map(raw_rate));
        results.extend(pairs(series, Way::Plain, Way::Preload).map(saved));
        Ok(Self {
            schema: SCHEMA,
            bench: "preload",
            command: machine::command(),
            commit: machine::commit(),
            machine,
            results,
            ratios: ratios(series),
            conditions,
        })
    }
}

fn times(series: &Series) -> Result<Row, BenchError> {
    let histogram = [series.histogram()];
    let watched = series.way.reads_ahead() || series.way == Way::Plain;
    let pages = (series.size as u64).div_ceil(hythe_preload::pack::PAGE_BYTES);
    let samples = series.times().into_iter();
    Ok(Row {
        case: series.to_string(),
        size_bytes: series.size,
        metric: "start_to_finish",
        unit: "ns",
        count: series.boots(),
        figures: Figures::Times {
            percentiles: series.percentiles(),
            histogram: statistics::encode(&histogram)?,
        },
        conditions: RowConditions {
            emulated: true,
            load: if series.way == Way::Bound {
                "idle"
            } else {
                "one process that spins"
            },
            pages: Some(pages),
            resident_at_start: series.resident_at_start().filter(|_| watched),
            resident_before_use: series.resident_before_use(),
            guest_read_ns: Some(series.guest_median()),
            again_ns: series.fastest_again().map(|time| time.as_nanos()),
            samples_ns: samples
                .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
                .collect(),
            said: series.said().map(str::to_owned),
            paper_ns: None,
        },
    })
}

/// The rate of the bare flash, which the bound measures by the way.
fn raw_rate(series: &Series) -> Option<Row> {
    Some(Row {
        case: format!("raw/{}", series.file_system),
        size_bytes: series.size,
        metric: "rate",
        unit: "B/s",
        count: series.boots(),
        figures: Figures::Value {
            value: series.raw_rate()?,
        },
        conditions: RowConditions {
            emulated: true,
            load: "idle",
            ..RowConditions::default()
        },
    })
}

/// The paper's figure, and ours.
fn saved((plain, preload): (&Series, &Series)) -> Row {
    let paper = PAPER_SAVED_NS.iter().find(|(size, _)| *size == plain.size);
    Row {
        case: preload.to_string(),
        size_bytes: plain.size,
        metric: "saved",
        unit: "ns",
        count: plain.boots().min(preload.boots()),
        figures: Figures::Value {
            value: plain.median() - preload.median(),
        },
        conditions: RowConditions {
            emulated: true,
            load: "one process that spins",
            paper_ns: paper.map(|(_, ns)| *ns),
            ..RowConditions::default()
        },
    }
}

/// Two ways, at each size that has both.
fn pairs(series: &[Series], one: Way, other: Way) -> impl Iterator<Item = (&Series, &Series)> {
    let of = move |way: Way| series.iter().filter(move |series| series.way == way);
    of(one).filter_map(move |one| Some((one, of(other).find(|other| other.size == one.size)?)))
}

fn ratios(series: &[Series]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    let mut push = |name: String, size_bytes, value| {
        ratios.push(Ratio {
            name,
            size_bytes,
            value,
        })
    };
    for (plain, preload) in pairs(series, Way::Plain, Way::Preload) {
        push(
            "plain/preload".to_owned(),
            plain.size,
            plain.median() / preload.median(),
        );
        push(
            "plain-preload by spread".to_owned(),
            plain.size,
            by_spread(plain, preload),
        );
    }
    let saved: Vec<(usize, f64)> = pairs(series, Way::Plain, Way::Preload)
        .map(|(plain, preload)| (plain.size, plain.median() - preload.median()))
        .collect();
    for step in saved.windows(2) {
        let name = "saved by saved at the size before".to_owned();
        push(name, step[1].0, step[1].1 / step[0].1);
    }
    for (preload, bound) in pairs(series, Way::Preload, Way::Bound) {
        push(
            "preload/bound".to_owned(),
            preload.size,
            preload.median() / bound.fastest(),
        );
    }
    for peer in [Way::Readahead, Way::Vmtouch] {
        for (peer, preload) in pairs(series, peer, Way::Preload) {
            push(
                format!("{}/preload", peer.way),
                peer.size,
                peer.median() / preload.median(),
            );
            push(
                format!("{}-preload by spread", peer.way),
                peer.size,
                by_spread(peer, preload),
            );
        }
    }
    for (plain, budget) in pairs(series, Way::Plain, Way::Budget) {
        push(
            "plain-budget by spread".to_owned(),
            plain.size,
            by_spread(plain, budget),
        );
    }
    for way in [Way::Preload, Way::Budget] {
        for series in series.iter().filter(|series| series.way == way) {
            // Nothing read ahead, nothing kept: that falls short, too.
            push(
                format!("pages kept until use, {way}"),
                series.size,
                series.kept().unwrap_or(0.0),
            );
        }
    }
    ratios.retain(|ratio| ratio.value.is_finite());
    ratios
}

/// How much longer the first takes, by the larger of the two ranges.
fn by_spread(slower: &Series, faster: &Series) -> f64 {
    (slower.median() - faster.median()) / slower.range().max(faster.range())
}

impl From<BootError> for BenchError {
    fn from(error: BootError) -> Self {
        Self::Boot(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::bars;
    use super::super::series::tests::{outcome, series};
    use super::*;

    const MIB: usize = 1 << 20;

    fn ratio(series: &[Series], name: &str, size: usize) -> f64 {
        let ratios = ratios(series);
        let found = ratios
            .iter()
            .find(|ratio| ratio.name == name && ratio.size_bytes == size);
        found
            .unwrap_or_else(|| panic!("no {name} in {ratios:?}"))
            .value
    }

    #[test]
    fn differences_are_measured_by_the_larger_range() {
        let all = [
            series(Way::Plain, MIB, &[1000, 1100, 1050]),
            series(Way::Preload, MIB, &[600, 540, 550]),
        ];
        // 1050 - 550 by 100.
        assert_eq!(ratio(&all, "plain-preload by spread", MIB), 5.0);
        assert!((ratio(&all, "plain/preload", MIB) - 1050.0 / 550.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_saved_is_compared_with_the_size_before() {
        let all = [
            series(Way::Plain, MIB, &[1000]),
            series(Way::Preload, MIB, &[500]),
            series(Way::Plain, 2 * MIB, &[2000]),
            series(Way::Preload, 2 * MIB, &[1000]),
        ];
        assert_eq!(
            ratio(&all, "saved by saved at the size before", 2 * MIB),
            2.0
        );
    }

    #[test]
    fn the_bound_is_the_fastest_read_and_the_bar_stands_from_two_mib_up() {
        let all = [
            series(Way::Preload, 2 * MIB, &[1000, 1150, 1200]),
            series(Way::Bound, 2 * MIB, &[1000, 1200, 1100]),
        ];
        assert!((ratio(&all, "preload/bound", 2 * MIB) - 1.15).abs() < 1e-9);
        let bar = |size_bytes| {
            let name = "preload/bound".to_owned();
            bars::of_ratio(&Ratio {
                name,
                size_bytes,
                value: 1.0,
            })
        };
        assert_eq!(bar(MIB), None);
        assert!(bar(2 * MIB).is_some_and(|bar| bar.is_met_by(1.15) && !bar.is_met_by(1.16)));
    }

    #[test]
    fn nothing_read_ahead_misses_the_bar() {
        let mut budget = Series::new(FileSystem::Ubifs, Way::Budget, MIB);
        budget.add(outcome(&[1], 0, 0));
        assert_eq!(ratio(&[budget], "pages kept until use, budget", MIB), 0.0);
    }

    #[test]
    fn a_boot_that_failed_makes_the_document_invalid() {
        let scale = Scale {
            boots: 1,
            sizes: vec![MIB],
            ways: vec![Way::Plain],
        };
        let all = [series(Way::Plain, MIB, &[1000])];
        let made =
            |failures| Report::new(FileSystem::Ubifs, &scale, &all, failures, 0.0).expect("made");
        assert_eq!(made(Vec::new()).conditions.invalid, None);
        let report = made(vec!["plain/ubifs: hangs".to_owned()]);
        assert!(
            report
                .conditions
                .invalid
                .is_some_and(|why| why.contains("hangs"))
        );
        assert!(report.machine.emulated);
    }
}
