//! What the rounds showed, as a `hythe.result/1` document.

use serde::Serialize;

use super::series::Series;
use crate::document::{Figures, Machine, Ratio, SCHEMA};
use crate::error::BenchError;
use crate::{machine, statistics};

/// The document.
#[derive(Debug, Serialize)]
pub(crate) struct CoreReport {
    pub(super) schema: &'static str,
    pub(super) bench: &'static str,
    pub(super) command: String,
    pub(super) commit: String,
    pub(super) machine: Machine,
    pub(super) results: Vec<Row>,
    pub(super) ratios: Vec<Ratio>,
    pub(crate) conditions: Conditions,
}

/// One case at one size.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) case: String,
    pub(super) size_bytes: usize,
    pub(super) metric: &'static str,
    pub(super) unit: &'static str,
    /// Samples of all rounds.
    pub(super) count: u64,
    #[serde(flatten)]
    pub(super) figures: Figures,
    pub(super) conditions: Place,
}

/// Where the two sides were.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Place {
    pub(super) board: String,
    pub(super) emulated: bool,
    /// The CPUs of this side and of the core's process; empty where the machine has only one.
    pub(super) pinned: Vec<usize>,
}

/// What all figures depend on.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    #[serde(flatten)]
    pub(super) place: Place,
    pub(super) rounds: u32,
    /// Whether this program was compiled without optimisation: then its copies are slow.
    pub(super) unoptimised: bool,
    /// Whether the sources differ from the commit, if known.
    pub(super) uncommitted: Option<bool>,
    /// Load of this machine in the minute before, and in the last minute of the run.
    pub(super) load: [f64; 2],
    /// What one reading of the clock costs; it is part of each time.
    pub(super) clock_ns: u64,
    /// Cases left out, and why.
    pub(super) skipped: Vec<String>,
}

impl CoreReport {
    pub(super) fn new(
        series: &[Series],
        ratios: Vec<Ratio>,
        conditions: Conditions,
    ) -> Result<Self, BenchError> {
        let mut machine = machine::describe();
        machine.emulated = conditions.place.emulated;
        let rows = series.iter().map(|series| row(series, &conditions.place));
        Ok(Self {
            schema: SCHEMA,
            bench: "core",
            command: machine::command(),
            commit: machine::commit(),
            machine,
            results: rows.collect::<Result<_, _>>()?,
            ratios,
            conditions,
        })
    }
}

fn row(series: &Series, place: &Place) -> Result<Row, BenchError> {
    Ok(Row {
        case: series.case.to_string(),
        size_bytes: series.size,
        metric: "round_trip",
        unit: "ns",
        count: series.count(),
        figures: Figures::Times {
            percentiles: statistics::percentiles(&series.rounds),
            histogram: statistics::encode(&series.rounds)?,
        },
        conditions: place.clone(),
    })
}
