//! `hythe preload replay`: reads ahead by a pack, then becomes the program that needs it.
//!
//! Whatever goes wrong with reading ahead, the program is started: it only starts slower. Ctrl-C and SIGTERM end the command at once, since
//! there is nothing to put in order. Never reads anything itself.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use hythe_preload::pack::{PAGE_BYTES, Pack};
use hythe_preload::replay::{
    Budget, Method, Options, Outcome, Priority, Stopped, SystemMemory, replay,
};
use serde::Serialize;

use crate::args::Globals;
use crate::error::CliError;
use crate::{output, units};

/// What to read ahead, and how.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// The pack
    pack: PathBuf,
    /// The program to start when all is read, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// Most that may be read: bytes (64M), or a share of the available memory
    #[arg(long, value_name = "SIZE|N%", value_parser = parse_budget, default_value = "50%")]
    budget: Budget,
    /// The way to load pages [default: what each file system honours, found by trying]
    #[arg(long, value_name = "WAY")]
    method: Option<MethodArg>,
    /// Threads that load [default: 1 where readahead works, else 2]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Priority of the reads in the device's queue: idle, best-effort:N or realtime:N, N from 0, first, to 7, last
    #[arg(long, value_name = "CLASS")]
    priority: Option<Priority>,
    /// The directory that the pack's paths begin at, such as a root that is mounted but not yet entered
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
    #[serde(flatten)]
    outcome: &'a Outcome,
}

pub(crate) fn run(args: &ReplayArgs, globals: &Globals) -> Result<(), CliError> {
    let done = read_ahead(args, globals);
    let Some((program, arguments)) = args.command.split_first() else {
        return done;
    };
    if let Err(error) = done {
        // Nothing that a program needs: it starts slower, and it is said why.
        let _ = writeln!(
            std::io::stderr(),
            "hythe: {error}; starting {} without reading ahead",
            program.display()
        );
    }
    let error = Command::new(program).args(arguments).exec();
    Err(CliError::file("start", program)(error))
}

fn read_ahead(args: &ReplayArgs, globals: &Globals) -> Result<(), CliError> {
    let pack = super::open(&args.pack)?;
    let outcome = with_progress(args, &pack)?;
    let document = Document {
        pack: &args.pack,
        page_bytes: PAGE_BYTES,
        outcome: &outcome,
    };
    if args.command.is_empty() {
        return output::print(globals.json, &document, text);
    }
    // Standard output is the program's.
    output::print_aside(globals.json, &document, text)
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
    let mut memory = SystemMemory::new(Path::new("/proc"));
    let outcome = replay(pack, &options, &mut memory, &|pages| bar.inc(pages));
    bar.finish_and_clear();
    Ok(outcome?)
}

fn text(document: &Document<'_>) -> String {
    let Outcome {
        pages, stopped, ns, ..
    } = document.outcome;
    let size = |pages: u64| units::bytes(pages * PAGE_BYTES);
    let mut text = format!(
        "read {} ahead in {}, {} were there already",
        size(pages.loaded),
        units::milliseconds(ns / 1_000_000),
        size(pages.already_there)
    );
    // Writing into a string does not fail.
    let _ = match stopped {
        Stopped::Done => writeln!(text),
        Stopped::Budget => writeln!(
            text,
            "; {} were left out: the budget is {}",
            size(pages.over_budget),
            units::bytes(document.outcome.budget_bytes)
        ),
        Stopped::Pressure(why) => writeln!(
            text,
            "; stopped with {} to go: {why}",
            size(pages.not_reached + pages.over_budget)
        ),
    };
    for system in &document.outcome.file_systems {
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
    complaints(document.outcome, &mut text);
    text
}

fn complaints(outcome: &Outcome, text: &mut String) {
    for file in &outcome.changed {
        let _ = writeln!(text, "skipped {}: {}", file.path, file.why);
    }
    for file in &outcome.failures {
        let pages = units::counted(file.pages, "page");
        let _ = writeln!(text, "{pages} of {} failed: {}", file.path, file.error);
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "note: {note}");
    }
}
