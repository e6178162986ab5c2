//! The document for people: seconds, pages, and what was wanted.

use std::fmt::Write;

use super::bars;
use super::report::{Report, Row};
use crate::bar;
use crate::document::Figures;

pub(crate) fn render(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut out, report);
    out
}

fn write_all(out: &mut String, report: &Report) -> std::fmt::Result {
    let conditions = &report.conditions;
    let machine = &report.machine;
    writeln!(
        out,
        "{} on {} ({} CPUs)",
        report.command, machine.cpu, machine.cpus
    )?;
    writeln!(
        out,
        "EMULATED, Linux {}; load of this machine {:.1} to {:.1}",
        conditions.kernel.as_deref().unwrap_or("unknown"),
        conditions.load[0],
        conditions.load[1]
    )?;
    let mut boards: Vec<&str> = report.results.iter().map(Row::board).collect();
    boards.dedup();
    for board in boards {
        writeln!(out, "{board}")?;
    }
    for failure in &conditions.failures {
        writeln!(out, "came to nothing: {failure}")?;
    }
    for skipped in &conditions.skipped {
        writeln!(out, "skipped: {skipped}")?;
    }
    writeln!(
        out,
        "\n{:<27}{:<17}{:>9}{:>10}{:>10}{:>10}{:>7}  pages: of file, at start, before use",
        "case", "", "bytes", "min", "median", "max", "boots"
    )?;
    for row in &report.results {
        write_row(out, row)?;
    }
    writeln!(out, "\n{:<47}{:>9}{:>9}", "ratio", "bytes", "value")?;
    for ratio in &report.ratios {
        let wanted = bar::verdict(bars::of_ratio(ratio), ratio.value);
        writeln!(
            out,
            "{:<47}{:>9}{:>9.2}{wanted}",
            ratio.name, ratio.size_bytes, ratio.value
        )?;
    }
    Ok(())
}

fn write_row(out: &mut String, row: &Row) -> std::fmt::Result {
    let seconds = |ns: f64| format!("{:.3} s", ns / 1e9);
    write!(
        out,
        "{:<27}{:<17}{:>9}",
        row.case, row.metric, row.size_bytes
    )?;
    match (&row.figures, row.unit) {
        (Figures::Times { percentiles, .. }, _) => {
            let [min, p50, max] = [percentiles.min, percentiles.p50, percentiles.max];
            let [min, p50, max] = [min, p50, max].map(|ns| seconds(ns as f64));
            write!(out, "{min:>10}{p50:>10}{max:>10}{:>7}", row.count)?;
        }
        (Figures::Value { value }, "ns") => {
            write!(
                out,
                "{:>10}{:>10}{:>10}{:>7}",
                "",
                seconds(*value),
                "",
                row.count
            )?;
        }
        (Figures::Value { value }, unit) => {
            write!(out, "{:>10}{:>10.0}{unit:>10}{:>7}", "", value, row.count)?;
        }
    }
    let conditions = &row.conditions;
    let pages = [
        conditions.pages,
        conditions.resident_at_start,
        conditions.resident_before_use,
    ];
    for pages in pages.into_iter().flatten() {
        write!(out, "  {pages}")?;
    }
    if let Some(paper) = conditions.paper_ns {
        write!(out, "  the paper: {}", seconds(paper))?;
    }
    writeln!(out)
}
