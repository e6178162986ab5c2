//! `hythe latency board`: runs `rtos/apps/rhealstone` on a board, alone or beside Linux under Xen, takes what it tells, and times the
//! edges on its pin from outside.
//!
//! The core measures by itself, before anything of Linux reaches it; only then, and where instructions are counted in another run, Linux
//! answers it (`round_trip`). Never judges the figures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hythe::rtcore::{Board, Core};
use hythe_latency::machine;
use hythe_latency::result::{BENCH, Document, Measurement, SCHEMA};
use hythe_latency::xen::{Load, Partition};
use serde_json::{Value, json};

use super::figures::{self, Recorded};
use super::output::OutputArgs;
use super::round_trip;
use super::told::{self, Patience, Told};
use super::under_xen;
use super::xen_args::XenArgs;
use crate::args::Globals;
use crate::error::CliError;
use crate::stop::Stop;
use crate::units;
use crate::workspace::{Purpose, Workspace};

/// The program that measures.
pub(super) const APP: &str = "rhealstone";
/// Questions without an answer, as the core counts them.
const DISCARDED_ROUND_TRIPS: &str = "discarded.round_trip";

/// Which board, and how.
#[derive(Args, Debug)]
pub(crate) struct BoardArgs {
    /// The board
    pub(super) board: String,
    /// What the core runs under: nothing; Xen, beside Linux on the same CPU; Xen, beside Linux with a CPU each (the core's is a pool of its own with nothing to schedule)
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub(super) under: Under,
    /// What Linux does beside it: sleep, compute, or read a disk
    #[arg(long, value_name = "LOAD", default_value = "idle")]
    pub(super) load: LoadArg,
    /// By whose time: counted instructions, the same in every run; or the host's, with a host's CPU for each of the board
    #[arg(long, value_name = "CLOCK", default_value = "instructions")]
    pub(super) clock: ClockArg,
    #[command(flatten)]
    pub(super) xen: XenArgs,
    /// How long the core may take to measure
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "300")]
    pub(super) timeout: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Under {
    None,
    XenShared,
    XenPartitioned,
}

impl Under {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::XenShared => "xen-shared",
            Self::XenPartitioned => "xen-partitioned",
        }
    }

    pub(super) const fn partition(self) -> Option<Partition> {
        match self {
            Self::None => None,
            Self::XenShared => Some(Partition::Shared),
            Self::XenPartitioned => Some(Partition::Partitioned),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadArg {
    Idle,
    Hog,
    Io,
}

impl LoadArg {
    pub(super) const fn load(self) -> Load {
        match self {
            Self::Idle => Load::Idle,
            Self::Hog => Load::Hog,
            Self::Io => Load::Io,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ClockArg {
    Instructions,
    Host,
}

pub(crate) fn run(args: &BoardArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let board = Board::find(&args.board)?;
    if !board.apps().iter().any(|app| app == APP) {
        return Err(CliError::Failed(format!(
            "board {} has no program `{APP}` to measure it with",
            board.name()
        )));
    }
    let document = match args.under.partition() {
        None if args.load != LoadArg::Idle
            || args.clock != ClockArg::Instructions
            || args.xen.is_given() =>
        {
            return Err(CliError::WrongUse(
                "--load, --clock and the options of Xen are for a core beside Linux: --under xen-shared or xen-partitioned".to_owned(),
            ));
        }
        None => {
            let (told, results) = alone(&board, args, &stop)?;
            document(&board, conditions(&board, &told, limits(&board)), results)
        }
        Some(partition) => under_xen::measure(&board, partition, args, &stop)?,
    };
    args.output.finish(&document, globals, text)
}

/// The core without anybody beside it.
pub(super) fn alone(
    board: &Board,
    args: &BoardArgs,
    stop: &Stop,
) -> Result<(Told, Vec<Measurement>), CliError> {
    let workspace = Workspace::make(Purpose::Latency)?;
    let folder = workspace.files().join("record");
    fs::create_dir(&folder).map_err(CliError::file("make", &folder))?;
    if board.link().is_none() {
        let told = told::alone(board, &folder, args.timeout, stop)?;
        let results = recorded(board, &told, &folder)?;
        return Ok((told, results));
    }
    let limits = (args.timeout, stop);
    let counted = match board.repeatable() {
        Some(_) => {
            let nothing = |_: &Core, _: Patience<'_>| Ok(());
            Some(told::in_pool(board, &workspace, Some(&folder), limits, nothing)?.0)
        }
        None => None,
    };
    let answers =
        |core: &Core, patience: Patience<'_>| round_trip::answer(&workspace, core, patience);
    let (mut told, from_linux) = told::in_pool(board, &workspace, None, limits, answers)?;
    let round_trips = round_trip::results(&case(board, &told), board, &mut told, &from_linux)?;
    let discarded = told.conditions.values.remove(DISCARDED_ROUND_TRIPS);
    let mut told = counted.unwrap_or(told);
    told.conditions
        .values
        .extend(discarded.map(|count| (DISCARDED_ROUND_TRIPS.to_owned(), count)));
    let mut results = recorded(board, &told, &folder)?;
    results.extend(round_trips);
    Ok((told, results))
}

fn case(board: &Board, told: &Told) -> String {
    format!("{}/none/{}", board.name(), told.conditions.values["load"])
}

/// By the core's clock, and from outside where the run was recorded.
fn recorded(board: &Board, told: &Told, folder: &Path) -> Result<Vec<Measurement>, CliError> {
    let case = case(board, told);
    let mut results = figures::by_guest(&case, told)?;
    if let Some(repeatable) = board.repeatable() {
        let recorded = Recorded {
            log: told::read(folder, &repeatable.log)?,
            edges: told::split(&told::read(folder, &repeatable.edges)?).0,
            instruction_ns: repeatable.instruction_ns,
        };
        results.extend(figures::from_outside(&case, told, &recorded)?);
    }
    Ok(results)
}

/// What the core said, and what we know.
pub(super) fn conditions(board: &Board, told: &Told, limits: &str) -> BTreeMap<String, Value> {
    let said = told.conditions.values.iter();
    let mut conditions: BTreeMap<String, Value> = said
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    conditions.insert("emulated".to_owned(), json!(board.is_emulated()));
    conditions.insert("limits".to_owned(), json!(limits));
    match board.repeatable() {
        Some(repeatable) => {
            let instruction_ns = repeatable.instruction_ns;
            conditions.insert("instruction_ns".to_owned(), json!(instruction_ns));
        }
        None => {
            let why = format!(
                "board {} has no emulator that counts its instructions, so nothing tells when an edge is on its pin",
                board.name()
            );
            conditions.insert(figures::UNSEEN.to_owned(), json!(why));
        }
    }
    conditions.insert("configuration".to_owned(), json!(Under::None.name()));
    conditions.extend([round_trip::conditions(board)]);
    conditions
}

pub(super) fn document(
    board: &Board,
    conditions: BTreeMap<String, Value>,
    results: Vec<Measurement>,
) -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        bench: BENCH.to_owned(),
        command: machine::command(),
        commit: machine::commit(),
        machine: machine::describe(board.is_emulated()),
        results,
        ratios: Vec::new(),
        conditions,
    }
}

/// What these figures can and cannot show.
fn limits(board: &Board) -> &'static str {
    if board.is_emulated() {
        "emulated: instructions are counted, caches and buses take no time; for comparing configurations, no claim about hardware"
    } else {
        "FreeRTOS is a Linux process here: shows that the program works, says nothing about latency"
    }
}

fn text(document: &Document) -> String {
    let mut text = String::new();
    let mut case = "";
    for result in &document.results {
        if case != result.case {
            case = &result.case;
            text += &format!(
                "{case}\n{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8}\n",
                "ns", "min", "p50", "p99", "p99.9", "max", "count", "exits"
            );
        }
        let exits = result
            .exits
            .map_or_else(String::new, |exits| format!("{exits:.3}"));
        text += &format!(
            "{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {exits:>8}\n",
            result.metric,
            result.min,
            result.p50,
            result.p99,
            result.p999,
            result.max,
            result.count
        );
    }
    for ratio in &document.ratios {
        text += &format!("{}: {:.3}\n", ratio.name, ratio.value);
    }
    for (key, value) in &document.conditions {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        text += &format!("{key}: {value}\n");
    }
    text
}
