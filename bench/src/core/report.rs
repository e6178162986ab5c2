//! What the rounds showed, as a `hythe.result/1` document.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::case::{Rings, System};
use super::series::Series;
use super::sharing::{SIZE, Shared};
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
    /// Which way the rings of both sides went.
    pub(super) rings: Rings,
    /// Linux ports on each channel that is measured, and cores at once.
    pub(super) ports: usize,
    pub(super) cores: usize,
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
        (series, shared): (&[Series], &[Shared]),
        ratios: Vec<Ratio>,
        conditions: Conditions,
    ) -> Result<Self, BenchError> {
        let mut machine = machine::describe();
        machine.emulated = conditions.place.emulated;
        let place = &conditions.place;
        let rows = series.iter().map(|series| row(series, place));
        let shared = shared.iter().flat_map(|shared| shared_rows(shared, place));
        Ok(Self {
            schema: SCHEMA,
            bench: "core",
            command: machine::command(),
            commit: machine::commit(),
            machine,
            results: rows.chain(shared).collect::<Result<_, _>>()?,
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
        conditions: Place {
            rings: match series.case.system {
                System::Agent => Rings::Agent,
                System::Hythe | System::Copy => place.rings,
            },
            ..place.clone()
        },
    })
}

/// The round trips and the rate.
fn shared_rows(shared: &Shared, place: &Place) -> [Result<Row, BenchError>; 2] {
    let of = shared.of;
    let row = |metric, unit, count, figures| Row {
        case: of.case().to_string(),
        size_bytes: SIZE,
        metric,
        unit,
        count,
        figures,
        conditions: Place {
            ports: of.ports,
            cores: of.cores,
            ..place.clone()
        },
    };
    let count = shared.round_trips.iter().map(Histogram::len).sum();
    let times = statistics::encode(&shared.round_trips).map(|histogram| Figures::Times {
        percentiles: statistics::percentiles(&shared.round_trips),
        histogram,
    });
    let rate = Figures::Value {
        value: statistics::median(shared.rates.clone()),
    };
    let rounds = shared.rates.len() as u64;
    [
        times.map(|times| row("round_trip", "ns", count, times)),
        Ok(row("rate", "msg/s", rounds, rate)),
    ]
}
