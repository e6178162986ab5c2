//! `hythe preload replay`: reads ahead by a pack, then becomes the program that needs it.
//!
//! Whatever goes wrong with reading ahead, the program is started: it only starts slower. Ctrl-C
//! and SIGTERM end the command at once, since there is nothing to put in order. Never reads
//! anything itself.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::{output, units};
use hythe_preload::pack::{PAGE_BYTES, Pack};
use hythe_preload::replay::{
    Budget, Method, Options, Outcome, Priority, Stopped, SystemMemory, replay,
};
use hythe_preload::runs::{self, Advice, Mark, boottime_ns, off};
use hythe_terminal::escaped;
use indicatif::ProgressDrawTarget;
use serde::Serialize;

/// What to read ahead, and how.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// The pack
    pack: PathBuf,
    /// Program to start after reading, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Most that may be read: bytes (64M), or a share of the available memory
    #[arg(long, value_name = "SIZE|N%", value_parser = parse_budget, default_value = "50%")]
    budget: Budget,
    /// Method to load pages [default: the best that each file system supports, found by trying]
    #[arg(long, value_name = "WAY")]
    method: Option<MethodArg>,
    /// Threads that load [default: 1 where readahead works, else 2 if there are as many processors]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Priority of the reads in the device's queue: idle, best-effort:N or realtime:N, N from 0,
    /// first, to 7, last
    #[arg(long, value_name = "CLASS")]
    priority: Option<Priority>,
    /// Judge by the history: skip reading ahead in some runs, compare the medians of so many runs
    /// of each kind, and switch the pack off if reading ahead did not help
    #[arg(long, value_name = "RUNS", num_args = 0..=1, require_equals = true, default_missing_value = RUNS_WANTED_TEXT)]
    auto: Option<NonZeroUsize>,
    /// Directory for the state of this run, which `finish` reads [default: /run/hythe-preload, or
    /// $XDG_RUNTIME_DIR/hythe-preload for other users than root]
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    /// Directory that the pack's paths are relative to, such as a root that is mounted but not yet
    /// entered
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Ways to load pages.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MethodArg {
    /// readahead(2), in steps of 128 KiB
    Readahead,
    /// read(2), which hides from the report whether anybody else used the pages
    Read,
    /// Fetching each page through a mapping
    Populate,
}

/// How often the bar is drawn: the terminal may be a serial line, on which each takes 10 ms of what
/// reading ahead is to save.
const BAR_HZ: u8 = 2;
/// [`hythe_preload::runs::RUNS_WANTED`], as the command line's definitions want it.
pub(super) const RUNS_WANTED_TEXT: &str = "5";

/// `64M`, `4096`, `50%`.
fn parse_budget(text: &str) -> Result<Budget, String> {
    match text.ends_with('%') {
        true => text.parse(),
        false => units::parse_size(text).map(|bytes| Budget::Bytes(bytes as u64)),
    }
}

#[derive(Serialize)]
struct Document<'a> {
    pack: &'a Path,
    page_bytes: u64,
    /// Why nothing was read, if nothing was to be.
    left_unread: Option<String>,
    #[serde(flatten)]
    outcome: Option<&'a Outcome>,
}

pub(crate) fn run(args: &ReplayArgs, globals: &Globals) -> Result<(), CliError> {
    let done = read_ahead(args, globals);
    let Some((program, arguments)) = args.command.split_first() else {
        return done;
    };
    if let Err(error) = done {
        // Nothing that a program needs: it starts slower, and it is said why.
        output::note(format!(
            "{error}; starting {} without reading ahead",
            escaped(program)
        ));
    }
    let error = Command::new(program).args(arguments).exec();
    Err(CliError::file("start", program)(error))
}

fn read_ahead(args: &ReplayArgs, globals: &Globals) -> Result<(), CliError> {
    let began_ns = boottime_ns();
    let pack = super::open(&args.pack)?;
    let left_unread = left_unread(args)?;
    let outcome = match left_unread {
        Some(_) => None,
        None => Some(with_progress(args, &pack)?),
    };
    if let Err(error) = leave_mark(args, began_ns, outcome.as_ref()) {
        // It was read ahead all the same; only who judges by the history misses this run.
        match args.auto.is_some() || args.run_dir.is_some() {
            true => tracing::warn!("finish will not know of this run: {error}"),
            false => tracing::info!("finish will not know of this run: {error}"),
        }
    }
    let document = Document {
        pack: &args.pack,
        page_bytes: PAGE_BYTES,
        left_unread,
        outcome: outcome.as_ref(),
    };
    if args.command.is_empty() {
        return output::print(globals.json, &document, text);
    }
    // Standard output is the program's.
    output::print_aside(globals.json, &document, text)
}

/// Why nothing is to be read: the pack is switched off, or this run is one to compare with.
fn left_unread(args: &ReplayArgs) -> Result<Option<String>, CliError> {
    let path = off::path(&args.pack);
    if let Some(why) = off::reason(&args.pack)? {
        let first = why.lines().next().unwrap_or_default();
        return Ok(Some(format!(
            "{} is switched off by {}: {first}",
            escaped(&args.pack),
            escaped(&path)
        )));
    }
    let Some(wanted) = args.auto else {
        return Ok(None);
    };
    let history = runs::read_history(&args.pack)?;
    match runs::advise(&history, runs::pack_checksum(&args.pack)?, wanted.get()) {
        Advice::Read => Ok(None),
        Advice::LeaveUnread { why } => Ok(Some(format!("left unread, to compare with: {why}"))),
        Advice::SwitchOff { reason } => {
            tracing::warn!(
                "switching {} off: {reason}; remove {} to switch it on",
                escaped(&args.pack),
                escaped(&path)
            );
            if let Err(error) = off::switch_off(&args.pack, &reason) {
                tracing::warn!("it will be judged again next time: {error}");
            }
            Ok(Some(format!("switched off: {reason}")))
        }
    }
}

fn leave_mark(args: &ReplayArgs, began_ns: u64, outcome: Option<&Outcome>) -> Result<(), CliError> {
    let directory = args.run_dir.clone().or_else(runs::run_directory);
    let Some(directory) = directory else {
        return Err(CliError::Failed(
            "this user has no directory in memory: set XDG_RUNTIME_DIR, or give --run-dir"
                .to_owned(),
        ));
    };
    let mark = match outcome {
        Some(outcome) => Mark::of(&args.pack, began_ns, outcome)?,
        None => Mark::left_unread(&args.pack, began_ns)?,
    };
    Ok(mark.leave(&directory, &args.pack)?)
}

fn with_progress(args: &ReplayArgs, pack: &Pack) -> Result<Outcome, CliError> {
    let options = Options {
        root: args.root.clone(),
        budget: args.budget,
        method: args.method.map(|method| match method {
            MethodArg::Readahead => Method::Readahead,
            MethodArg::Read => Method::Read,
            MethodArg::Populate => Method::Populate,
        }),
        threads: args.threads,
        priority: args.priority,
    };
    let bar = output::progress(Some(pack.pages()));
    bar.set_draw_target(match args.command.is_empty() {
        true => ProgressDrawTarget::stderr_with_hz(BAR_HZ),
        // The terminal is the program's.
        false => ProgressDrawTarget::hidden(),
    });
    let mut memory = SystemMemory::new(Path::new("/proc"));
    let outcome = replay(pack, &options, &mut memory, &|pages| bar.inc(pages));
    bar.finish_and_clear();
    Ok(outcome?)
}

fn text(document: &Document<'_>) -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    if let Some(why) = &document.left_unread {
        let _ = writeln!(text, "nothing read ahead: {why}");
    }
    if let Some(outcome) = document.outcome {
        text.push_str(&sum(outcome));
        for system in &outcome.file_systems {
            let order = match system.by_address {
                true => "in the order of the device",
                false => "in the order of first use",
            };
            let _ = writeln!(
                text,
                "{} at {}: by {}, {order} ({})",
                system.kind, system.place, system.method, system.why
            );
        }
        complaints(outcome, &mut text);
    }
    text
}

fn sum(outcome: &Outcome) -> String {
    let pages = &outcome.pages;
    let size = |pages: u64| units::bytes(pages * PAGE_BYTES);
    let done = format!(
        "read {} ahead in {}; {} were there already",
        size(pages.loaded),
        units::milliseconds(outcome.ns / 1_000_000),
        size(pages.already_there)
    );
    match &outcome.stopped {
        Stopped::Done => format!("{done}\n"),
        Stopped::Budget => format!(
            "{done}; {} were left out: the budget is {}\n",
            size(pages.over_budget),
            units::bytes(outcome.budget_bytes)
        ),
        Stopped::Pressure(why) => format!(
            "{done}; stopped with {} to go: {why}\n",
            size(pages.not_reached + pages.over_budget)
        ),
    }
}

fn complaints(outcome: &Outcome, text: &mut String) {
    for file in &outcome.changed {
        let _ = writeln!(text, "skipped {}: {}", escaped(&file.path), file.why);
    }
    for file in &outcome.failures {
        let pages = units::counted(file.pages, "page");
        let _ = writeln!(text, "{pages} of {} failed: {}", file.path, file.error);
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "note: {note}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_know_how_many_runs_are_wanted() {
        assert_eq!(RUNS_WANTED_TEXT, runs::RUNS_WANTED.to_string());
    }

    #[test]
    fn budgets_are_sizes_or_shares() {
        assert_eq!(parse_budget("64K"), Ok(Budget::Bytes(65536)));
        assert_eq!(parse_budget("5%"), Ok(Budget::Percent(5)));
        for wrong in ["0%", "K", "0", "150%"] {
            assert!(parse_budget(wrong).is_err(), "{wrong}");
        }
    }
}
