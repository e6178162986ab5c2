//! The document for people, with the paper's figures beside ours.

use std::fmt::Write;

use crate::document::Figures;
use crate::times::{TimesReport, write_head, write_ratios};

/// Of the paper on memory shared between the cores of a dual-core system.
const PAPER: &str = "\
the paper's figure is the synchronisation error of a frame: 0.019 s before its improvement and
0.024 s after, which it calls \"10 % or more better\" (MP2530F, 2010; for orientation: another
machine, and what is better about the second figure is not said)";

pub(crate) fn render(report: &TimesReport) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut out, report);
    out
}

fn write_all(out: &mut String, report: &TimesReport) -> std::fmt::Result {
    write_head(out, report)?;
    writeln!(
        out,
        "\n{:<16}{:<14}{:>12}{:>12}{:>12}{:>12}{:>12}{:>8}",
        "player, ns", "metric", "min", "p50", "p99", "p99.9", "max", "count"
    )?;
    for row in &report.results {
        let (case, metric, count) = (&row.case, row.metric, row.count);
        match &row.figures {
            Figures::Times { percentiles, .. } => writeln!(
                out,
                "{case:<16}{metric:<14}{:>12}{:>12}{:>12}{:>12}{:>12}{count:>8}",
                percentiles.min,
                percentiles.p50,
                percentiles.p99,
                percentiles.p999,
                percentiles.max
            )?,
            Figures::Value { value } => {
                writeln!(out, "{case:<16}{metric:<14}{value:>12} of {count} frames")?;
            }
        }
    }
    writeln!(out, "\n{PAPER}")?;
    write_ratios(out, report)
}
