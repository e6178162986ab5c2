//! What the boots showed, as a `hythe.result/1` document.
//!
//! Never mends a figure.

use serde::Serialize;

use super::board;
use super::case::Way;
use super::scene::Scene;
use super::series::Series;
use super::{Scale, ratios};
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

impl Row {
    pub(super) fn board(&self) -> &str {
        &self.conditions.board
    }
}

/// What this row depends on, and what was seen beside the times.
#[derive(Debug, Default, Serialize)]
pub(super) struct RowConditions {
    /// The machine and its storage.
    board: String,
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
    /// The same read once more in the same boots, the fastest: the pages are cold, but the file
    /// system knows the file already.
    #[serde(skip_serializing_if = "Option::is_none")]
    again_ns: Option<u128>,
    /// How long the disk had requests under way meanwhile: the median. The rest of the time is all
    /// that reading ahead can save.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_busy_ns: Option<f64>,
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
    /// Cases left out, and why.
    pub(super) skipped: Vec<String>,
    /// Why the figures are not to be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invalid: Option<String>,
}

impl Report {
    pub(super) fn new(scale: &Scale, scene: Scene, load_before: f64) -> Result<Self, BenchError> {
        let Scene {
            series,
            recorded,
            failures,
            skipped,
            ..
        } = scene;
        let invalid = (!failures.is_empty()).then(|| {
            let why = failures.join("; ");
            format!("not all boots came to their end: {why}")
        });
        let mut machine = machine::describe();
        machine.emulated = true;
        let conditions = Conditions {
            emulated: true,
            kernel: series.iter().find_map(Series::kernel).map(str::to_owned),
            content: "random bytes, which do not compress",
            boots: scale.boots,
            uncommitted: machine::is_changed(),
            load: [load_before, machine::load()],
            failures,
            skipped,
            invalid,
        };
        let mut results = series.iter().map(times).collect::<Result<Vec<_>, _>>()?;
        results.extend(series.iter().filter_map(raw_rate));
        results.extend(ratios::pairs(&series, Way::Plain, Way::Preload).map(saved));
        Ok(Self {
            schema: SCHEMA,
            bench: "preload",
            command: machine::command(),
            commit: machine::commit(),
            machine,
            results,
            ratios: ratios::of(&series, &recorded),
            conditions,
        })
    }
}

fn times(series: &Series) -> Result<Row, BenchError> {
    let histogram = [series.histogram()];
    // Of a real program nobody counts pages; the bound is not preceded by anything that could have
    // loaded some.
    let is_of_file = !series.way.is_of_application();
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
            board: board::describe(series.file_system),
            emulated: true,
            load: if series.way == Way::Bound {
                "idle"
            } else {
                "one process that spins"
            },
            pages: Some(pages),
            resident_at_start: series.resident_at_start().filter(|_| is_of_file),
            resident_before_use: series.resident_before_use().filter(|_| is_of_file),
            guest_read_ns: is_of_file.then(|| series.guest_median()),
            again_ns: series.fastest_again().map(|time| time.as_nanos()),
            disk_busy_ns: series.disk_busy(),
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
            board: board::describe(series.file_system),
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
            value: ratios::saved((plain, preload)),
        },
        conditions: RowConditions {
            board: board::describe(plain.file_system),
            emulated: true,
            load: "one process that spins",
            paper_ns: paper.map(|(_, ns)| *ns),
            ..RowConditions::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::FileSystem;
    use super::super::series::tests::series;
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn boot_that_failed_makes_the_document_invalid() {
        let scale = Scale {
            file_systems: vec![FileSystem::Ubifs],
            boots: 1,
            sizes: vec![MIB],
            ways: vec![Way::Plain],
        };
        let made = |failures| {
            let scene = Scene {
                series: vec![series(Way::Plain, MIB, &[1000])],
                failures,
                ..Scene::default()
            };
            Report::new(&scale, scene, 0.0).expect("made")
        };
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
