//! The document for people.

use std::fmt::Write;

use super::bars;
use super::calls::{CallRow, Metric};
use super::lossy::LossyRow;
use super::plays::PlaysRow;
use super::report::{Entry, Report, Row};
use crate::bar;

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
    write_sending(out, report)?;
    write_calls(out, report)?;
    write_lossy(out, report)?;
    write_plays(out, report)?;
    write_ratios(out, report)
}

/// A part of the table: nothing where there are no rows; else a heading, which the first row may
/// have a word in, and all rows.
fn write_part<'a, R: 'a>(
    out: &mut String,
    rows: impl Iterator<Item = &'a R>,
    heading: impl FnOnce(&R) -> String,
    write: impl Fn(&mut String, &R) -> std::fmt::Result,
) -> std::fmt::Result {
    let mut rows = rows.peekable();
    let Some(first) = rows.peek() else {
        return Ok(());
    };
    writeln!(out, "{}", heading(first))?;
    rows.try_for_each(|row| write(out, row))
}

fn write_sending(out: &mut String, report: &Report) -> std::fmt::Result {
    let rows = report.results.iter().filter_map(|entry| match entry {
        Entry::Sending(row) => Some(row),
        _ => None,
    });
    let heading = |_: &_| {
        format!(
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
        )
    };
    write_part(out, rows, heading, write_row)
}

fn write_calls(out: &mut String, report: &Report) -> std::fmt::Result {
    let rows = report.results.iter().filter_map(|entry| match entry {
        Entry::Calls(row) => Some(row),
        _ => None,
    });
    let heading = |_: &_| {
        format!(
            "\n{:<14}{:<10}{:>7}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "calls",
            "seen by",
            "calls",
            "repeat",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "max us",
            "CPU %",
            "busy %"
        )
    };
    write_part(out, rows, heading, write_call)
}

fn write_call(out: &mut String, row: &CallRow) -> std::fmt::Result {
    let times = &row.percentiles;
    let [p50, p99, p999, max] =
        [times.p50, times.p99, times.p999, times.max].map(|ns| ns as f64 / 1e3);
    let seen_by = match row.metric {
        Metric::SpacingErrorSent => "sender",
        Metric::SpacingErrorReceived => "receiver",
    };
    write!(
        out,
        "{:<14}{seen_by:<10}{:>7}{:>8}{p50:>10.1}{p99:>10.1}{p999:>10.1}{max:>10.1}{:>10.1}{:>10.1}",
        row.case,
        row.calls,
        row.repeat,
        row.cpu_share * 100.0,
        row.conditions.machine_busy * 100.0
    )?;
    if row.conditions.machine_stolen > 0.001 {
        write!(
            out,
            "  stolen {:.1} %",
            row.conditions.machine_stolen * 100.0
        )?;
    }
    if let Some(bar) = bars::of_calls(row) {
        let is_met = bar.is_met_by(times.p99 as f64);
        write!(
            out,
            "  p99 {bar} ns{}",
            if is_met { "" } else { ": MISSED" }
        )?;
    }
    writeln!(out)
}

fn write_lossy(out: &mut String, report: &Report) -> std::fmt::Result {
    let rows = report.results.iter().filter_map(|entry| match entry {
        Entry::Lossy(row) => Some(row),
        _ => None,
    });
    let heading = |first: &LossyRow| {
        format!(
            "\n5 % lost and 20 ms in both directions, by {}; a buffer of 200 ms\n\
             {:<30}{:>9}{:>8}{:>10}{:>9}{:>6}{:>11}",
            first.conditions.way,
            "case",
            "packets",
            "lost",
            "repaired",
            "missing",
            "late",
            "residual %"
        )
    };
    write_part(out, rows, heading, write_lossy_row)
}

fn write_lossy_row(out: &mut String, row: &LossyRow) -> std::fmt::Result {
    write!(
        out,
        "{:<30}{:>9}{:>8}{:>10}{:>9}{:>6}{:>11.3}",
        row.case,
        row.packets,
        row.lost,
        row.repaired,
        row.missing,
        row.late,
        row.residual * 100.0
    )?;
    if let Some((wanted, is_met)) = bars::of_lossy(row) {
        write!(out, "  {wanted}{}", if is_met { "" } else { ": MISSED" })?;
    }
    writeln!(out)
}

fn write_plays(out: &mut String, report: &Report) -> std::fmt::Result {
    let rows = report.results.iter().filter_map(|entry| match entry {
        Entry::Plays(row) => Some(row),
        _ => None,
    });
    let heading = |_: &_| {
        format!(
            "\n{:<18}{:>6}{:>9}{:>8}{:>15}{:>10}{:>10}{:>10}{:>10}",
            "as it plays",
            "to",
            "Mbit/s",
            "repeat",
            "CPU ns/packet",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "max ms"
        )
    };
    write_part(out, rows, heading, write_plays_row)
}

fn write_plays_row(out: &mut String, row: &PlaysRow) -> std::fmt::Result {
    let times = &row.percentiles;
    let [p50, p99, p999, max] =
        [times.p50, times.p99, times.p999, times.max].map(|ns| ns as f64 / 1e6);
    write!(
        out,
        "{:<18}{:>6}{:>9.1}{:>8}{:>15.1}{p50:>10.1}{p99:>10.1}{p999:>10.1}{max:>10.1}",
        row.case,
        row.destinations,
        f64::from(row.conditions.bits_per_second) / 1e6,
        row.repeat,
        row.cpu_ns_per_packet
    )?;
    if let Some(packets) = row.conditions.packets_per_handover {
        write!(out, "  {packets:.1} packets a handover")?;
    }
    if let Some(method) = &row.conditions.method {
        write!(out, " by {method}")?;
    }
    if let Some(bar) = bars::of_plays(row) {
        let is_met = bar.is_met_by(times.p99 as f64);
        write!(
            out,
            "  p99 {bar} ns{}",
            if is_met { "" } else { ": MISSED" }
        )?;
    }
    writeln!(out)
}

fn write_ratios(out: &mut String, report: &Report) -> std::fmt::Result {
    if report.ratios.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<56}{:>7}{:>9}{:>6}{:>9}",
        "ratio", "bytes", "packets", "to", "value"
    )?;
    for ratio in &report.ratios {
        let wanted = bar::verdict(bars::of_ratio(ratio), ratio.value);
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
