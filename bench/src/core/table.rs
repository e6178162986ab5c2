//! The document for people.

use std::fmt::Write;

use super::bars;
use super::case::Rings;
use super::report::{CoreReport, Place, Row};
use crate::bar;
use crate::document::Figures;

pub(crate) fn render(report: &CoreReport) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut out, report);
    out
}

fn write_all(out: &mut String, report: &CoreReport) -> std::fmt::Result {
    write_head(out, report)?;
    writeln!(
        out,
        "\n{:<24}{:>9}{:>12}{:>12}{:>12}{:>12}{:>13}{:>9}",
        "case, ns", "bytes", "min", "p50", "p99", "p99.9", "max", "count"
    )?;
    for row in report.results.iter().filter(|row| !is_shared(row)) {
        write_row(out, row)?;
    }
    write_shared(out, &report.results)?;
    let alone = report.results.iter().filter(|row| !is_shared(row));
    let sizes = alone.map(|row| row.size_bytes);
    let smallest = sizes.min().unwrap_or(0);
    writeln!(out, "\n{:<52}{:>9}{:>9}", "ratio", "bytes", "value")?;
    for ratio in &report.ratios {
        let board = &report.conditions.place.board;
        let wanted = bar::verdict(bars::of_ratio(board, ratio, smallest), ratio.value);
        writeln!(
            out,
            "{:<52}{:>9}{:>9.2}{wanted}",
            ratio.name, ratio.size_bytes, ratio.value
        )?;
    }
    Ok(())
}

fn is_shared(row: &Row) -> bool {
    let Place { ports, cores, .. } = row.conditions;
    (ports, cores) != (1, 1) || row.metric == "rate"
}

fn write_shared(out: &mut String, rows: &[Row]) -> std::fmt::Result {
    if !rows.iter().any(is_shared) {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<24}{:>9}{:>8}{:>8}{:>14}{:>12}",
        "shared", "bytes", "ports", "cores", "p50, ns", "msg/s"
    )?;
    for pair in rows.windows(2).filter(|pair| pair[1].metric == "rate") {
        let (Figures::Times { percentiles, .. }, Figures::Value { value }) =
            (&pair[0].figures, &pair[1].figures)
        else {
            continue;
        };
        let place = &pair[1].conditions;
        writeln!(
            out,
            "{:<24}{:>9}{:>8}{:>8}{:>14}{:>12.0}",
            pair[0].case, pair[0].size_bytes, place.ports, place.cores, percentiles.p50, value
        )?;
    }
    Ok(())
}

fn write_head(out: &mut String, report: &CoreReport) -> std::fmt::Result {
    let (machine, conditions) = (&report.machine, &report.conditions);
    writeln!(
        out,
        "{} on {} ({} CPUs, Linux {})",
        report.command, machine.cpu, machine.cpus, machine.kernel
    )?;
    let place = &conditions.place;
    let label = if place.emulated {
        ", EMULATED: for comparing cases with each other, no claim about hardware"
    } else {
        ""
    };
    let rings = match place.rings {
        Rings::Eventfd => "by eventfd, without the agent",
        Rings::Agent => "through the agent",
    };
    writeln!(out, "board {}{label}, rings {rings}", place.board)?;
    writeln!(
        out,
        "pinned to {:?}, {} rounds, load {:.1} to {:.1}, clock {} ns",
        place.pinned,
        conditions.rounds,
        conditions.load[0],
        conditions.load[1],
        conditions.clock_ns
    )?;
    if conditions.unoptimised {
        writeln!(out, "compiled without optimisation: figures mean nothing")?;
    }
    for skipped in &conditions.skipped {
        writeln!(out, "skipped: {skipped}")?;
    }
    Ok(())
}

fn write_row(out: &mut String, row: &Row) -> std::fmt::Result {
    let Figures::Times { percentiles, .. } = &row.figures else {
        return Ok(());
    };
    writeln!(
        out,
        "{:<24}{:>9}{:>12}{:>12}{:>12}{:>12}{:>13}{:>9}",
        row.case,
        row.size_bytes,
        percentiles.min,
        percentiles.p50,
        percentiles.p99,
        percentiles.p999,
        percentiles.max,
        row.count
    )
}
