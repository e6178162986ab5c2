//! `hythe preload record`: finds out what a command or a boot needs from storage, and writes it as
//! a pack.
//!
//! The command runs as if it had been started directly: its standard output stays its own, so the
//! account of a command's recording goes to standard error. With `--json`, standard output is the
//! document's, and the command's goes to standard error. Exit code 1 also if the command failed or
//! the recording is known to have holes: the pack is written all the same, and the message says so.
//! Never decides what is needed: `hythe_preload` does.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::stop::Stop;
use hythe_command::{output, units};
use hythe_preload::pack::{PAGE_BYTES, Pack, PackOutput};
use hythe_preload::record::{
    Account, Exclusion, Queue, Scratch, Settings, Subject, record, stand_guard,
};
use hythe_preload::runs::{Mark, off, run_directory};
use hythe_terminal::{escaped, escaped_lines};
use serde::Serialize;

/// Where copies of files go that cannot be thrown out of memory, unless told.
const SCRATCH: &str = "/var/tmp";

/// What to record, and how.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// The pack to write
    #[arg(short, long, value_name = "PACK")]
    output: PathBuf,
    /// Replace the pack if there is one
    #[arg(long)]
    force: bool,
    /// Record what all processes read, until interrupted, or until --for or --until
    #[arg(long, conflicts_with = "command", required_unless_present = "command")]
    boot: bool,
    /// End after so many seconds; a command that still runs gets SIGTERM then
    #[arg(long = "for", value_name = "SECONDS", value_parser = units::parse_seconds)]
    duration: Option<Duration>,
    /// End when this path exists
    #[arg(long, value_name = "PATH")]
    until: Option<PathBuf>,
    /// Do not compare inode numbers at replay, for a pack that goes into an image which is built
    /// later
    #[arg(long)]
    any_inode: bool,
    /// Leave out a path and what is below it, or what matches a pattern with *, ? or []; may be
    /// repeated
    #[arg(long, value_name = "PATH|PATTERN")]
    exclude: Vec<Exclusion>,
    /// Do not drop the page cache before the command runs. What the command uses of it is then
    /// recorded as needed, even if it was only read ahead around other pages
    #[arg(long, conflicts_with = "boot")]
    keep_caches: bool,
    /// Directory on storage for copies of files that running programs have mapped. The command
    /// reads the copies, which shows what it needs [default: /var/tmp, else that of the pack]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["boot", "keep_caches"])]
    scratch: Option<PathBuf>,
    /// Most bytes to copy there
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, default_value = "256M")]
    scratch_limit: usize,
    /// Make no copies: pages that other programs have in memory, and the command uses, are recorded
    /// as needed
    #[arg(long, conflicts_with = "scratch")]
    no_copies: bool,
    /// The command, behind --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Serialize)]
struct Document<'a> {
    pack: &'a Path,
    /// The file that switches it off, which somebody made.
    switched_off: Option<PathBuf>,
    subject: &'static str,
    method: &'static str,
    seconds: f64,
    files: usize,
    extents: usize,
    pages: u64,
    bytes: u64,
    page_bytes: u64,
    command: Option<CommandDocument>,
    left_out: LeftOutDocument,
    in_memory_before: WarmDocument,
    copied: CopiedDocument,
    found_in_use: u64,
    events: u64,
    events_lost: u64,
    unwatched_mounts: &'a [PathBuf],
    reclaimed_pages: u64,
    evictions_told: bool,
    evicted_pages: u64,
    caches_dropped: u64,
    trace_lost: Option<u64>,
    read_ahead_off: u64,
    read_ahead_on: &'a [PathBuf],
}

#[derive(Serialize)]
struct CommandDocument {
    exit_code: Option<i32>,
    signal: Option<i32>,
    /// The recording ended first, and the command was told to end.
    stopped: bool,
}

#[derive(Serialize)]
struct LeftOutDocument {
    written: u64,
    gone: u64,
    excluded: u64,
    untouched: u64,
}

#[derive(Serialize)]
struct WarmDocument {
    files: u64,
    pages: u64,
}

#[derive(Serialize)]
struct CopiedDocument {
    files: u64,
    bytes: u64,
}

pub(crate) fn run(args: &RecordArgs, globals: &Globals) -> Result<(), CliError> {
    if !args.force && args.output.symlink_metadata().is_ok() {
        let text = format!(
            "{} is there already: choose another name, or say --force",
            escaped(&args.output)
        );
        return Err(CliError::Failed(text));
    }
    // Before the command runs: a recording that cannot be written is lost, and so is a boot.
    let file = begin(args)?;
    let stop = Stop::on_signals()?;
    let begun = Instant::now();
    let (pack, account) = record(&subject(args), &settings(args, globals.json), &|| {
        stop.asked()
    })?;
    match file {
        Some(file) => pack.finish(file)?,
        None => pack.write(&args.output)?,
    }
    if args.boot {
        leave_word(&args.output);
    }
    let still_off = off::forget_verdict(&args.output)?;
    let document = document(args, &pack, &account, begun.elapsed(), still_off);
    if args.boot || globals.json {
        output::print(globals.json, &document, text)?;
    } else {
        // Standard output is the command's.
        let _ = std::io::stderr().write_all(escaped_lines(&text(&document)).to_string().as_bytes());
    }
    verdict(&account)
}

/// The pack's file. `None`: it cannot be made yet, and may be when the boot has come further.
fn begin(args: &RecordArgs) -> Result<Option<PackOutput>, CliError> {
    if !args.boot {
        return Ok(Some(PackOutput::begin(&args.output)?));
    }
    let file = PackOutput::begin_at_boot(&args.output)?;
    if file.is_none() {
        output::note(format!(
            "{} is on a file system that is mounted read-only as yet: it must be writable when the recording ends",
            escaped(&args.output)
        ));
    }
    Ok(file)
}

/// So that `finish` does not take this boot for one in which the pack was forgotten.
fn leave_word(pack: &Path) {
    let Some(directory) = run_directory() else {
        return;
    };
    if let Err(error) = Mark::recorded(pack).and_then(|mark| mark.leave(&directory, pack)) {
        // The pack is good all the same.
        tracing::warn!("`hythe preload finish` will miss word of this recording: {error}");
    }
}

/// The process that puts everything back.
pub(crate) fn run_guard() -> Result<(), CliError> {
    Ok(stand_guard(std::io::stdin(), std::io::stdout())?)
}

fn subject(args: &RecordArgs) -> Subject {
    if args.boot {
        Subject::Boot
    } else {
        Subject::Command(args.command.clone())
    }
}

fn settings(args: &RecordArgs, json: bool) -> Settings {
    let beside = args
        .output
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let usual = [Path::new(SCRATCH), beside.unwrap_or(Path::new("."))];
    let directories = match &args.scratch {
        Some(directory) => vec![directory.clone()],
        None => usual.map(Path::to_owned).to_vec(),
    };
    Settings {
        guard: ["/proc/self/exe", "record-guard"]
            .map(OsString::from)
            .to_vec(),
        output: args.output.clone(),
        any_inode: args.any_inode,
        exclude: args.exclude.clone(),
        keep_caches: args.keep_caches,
        scratch: (!args.no_copies).then_some(Scratch {
            directories,
            limit: args.scratch_limit as u64,
        }),
        duration: args.duration,
        until: args.until.clone(),
        output_to_errors: json,
        queue: Queue::Unlimited,
    }
}

fn document<'a>(
    args: &'a RecordArgs,
    pack: &Pack,
    account: &'a Account,
    took: Duration,
    still_off: bool,
) -> Document<'a> {
    let command = account.status.map(|status| CommandDocument {
        exit_code: status.code(),
        signal: status.signal(),
        stopped: account.stopped,
    });
    Document {
        pack: &args.output,
        switched_off: still_off.then(|| off::path(&args.output)),
        subject: if args.boot { "boot" } else { "command" },
        method: account.method(),
        seconds: took.as_secs_f64(),
        files: pack.files.len(),
        extents: pack.extents.len(),
        pages: pack.pages(),
        bytes: pack.pages() * PAGE_BYTES,
        page_bytes: PAGE_BYTES,
        command,
        left_out: LeftOutDocument {
            written: account.left_out.written,
            gone: account.left_out.gone,
            excluded: account.left_out.excluded,
            untouched: account.left_out.untouched,
        },
        in_memory_before: WarmDocument {
            files: account.warm_files,
            pages: account.warm_pages,
        },
        copied: CopiedDocument {
            files: account.copied_files,
            bytes: account.copied_bytes,
        },
        found_in_use: account.found_in_use,
        events: account.events,
        events_lost: account.lost,
        unwatched_mounts: &account.unwatched,
        reclaimed_pages: account.reclaimed_pages,
        evictions_told: account.evictions_told,
        evicted_pages: account.evicted_pages,
        caches_dropped: account.caches_dropped,
        trace_lost: account.trace_lost,
        read_ahead_off: account.read_ahead_off,
        read_ahead_on: &account.read_ahead_on,
    }
}

fn text(document: &Document<'_>) -> String {
    let mut text = format!(
        "{}: {} in {} of {}, by {}\n",
        escaped(&document.pack),
        units::bytes(document.bytes),
        units::counted(document.extents as u64, "extent"),
        units::counted(document.files as u64, "file"),
        document.method
    );
    let left_out = &document.left_out;
    // Writing into a string does not fail.
    let _ = writeln!(
        text,
        "opened and left out: {} written meanwhile, {} gone since, {} excluded, {} without a page that was needed",
        left_out.written, left_out.gone, left_out.excluded, left_out.untouched
    );
    if document.copied.files > 0 {
        let _ = writeln!(
            text,
            "copies stood in for {} that other programs hold in memory ({})",
            units::counted(document.copied.files, "file"),
            units::bytes(document.copied.bytes)
        );
    }
    for warning in warnings(document) {
        let _ = writeln!(text, "beware: {warning}");
    }
    text
}

/// What makes the pack less exact than it could be.
fn warnings(document: &Document<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let warm = &document.in_memory_before;
    if warm.pages > 0 {
        warnings.push(format!(
            "{} of {} were in memory before and are taken as needed; more scratch space (--scratch, --scratch-limit) tells which are",
            units::counted(warm.pages, "page"),
            units::counted(warm.files, "file")
        ));
    }
    if document.reclaimed_pages > 0 && !document.evictions_told && document.trace_lost != Some(0) {
        warnings.push(format!(
            "the kernel threw {} out of memory meanwhile: some that were needed may be missing; record with more free memory",
            units::counted(document.reclaimed_pages, "page")
        ));
    }
    for path in document.read_ahead_on {
        warnings.push(format!(
            "read-ahead could not be switched off by {}: pages that the kernel read around are in the pack",
            escaped(&path)
        ));
    }
    for path in document.unwatched_mounts {
        warnings.push(format!(
            "what is mounted on {} could not be watched: its files are missing",
            escaped(&path)
        ));
    }
    if let Some(switch) = &document.switched_off {
        warnings.push(format!(
            "{} keeps it from being read ahead; remove that to switch it on",
            escaped(&switch)
        ));
    }
    warnings
}

/// Whether the recording is one to be trusted.
fn verdict(account: &Account) -> Result<(), CliError> {
    let holes = if account.lost > 0 {
        Some("the kernel lost events, so that files may be missing")
    } else if account.caches_dropped > 0 && account.trace_lost != Some(0) {
        Some("somebody dropped the caches meanwhile, so that pages are missing")
    } else {
        None
    };
    if let Some(holes) = holes {
        let text = format!("the pack was written, and has holes: {holes}; record again");
        return Err(CliError::Failed(text));
    }
    match account.status {
        Some(status) if !account.stopped && !status.success() => Err(CliError::Failed(format!(
            "the command failed ({status}); the pack was written all the same, with what it needed until then"
        ))),
        _ => Ok(()),
    }
}
