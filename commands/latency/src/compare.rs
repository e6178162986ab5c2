//! `hythe latency compare`: results of several runs side by side.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_latency::compare::{self, Cell, Comparison, Condition, Row, Run};
use hythe_latency::machine;
use hythe_latency::result::{BENCH, Document, SCHEMA};
use hythe_latency::threshold::time;
use hythe_sys::regular_file::read_regular_text;
use serde_json::json;

/// Largest file that is read.
const BYTES_MAX: u64 = 64 << 20;

/// What to compare.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Documents that a latency run printed with --json; the others are compared with the first
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also compare emulated with real times, and times of different clocks
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &CompareArgs, globals: &Globals) -> Result<(), CliError> {
    let runs: Vec<Run> = args
        .files
        .iter()
        .map(|path| read(path))
        .collect::<Result<_, _>>()?;
    let comparison = compare::compare(&runs, args.force)?;
    for reason in &comparison.forced {
        output::note(format!("compared all the same: {reason}"));
    }
    for warning in comparison.warnings(&runs) {
        output::note(format!("warning: the conditions differ, {warning}"));
    }
    let document = document(&runs, &comparison);
    output::print(globals.json, &document, |_| render(&runs, &comparison))
}

fn read(path: &Path) -> Result<Run, CliError> {
    let text = read_regular_text(path, BYTES_MAX).map_err(CliError::file("read", path))?;
    Ok(compare::read(&path.display().to_string(), &text)?)
}

/// As every result: the ratios, and under which conditions each run was made.
fn document(runs: &[Run], comparison: &Comparison) -> Document {
    let each = runs.iter().map(|run| {
        let Document { command, commit, machine, conditions, .. } = &run.document;
        json!({"file": run.name, "command": command, "commit": commit, "machine": machine, "conditions": conditions})
    });
    let conditions = [
        ("runs", each.collect()),
        ("left_out", json!(comparison.left_out)),
        ("forced", json!(comparison.forced)),
        ("differing", json!(comparison.warnings(runs))),
    ];
    Document {
        schema: SCHEMA.to_owned(),
        bench: BENCH.to_owned(),
        command: machine::command(),
        commit: machine::commit(),
        machine: runs[0].document.machine.clone(),
        results: Vec::new(),
        ratios: comparison.ratios(runs),
        conditions: BTreeMap::from(conditions.map(|(name, value)| (name.to_owned(), value))),
    }
}

fn render(runs: &[Run], comparison: &Comparison) -> String {
    let rows: Vec<Vec<String>> = comparison
        .rows
        .iter()
        .flat_map(|row| lines(runs, row))
        .collect();
    let headings = [
        "METRIC", "FILE", "CASE", ">MIN", ">P50", ">P99", ">P99.9", ">MAX", ">COUNT",
    ];
    let mut text = output::table(&headings, &rows);
    let mut headings = vec!["CONDITION"];
    headings.extend(runs.iter().map(|run| run.name.as_str()));
    let mut conditions: Vec<Vec<String>> = comparison.conditions.iter().map(condition).collect();
    conditions.extend(comparison.rows.iter().flat_map(own_conditions));
    text.push('\n');
    text.push_str(&output::table(&headings, &conditions));
    text.push_str("* differs\n");
    for left_out in &comparison.left_out {
        text.push_str(&format!("left out, without a counterpart: {left_out}\n"));
    }
    text
}

/// The figures of each run, and below them by how much they exceed the first one's.
fn lines(runs: &[Run], row: &Row) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for (run, cell) in runs.iter().zip(&row.cells) {
        let mut line = vec![row.metric.clone(), run.name.clone(), cell.case.clone()];
        line.extend(cell.figures_ns.map(time));
        line.push(cell.count.to_string());
        lines.push(line);
    }
    for (run, cell) in runs.iter().zip(&row.cells).skip(1) {
        let mut line = vec![
            String::new(),
            format!("{} / {}", run.name, runs[0].name),
            String::new(),
        ];
        let ratios = cell.ratios_to(&row.cells[0]);
        line.extend(
            ratios
                .map(|ratio| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x"))),
        );
        lines.push(line);
    }
    lines
}

fn condition(condition: &Condition) -> Vec<String> {
    let mark = if condition.differs() { "* " } else { "  " };
    let mut line = vec![format!("{mark}{}", condition.name)];
    let values = condition.values.iter();
    line.extend(values.map(|value| value.as_ref().map_or_else(|| "-".to_owned(), compare::text)));
    line
}

/// What one result depends on besides, where that differs.
fn own_conditions(row: &Row) -> Vec<Vec<String>> {
    let keys = row.cells.iter().flat_map(|cell| cell.conditions.keys());
    let mut keys: Vec<&String> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    let value = |cell: &Cell, key: &str| cell.conditions.get(key).cloned();
    let of_row = keys.into_iter().map(|key| Condition {
        name: format!("{key} ({} {})", row.cells[0].case, row.metric),
        values: row.cells.iter().map(|cell| value(cell, key)).collect(),
    });
    of_row
        .filter(Condition::differs)
        .map(|own| condition(&own))
        .collect()
}
