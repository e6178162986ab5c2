//! The document for people.

use std::fmt::Write;

use super::bars;
use super::report::{Report, Row};

pub(crate) fn render(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut out, report);
    out
}

fn write_all(out: &mut String, report: &Report) -> std::fmt::Result {
    let (machine, conditions) = (&report.machine, &report.conditions);
    writeln!(
        out,
        "{} on {} ({} CPUs, Linux {})",
        report.command, machine.cpu, machine.cpus, machine.kernel
    )?;
    writeln!(
        out,
        "sender and receiver on CPUs {:?}, load {:.1} to {:.1}",
        conditions.cpus.pinned, conditions.load[0], conditions.load[1]
    )?;
    for skipped in &conditions.skipped {
        writeln!(out, "skipped: {skipped}")?;
    }
    writeln!(
        out,
        "\n{:<26}{:>7}{:>9}{:>6}{:>8}{:>11}{:>11}{:>11}{:>14}{:>11}",
        "case",
        "bytes",
        "packets",
        "to",
        "repeat",
        "seconds",
        "p99",
        "max",
        "CPU ns/packet",
        "delivered"
    )?;
    for row in &report.results {
        write_row(out, row)?;
    }
    writeln!(
        out,
        "\n{:<56}{:>7}{:>9}{:>6}{:>9}",
        "ratio", "bytes", "packets", "to", "value"
    )?;
    for ratio in &report.ratios {
        let wanted = match bars::of_ratio(ratio) {
            None => String::new(),
            Some(bar) if bar.is_met_by(ratio.value) => format!("  {bar}"),
            Some(bar) => format!("  {bar}: MISSED"),
        };
        writeln!(
            out,
            "{:<56}{:>7}{:>9}{:>6}{:>9.2}{wanted}",
            ratio.name, ratio.size_bytes, ratio.packets, ratio.destinations, ratio.value
        )?;
    }
    Ok(())
}

fn write_row(out: &mut String, row: &Row) -> std::fmt::Result {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let delivered = row
        .delivered
        .map_or_else(String::new, |count| count.to_string());
    write!(
        out,
        "{:<26}{:>7}{:>9}{:>6}{:>8}{:>11.4}{:>11.4}{:>11.4}{:>14.1}{:>11}",
        row.case,
        row.size_bytes,
        row.packets,
        row.destinations,
        row.repeat,
        row.seconds,
        seconds(row.percentiles.p99),
        seconds(row.percentiles.max),
        row.cpu_ns_per_packet,
        delivered
    )?;
    if let Some(method) = &row.conditions.method {
        write!(out, "  by {method}")?;
    }
    if let Some(paper) = row.conditions.paper_seconds {
        write!(out, "  the paper: {paper} s")?;
    }
    writeln!(out)
}
