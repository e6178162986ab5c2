//! Times by case and size over the rounds, as a `hythe.result/1` document, and for people: what
//! comparisons have in common that are no table of their own.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::bar::{Bar, verdict};
use crate::document::{Figures, Machine, Measurement, Percentiles, Ratio, SCHEMA, Steady};
use crate::error::BenchError;
use crate::others::SHARE_MAX;
use crate::{machine, statistics};

/// All rounds of a case at a size.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) case: String,
    pub(crate) size: usize,
    pub(crate) metric: &'static str,
    pub(crate) rounds: Vec<Histogram<u64>>,
    pub(crate) place: Place,
    /// Of each message, where they are known.
    pub(crate) kernel_copies: Option<u32>,
    /// The same.
    pub(crate) steady: Option<Steady>,
}

/// Where the sides of a case ran.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Place {
    /// Their CPUs, one number twice where they shared it.
    pub(crate) pinned: Vec<usize>,
    /// Whose core is one of the sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) board: Option<String>,
    pub(crate) emulated: bool,
}

impl Place {
    /// Of a case without a core.
    pub(crate) fn on(cpus: &[usize]) -> Self {
        Self {
            pinned: cpus.to_vec(),
            ..Self::default()
        }
    }
}

/// How it was measured.
#[derive(Debug)]
pub(crate) struct RunConditions {
    pub(crate) cpus: [usize; 2],
    pub(crate) rounds: u32,
    pub(crate) load_before: f64,
    /// Of the time of the CPUs, what others had.
    pub(crate) others: f64,
    pub(crate) skipped: Vec<String>,
    /// What the cases themselves say against their figures.
    pub(crate) objection: Option<String>,
}

/// What it is called, and what people see of it beside the figures.
#[derive(Debug)]
pub(crate) struct Labels {
    /// The scenario.
    pub(crate) bench: &'static str,
    /// Above the column of cases.
    pub(crate) cases: &'static str,
    pub(crate) bar_of: fn(&Ratio) -> Option<Bar>,
}

/// The document.
#[derive(Debug, Serialize)]
pub(crate) struct TimesReport {
    schema: &'static str,
    bench: &'static str,
    command: String,
    commit: String,
    machine: Machine,
    pub(crate) results: Vec<Measurement<Place>>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) conditions: Conditions,
    #[serde(skip)]
    labels: Labels,
}

/// What all figures depend on.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    pinned: [usize; 2],
    rounds: u32,
    /// Whether this program was compiled without optimisation: then it measures its own loops.
    unoptimised: bool,
    uncommitted: Option<bool>,
    load: [f64; 2],
    /// Of the time of the CPUs, what others had.
    others: f64,
    skipped: Vec<String>,
    /// Why the figures are not to be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invalid: Option<String>,
}

impl Times {
    /// The median time of each round, which ratios are made of.
    pub(crate) fn medians(&self) -> Vec<f64> {
        let median = |round: &Histogram<u64>| round.value_at_quantile(0.5) as f64;
        self.rounds.iter().map(median).collect()
    }

    /// The samples of all rounds as those of one.
    pub(crate) fn into_one_round(self) -> Result<Self, BenchError> {
        Ok(Self {
            rounds: vec![statistics::sum(&self.rounds)?],
            ..self
        })
    }

    fn measurement(&self) -> Result<Measurement<Place>, BenchError> {
        Ok(Measurement {
            case: self.case.clone(),
            size_bytes: self.size,
            metric: self.metric,
            unit: "ns",
            count: self.rounds.iter().map(Histogram::len).sum(),
            figures: Figures::Times {
                percentiles: statistics::percentiles(&self.rounds),
                histogram: statistics::encode(&self.rounds)?,
            },
            kernel_copies: self.kernel_copies,
            steady: self.steady,
            conditions: self.place.clone(),
        })
    }
}

/// The rows of a document.
pub(crate) fn of_document(times: &[Times]) -> Result<Vec<Measurement<Place>>, BenchError> {
    times.iter().map(Times::measurement).collect()
}

impl TimesReport {
    /// Figures of CPUs that others used are shown, and not valid.
    pub(crate) fn new(
        results: Vec<Measurement<Place>>,
        ratios: Vec<Ratio>,
        run: RunConditions,
        labels: Labels,
    ) -> Self {
        let invalid = run.invalid();
        Self {
            schema: SCHEMA,
            bench: labels.bench,
            command: machine::command(),
            commit: machine::commit(),
            machine: machine::describe(),
            results,
            ratios,
            conditions: Conditions {
                pinned: run.cpus,
                rounds: run.rounds,
                unoptimised: cfg!(debug_assertions),
                uncommitted: machine::is_changed(),
                load: [run.load_before, machine::load()],
                others: run.others,
                skipped: run.skipped,
                invalid,
            },
            labels,
        }
    }
}

impl RunConditions {
    fn invalid(&self) -> Option<String> {
        let others = (self.others > SHARE_MAX).then(|| {
            format!(
                "others used {:.0} % of CPUs {:?} meanwhile, {:.0} % are the limit: what is \
                 compared suffers differently; run it on a quiet machine",
                self.others * 100.0,
                self.cpus,
                SHARE_MAX * 100.0
            )
        });
        let reasons: Vec<String> = others.into_iter().chain(self.objection.clone()).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// For people.
pub(crate) fn render(report: &TimesReport) -> String {
    rendered(report, |row| row.case.clone())
}

/// The same where a case has several metrics.
pub(crate) fn render_with_metrics(report: &TimesReport) -> String {
    rendered(report, |row| format!("{} {}", row.case, row.metric))
}

fn rendered(report: &TimesReport, name: fn(&Measurement<Place>) -> String) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut out, report, name);
    out
}

fn write_all(
    out: &mut String,
    report: &TimesReport,
    name: fn(&Measurement<Place>) -> String,
) -> std::fmt::Result {
    write_head(out, report)?;
    let names = report.results.iter().map(name);
    let width = names.map(|name| name.len() + 1).max().unwrap_or(0).max(29);
    writeln!(
        out,
        "\n{:<width$}{:>9}{:>12}{:>12}{:>12}{:>9}",
        report.labels.cases, "bytes", "min", "p50", "p99", "count"
    )?;
    for row in &report.results {
        let Figures::Times { percentiles, .. } = &row.figures else {
            continue;
        };
        let Percentiles { min, p50, p99, .. } = percentiles;
        let (case, bytes, count) = (name(row), row.size_bytes, row.count);
        writeln!(
            out,
            "{case:<width$}{bytes:>9}{min:>12}{p50:>12}{p99:>12}{count:>9}"
        )?;
    }
    write_ratios(out, report)
}

/// Each with what is wanted of it.
pub(crate) fn write_ratios(out: &mut String, report: &TimesReport) -> std::fmt::Result {
    writeln!(out, "\n{:<54}{:>9}{:>9}", "ratio", "bytes", "value")?;
    for ratio in &report.ratios {
        let wanted = verdict((report.labels.bar_of)(ratio), ratio.value);
        let (name, bytes, value) = (&ratio.name, ratio.size_bytes, ratio.value);
        writeln!(out, "{name:<54}{bytes:>9}{value:>9.2}{wanted}")?;
    }
    Ok(())
}

/// What was measured where, and what stood in the way.
pub(crate) fn write_head(out: &mut String, report: &TimesReport) -> std::fmt::Result {
    let (machine, conditions) = (&report.machine, &report.conditions);
    writeln!(
        out,
        "{} on {} ({} CPUs, Linux {})",
        report.command, machine.cpu, machine.cpus, machine.kernel
    )?;
    let mut boards = report
        .results
        .iter()
        .filter(|row| row.conditions.emulated)
        .filter_map(|row| row.conditions.board.as_deref());
    if let Some(board) = boards.next() {
        writeln!(
            out,
            "board {board}, EMULATED: rows with it say nothing about hardware"
        )?;
    }
    writeln!(
        out,
        "CPUs {:?}, {} rounds, load {:.1} to {:.1}, others had {:.1} % of them",
        conditions.pinned,
        conditions.rounds,
        conditions.load[0],
        conditions.load[1],
        conditions.others * 100.0
    )?;
    if conditions.unoptimised {
        writeln!(out, "compiled without optimisation: figures mean nothing")?;
    }
    for skipped in &conditions.skipped {
        writeln!(out, "skipped: {skipped}")?;
    }
    Ok(())
}
