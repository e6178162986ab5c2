//! `hythe preload report`: the start-ups of a pack, with and without reading ahead.
//!
//! Never judges: `replay --auto` and `finish --auto` do.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::{output, units};
use hythe_preload::pack::PAGE_BYTES;
use hythe_preload::runs::{self, Entry, MeasuredFrom, Run, Summary, off};
use hythe_terminal::escaped;
use serde::Serialize;

/// Whose start-ups.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// The pack
    pack: PathBuf,
}

#[derive(Serialize)]
struct Document<'a> {
    pack: &'a Path,
    /// Why it is switched off, if it is.
    off: Option<String>,
    /// Of the runs since it was last switched off, of the pack as it is now.
    summary: Summary,
    history: Vec<Entry>,
}

pub(crate) fn run(args: &ReportArgs, globals: &Globals) -> Result<(), CliError> {
    let history = runs::read_history(&args.pack)?;
    let document = Document {
        pack: &args.pack,
        off: off::reason(&args.pack)?,
        summary: runs::summarize(&history, runs::pack_checksum(&args.pack)?),
        history,
    };
    output::print(globals.json, &document, text)
}

/// One start-up in a line.
pub(super) fn start_up(run: &Run) -> String {
    let from = match run.measured_from {
        MeasuredFrom::Replay => "",
        MeasuredFrom::Boot => " from the start of the machine",
    };
    let took = milliseconds(run.startup_ns);
    if !run.read {
        return format!("start-up took {took}{from}, without reading ahead");
    }
    let usage = &run.usage;
    let size = |pages: u64| units::bytes(pages * PAGE_BYTES);
    let mut text = format!(
        "start-up took {took}{from}, {} of it reading {} ahead",
        milliseconds(run.reading_ns),
        size(usage.read)
    );
    let fates = [
        (usage.used, "were used"),
        (usage.unused, "were not"),
        (usage.evicted, "are gone again"),
        (usage.unknown, "are not told of"),
    ];
    for (pages, fate) in fates.into_iter().filter(|(pages, _)| *pages > 0) {
        // Writing into a string does not fail.
        let _ = write!(text, "; {} {fate}", size(pages));
    }
    text
}

fn milliseconds(ns: u64) -> String {
    units::milliseconds(ns / 1_000_000)
}

fn text(document: &Document<'_>) -> String {
    let rows: Vec<Vec<String>> = document.history.iter().map(row).collect();
    if rows.is_empty() {
        return format!(
            "no start-up of {} is known: call hythe preload finish when one is over",
            escaped(&document.pack)
        );
    }
    let headings = [
        "WHEN",
        "READ AHEAD",
        ">START-UP",
        ">READING",
        ">READ",
        ">USED",
        ">WASTE",
        ">GONE",
    ];
    let mut text = output::table(&headings, &rows);
    for entry in &document.history {
        if let Entry::SwitchedOff(verdict) = entry {
            let _ = writeln!(
                text,
                "{} switched off: {}",
                off::date(verdict.unix_s),
                verdict.reason
            );
        }
    }
    text.push_str(&conclusion(&document.summary));
    if let Some(why) = &document.off {
        let _ = writeln!(text, "{why}");
    }
    text
}

fn row(entry: &Entry) -> Vec<String> {
    let run = match entry {
        Entry::Run(run) => run,
        Entry::SwitchedOff(verdict) => return vec![off::date(verdict.unix_s), "off".to_owned()],
    };
    let size = |pages: u64| units::bytes(pages * PAGE_BYTES);
    let usage = &run.usage;
    let told = usage.unknown == 0;
    let if_told = |pages| if told { size(pages) } else { "?".to_owned() };
    let mut cells = vec![
        off::date(run.finished_unix_s),
        if run.read { "yes" } else { "no" }.to_owned(),
        milliseconds(run.startup_ns),
    ];
    if run.read {
        cells.extend([
            milliseconds(run.reading_ns),
            size(usage.read),
            if_told(usage.used),
            if_told(usage.unused),
            size(usage.evicted),
        ]);
    }
    cells
}

fn conclusion(summary: &Summary) -> String {
    let kind = |count: usize, median: Option<u64>, what: &str| match median {
        Some(median) => format!(
            "{} {what}: median {}\n",
            units::counted(count as u64, "run"),
            milliseconds(median)
        ),
        None => format!("no run {what}\n"),
    };
    let mut text = kind(summary.with, summary.median_with_ns, "with reading ahead");
    text += &kind(summary.without, summary.median_without_ns, "without");
    if let Some(speedup) = summary.speedup {
        let _ = writeln!(text, "it starts {speedup:.2} x as fast with reading ahead");
    }
    if let (Some(hits), Some(waste)) = (summary.hits, summary.waste) {
        let _ = writeln!(
            text,
            "of what was read ahead, {:.0} % were used and {:.0} % wasted",
            hits * 100.0,
            waste * 100.0
        );
    }
    text
}
