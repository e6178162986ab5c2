//! What a soak has counted, as a `hythe.result/1` document.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::args::SoakArguments;
use crate::document::{Machine, SCHEMA};
use crate::error::BenchError;
use crate::machine;

/// Counted while it runs.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) joins: u64,
    pub(super) departures: u64,
    pub(super) kills: u64,
    pub(super) audits: u64,
    pub(super) clearings: u64,
    pub(super) published: u64,
    pub(super) taken: u64,
    pub(super) refused: u64,
    pub(super) damaged: u64,
    pub(super) invalid: Option<String>,
    /// Up to a minute.
    recovery_us: Histogram<u64>,
}

impl Counts {
    pub(super) fn new() -> Result<Self, BenchError> {
        let unusable = |error: hdrhistogram::CreationError| BenchError::Invalid(error.to_string());
        Ok(Self {
            joins: 0,
            departures: 0,
            kills: 0,
            audits: 0,
            clearings: 0,
            published: 0,
            taken: 0,
            refused: 0,
            damaged: 0,
            invalid: None,
            recovery_us: Histogram::new_with_bounds(1, 60_000_000, 3).map_err(unusable)?,
        })
    }

    /// From the kill to the moment at which the record of the dead is free (and seen to be so).
    pub(super) fn recovered(&mut self, after: Duration) {
        let us = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        self.recovery_us.saturating_record(us);
    }
}

/// The document.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    bench: &'static str,
    command: String,
    commit: String,
    machine: Machine,
    results: Vec<Row>,
    pub(crate) conditions: Conditions,
}

const NS_PER_US: u64 = 1000;

/// One count (its `value`), or the times of one thing.
#[derive(Debug, Serialize)]
struct Row {
    case: &'static str,
    metric: &'static str,
    unit: &'static str,
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    times: Option<Times>,
}

#[derive(Debug, Serialize)]
struct Times {
    min: u64,
    p50: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

/// What the figures depend on, and whether they hold.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    minutes: f64,
    seed: u64,
    processes: usize,
    uncommitted: Option<bool>,
    load: [f64; 2],
    /// What went wrong; nothing, if it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invalid: Option<String>,
}

impl Report {
    pub(super) fn new(arguments: &SoakArguments, counts: Counts, minutes: f64, load: f64) -> Self {
        let damaged =
            (counts.damaged > 0).then(|| format!("{} messages arrived damaged", counts.damaged));
        let idle = (counts.taken == 0).then(|| "no message was taken".to_owned());
        let conditions = Conditions {
            minutes,
            seed: arguments.seed,
            processes: arguments.processes,
            uncommitted: machine::is_changed(),
            load: [load, machine::load()],
            invalid: counts.invalid.clone().or(damaged).or(idle),
        };
        Self {
            schema: SCHEMA,
            bench: "soak",
            command: machine::command(),
            commit: machine::commit(),
            machine: machine::describe(),
            results: rows(&counts),
            conditions,
        }
    }
}

fn rows(counts: &Counts) -> Vec<Row> {
    let plain = |case, metric, count: u64| Row {
        case,
        metric,
        unit: "1",
        count: 1,
        value: Some(count as f64),
        times: None,
    };
    let times = &counts.recovery_us;
    let mut rows = vec![
        plain("processes", "joined", counts.joins),
        plain("processes", "left in good order", counts.departures),
        plain("processes", "killed", counts.kills),
        plain("messages", "delivered", counts.published),
        plain(
            "messages",
            "taken, and whole",
            counts.taken - counts.damaged,
        ),
        plain("messages", "taken damaged", counts.damaged),
        plain("calls", "refused: full, busy, blocked", counts.refused),
        plain(
            "ledger",
            "audits that add up, while all work",
            counts.audits,
        ),
        plain("ledger", "all killed, all free again", counts.clearings),
    ];
    rows.push(Row {
        case: "recovery",
        metric: "from the kill to a free record",
        unit: "ns",
        count: times.len(),
        value: None,
        times: Some(Times {
            min: times.min() * NS_PER_US,
            p50: times.value_at_quantile(0.5) * NS_PER_US,
            p99: times.value_at_quantile(0.99) * NS_PER_US,
            p999: times.value_at_quantile(0.999) * NS_PER_US,
            max: times.max() * NS_PER_US,
        }),
    });
    rows
}
