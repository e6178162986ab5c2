//! The document for people.

use std::fmt::Write;

use crate::bar;
use crate::document::{Document, Figures, Measurement};
use crate::ipc::bars;

pub(crate) fn render(document: &Document) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut out, document);
    out
}

fn write_all(out: &mut String, document: &Document) -> std::fmt::Result {
    let machine = &document.machine;
    let conditions = &document.conditions;
    writeln!(
        out,
        "{} on {} ({} CPUs, Linux {})",
        document.command, machine.cpu, machine.cpus, machine.kernel
    )?;
    writeln!(
        out,
        "pinned to {:?}, {} rounds, load {:.1} to {:.1}, clock {} ns",
        conditions.cpus.pinned,
        conditions.rounds,
        conditions.load[0],
        conditions.load[1],
        conditions.clock_ns
    )?;
    if let (Some(bounce), Some(floor)) = (conditions.bounce_ns, conditions.floor_by_bounce) {
        writeln!(
            out,
            "one cache line there and back {bounce} ns; floor {floor:.2} times that (valid up to 3)"
        )?;
    }
    for skipped in &conditions.skipped {
        writeln!(out, "skipped: {skipped}")?;
    }
    writeln!(
        out,
        "\n{:<34}{:<11}{:>9}{:>11}{:>11}{:>11}{:>11}{:>12}{:>10}",
        "case", "ns", "bytes", "min", "p50", "p99", "p99.9", "max", "count"
    )?;
    for measurement in &document.results {
        write_row(out, measurement)?;
    }
    writeln!(out, "\n{:<52}{:>9}{:>9}", "ratio", "bytes", "value")?;
    for ratio in &document.ratios {
        let wanted = bar::verdict(bars::of_ratio(ratio), ratio.value);
        writeln!(
            out,
            "{:<52}{:>9}{:>9.2}{wanted}",
            ratio.name, ratio.size_bytes, ratio.value
        )?;
    }
    Ok(())
}

fn write_row(out: &mut String, measurement: &Measurement) -> std::fmt::Result {
    let Measurement {
        size_bytes,
        metric,
        unit,
        count,
        ..
    } = measurement;
    let case = label(measurement);
    let wanted = bars::of_measurement(measurement)
        .map_or_else(String::new, |(bar, figure)| bar::verdict(Some(bar), figure));
    match &measurement.figures {
        Figures::Times { percentiles, .. } => writeln!(
            out,
            "{case:<34}{metric:<11}{size_bytes:>9}{:>11}{:>11}{:>11}{:>11}{:>12}{count:>10}{wanted}",
            percentiles.min, percentiles.p50, percentiles.p99, percentiles.p999, percentiles.max
        ),
        Figures::Value { value } => {
            writeln!(
                out,
                "{case:<34}{metric:<11}{size_bytes:>9}{value:>22.0} {unit:<33}{count:>10}{wanted}"
            )
        }
    }
}

/// Rows of one case differ in where its sides ran.
fn label(measurement: &Measurement) -> String {
    match measurement.conditions.pinned[..] {
        [near, far] if near == far => format!("{} shared", measurement.case),
        _ => measurement.case.clone(),
    }
}
