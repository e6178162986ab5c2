//! What the rounds of pairs showed, as a `hythe.result/1` document, and for people.

use std::fmt::Write;

use clap::ValueEnum as _;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::first_touch::{BYTES, Touched};
use super::ground::System;
use super::payload::Payload;
use super::{Case, Placement, Series};
use crate::bar::Bar;
use crate::document::{Figures, Machine, Measurement, Percentiles, Pinned, Ratio, SCHEMA};
use crate::error::BenchError;
use crate::{machine, statistics};

/// The document.
#[derive(Debug, Serialize)]
pub(crate) struct PairReport {
    schema: &'static str,
    bench: &'static str,
    command: String,
    commit: String,
    machine: Machine,
    results: Vec<Measurement>,
    ratios: Vec<Ratio>,
    pub(crate) conditions: Conditions,
}

/// What all figures depend on.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    #[serde(flatten)]
    cpus: Pinned,
    rounds: u32,
    /// Whether this program was compiled without optimisation: then it measures its own loops.
    unoptimised: bool,
    uncommitted: Option<bool>,
    load: [f64; 2],
    skipped: Vec<String>,
    /// Why the figures are not to be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invalid: Option<String>,
}

/// From what size on two CPUs are to be faster, and by how much.
const AIM: (usize, Bar) = (1 << 20, Bar::AtLeast(1.4));

impl PairReport {
    pub(super) fn new(
        (series, (touched, skipped)): (Vec<Series>, (Vec<Touched>, Vec<String>)),
        (cpus, rounds, load): ([usize; 2], u32, [f64; 2]),
        invalid: Option<String>,
    ) -> Result<Self, BenchError> {
        let pairs = series.iter().map(|series| {
            let pinned = match series.case.placement {
                Placement::OneCpu => vec![cpus[0], cpus[0]],
                Placement::TwoCpus => cpus.to_vec(),
            };
            let of = (series.case.to_string(), series.size, "message");
            measurement(of, &series.rounds, pinned)
        });
        let touches = touched.iter().map(|touched| {
            let of = (touched.to_string(), BYTES, "page");
            measurement(of, &touched.rounds, vec![cpus[0]])
        });
        Ok(Self {
            schema: SCHEMA,
            bench: "core",
            command: machine::command(),
            commit: machine::commit(),
            machine: machine::describe(),
            results: pairs.chain(touches).collect::<Result<_, _>>()?,
            ratios: ratios(&series),
            conditions: Conditions {
                cpus: Pinned {
                    pinned: cpus.to_vec(),
                },
                rounds,
                unoptimised: cfg!(debug_assertions),
                uncommitted: machine::is_changed(),
                load,
                skipped,
                invalid,
            },
        })
    }
}

fn measurement(
    (case, size_bytes, metric): (String, usize, &'static str),
    rounds: &[Histogram<u64>],
    pinned: Vec<usize>,
) -> Result<Measurement, BenchError> {
    Ok(Measurement {
        case,
        size_bytes,
        metric,
        unit: "ns",
        count: rounds.iter().map(Histogram::len).sum(),
        figures: Figures::Times {
            percentiles: statistics::percentiles(rounds),
            histogram: statistics::encode(rounds)?,
        },
        conditions: Pinned { pinned },
    })
}

/// How many times as long a message takes on one CPU.
fn ratios(series: &[Series]) -> Vec<Ratio> {
    let medians = |series: &Series| -> Vec<f64> {
        let rounds = series.rounds.iter();
        rounds
            .map(|round| round.value_at_quantile(0.5) as f64)
            .collect()
    };
    let mut ratios = Vec::new();
    for two in series
        .iter()
        .filter(|one| one.case.placement == Placement::TwoCpus)
    {
        let case = Case {
            placement: Placement::OneCpu,
            ..two.case
        };
        let one = series
            .iter()
            .find(|one| one.case == case && one.size == two.size);
        ratios.extend(one.map(|one| Ratio {
            name: name(two.case),
            size_bytes: two.size,
            value: statistics::paired_ratio(&medians(one), &medians(two)),
        }));
    }
    ratios
}

fn name(case: Case) -> String {
    format!("{} {} one CPU/two CPUs p50", case.system, case.payload)
}

/// The bound of a ratio: for payloads that both sides compute.
fn bar_of(ratio: &Ratio) -> Option<Bar> {
    let mut cases = System::value_variants().iter().map(|&system| Case {
        system,
        placement: Placement::TwoCpus,
        payload: Payload::Computed,
    });
    let is_computed = cases.any(|case| name(case) == ratio.name);
    (is_computed && ratio.size_bytes == AIM.0).then_some(AIM.1)
}

pub(crate) fn render(report: &PairReport) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut out, report);
    out
}

fn write_all(out: &mut String, report: &PairReport) -> std::fmt::Result {
    let (machine, conditions) = (&report.machine, &report.conditions);
    writeln!(
        out,
        "{} on {} ({} CPUs, Linux {})",
        report.command, machine.cpu, machine.cpus, machine.kernel
    )?;
    writeln!(
        out,
        "CPUs {:?}, {} rounds, load {:.1} to {:.1}",
        conditions.cpus.pinned, conditions.rounds, conditions.load[0], conditions.load[1]
    )?;
    if conditions.unoptimised {
        writeln!(out, "compiled without optimisation: figures mean nothing")?;
    }
    for skipped in &conditions.skipped {
        writeln!(out, "skipped: {skipped}")?;
    }
    writeln!(
        out,
        "\n{:<28}{:>9}{:>12}{:>12}{:>12}{:>9}",
        "case, ns by message or page", "bytes", "min", "p50", "p99", "count"
    )?;
    for row in &report.results {
        let Figures::Times { percentiles, .. } = &row.figures else {
            continue;
        };
        let Percentiles { min, p50, p99, .. } = percentiles;
        let (case, bytes, count) = (&row.case, row.size_bytes, row.count);
        writeln!(
            out,
            "{case:<28}{bytes:>9}{min:>12}{p50:>12}{p99:>12}{count:>9}"
        )?;
    }
    writeln!(out, "\n{:<44}{:>9}{:>9}", "ratio", "bytes", "value")?;
    for ratio in &report.ratios {
        let wanted = match bar_of(ratio) {
            None => String::new(),
            Some(bar) if bar.is_met_by(ratio.value) => format!("  {bar}"),
            Some(bar) => format!("  {bar}: MISSED"),
        };
        let (name, bytes, value) = (&ratio.name, ratio.size_bytes, ratio.value);
        writeln!(out, "{name:<44}{bytes:>9}{value:>9.2}{wanted}")?;
    }
    Ok(())
}
