//! `hythe latency board`: runs `rtos/apps/rhealstone` on a board, takes what it tells, and times the edges on its pin from outside.
//!
//! The core measures by itself, before anything of Linux reaches it. Never judges the figures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use hythe::rtcore::{Board, Core, CoreOptions, CoreState, Repeatable, run_alone};
use hythe::{Node, Subscriber, SubscriberOptions};
use hythe_latency::core::{Conditions, CoreHistogram, serial};
use hythe_latency::result::{BENCH, Document, Measurement, SCHEMA};
use hythe_latency::{machine, outside};
use serde_json::{Value, json};

use crate::args::Globals;
use crate::error::CliError;
use crate::output;
use crate::stop::{LOOK, Stop};
use crate::units;
use crate::workspace::{Purpose, Workspace};

/// The program that measures.
const APP: &str = "rhealstone";
/// The channel on which it tells.
const CHANNEL: &str = "latency";
/// Records that may wait for us.
const DEPTH: u32 = 32;
/// What a core may say that it tells of; more is a broken program.
const HISTOGRAMS_MAX: usize = 64;
/// One letter for each measure, in the order in which they are told.
const FIRST_EDGE: u8 = b'A';

/// Which board, and how.
#[derive(Args, Debug)]
pub(crate) struct BoardArgs {
    /// The board
    board: String,
    /// How long the core may take to measure
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "120")]
    timeout: Duration,
}

/// What a core told.
struct Told {
    conditions: Conditions,
    histograms: Vec<CoreHistogram>,
}

impl Told {
    /// `next` gives one record after the other.
    fn take(mut next: impl FnMut() -> Result<Vec<u8>, CliError>) -> Result<Self, CliError> {
        let conditions = Conditions::read(&next()?)?;
        let count = conditions.histograms;
        if count > HISTOGRAMS_MAX {
            return Err(CliError::Failed(format!(
                "the core says that it has {count} histograms; {HISTOGRAMS_MAX} are the most"
            )));
        }
        let mut histograms = Vec::new();
        for _ in 0..count {
            histograms.push(CoreHistogram::read(&next()?)?);
        }
        Ok(Self {
            conditions,
            histograms,
        })
    }
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
    let workspace = Workspace::make(Purpose::Latency)?;
    let record = workspace.files().join("record");
    fs::create_dir(&record).map_err(CliError::file("make", &record))?;
    let told = if board.link().is_some() {
        measure_in_pool(&board, &workspace, &record, args.timeout, &stop)?
    } else {
        measure_alone(&board, &record, args.timeout, &stop)?
    };
    let document = document(&board, &told, &record)?;
    output::print(globals.json, &document, text)
}

/// Runs the core, beside whose pool it tells, until it has told everything.
fn measure_in_pool(
    board: &Board,
    workspace: &Workspace,
    record: &Path,
    timeout: Duration,
    stop: &Stop,
) -> Result<Told, CliError> {
    let node = Node::join(&workspace.pool, "hythe latency")?;
    let mut subscriber = node.subscriber(CHANNEL, &SubscriberOptions::default().depth(DEPTH))?;
    let mut options = CoreOptions::default().app(APP).start_bound(timeout);
    if board.repeatable().is_some() {
        options = options.record(record);
    }
    let core = Core::start_unless(&workspace.pool, board, &options, || stop.asked())?;
    let deadline = Instant::now() + timeout;
    let told = Told::take(|| next(&mut subscriber, &core, deadline, stop))?;
    drop(subscriber);
    // It ends in order, and its emulator writes its record to the end.
    core.stop()?;
    Ok(told)
}

/// Runs a core that tells over its serial line and ends by itself.
fn measure_alone(
    board: &Board,
    record: &Path,
    timeout: Duration,
    stop: &Stop,
) -> Result<Told, CliError> {
    run_alone(board, APP, record, timeout, || stop.asked())?;
    let Some(repeatable) = board.repeatable() else {
        // Boards without memory or a record are refused when they are read.
        return Err(CliError::Failed("there is no record".to_owned()));
    };
    let (_, console) = split(&read(record, &repeatable.edges)?);
    let mut records = serial::records(&console)?.into_iter();
    Told::take(|| {
        records.next().ok_or_else(|| {
            let said: Vec<&str> = console
                .lines()
                .filter(|line| !line.starts_with('@'))
                .collect();
            CliError::Failed(format!(
                "the core ended before it had told everything; its console says: {}",
                said.join(" | ")
            ))
        })
    })
}

fn read(record: &Path, name: &str) -> Result<Vec<u8>, CliError> {
    let path = record.join(name);
    fs::read(&path).map_err(CliError::file("read", path))
}

/// What came over a serial line: first the edges of the pin, then, in lines, what the core told.
fn split(bytes: &[u8]) -> (Vec<u8>, String) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (edges, console) = bytes.split_at(end.unwrap_or(bytes.len()));
    (
        edges.to_vec(),
        String::from_utf8_lossy(console).into_owned(),
    )
}

/// The next record, as bytes of our own.
fn next(
    subscriber: &mut Subscriber,
    core: &Core,
    deadline: Instant,
    stop: &Stop,
) -> Result<Vec<u8>, CliError> {
    loop {
        if let Some(sample) = subscriber.take(LOOK)? {
            return Ok(sample.to_vec());
        }
        let status = core.status();
        let why = if stop.asked() {
            "interrupted".to_owned()
        } else if status.state == CoreState::Stopped {
            let reason = status.reason.unwrap_or_default();
            format!("the core ended before it had told everything: {reason}")
        } else if Instant::now() > deadline {
            "the core did not tell its figures in time; --timeout gives it more".to_owned()
        } else {
            continue;
        };
        return Err(CliError::Failed(why));
    }
}

fn document(board: &Board, told: &Told, record: &Path) -> Result<Document, CliError> {
    let case = format!("{}/none/{}", board.name(), told.conditions.values["load"]);
    let mut conditions: BTreeMap<String, Value> = told
        .conditions
        .values
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    conditions.insert("emulated".to_owned(), json!(board.is_emulated()));
    conditions.insert("configuration".to_owned(), json!("none"));
    conditions.insert("limits".to_owned(), json!(limits(board)));
    let guest = format!(
        "{}, {} Hz",
        told.conditions.values["clock"], told.conditions.values["clock_hz"]
    );
    let mut results = Vec::new();
    for histogram in &told.histograms {
        let clock = BTreeMap::from([("clock".to_owned(), json!(guest))]);
        results.push(Measurement::of(
            &case,
            &histogram.name,
            &histogram.to_nanoseconds(),
            clock,
        )?);
    }
    if let Some(repeatable) = board.repeatable() {
        results.extend(seen_from_outside(&case, told, record, repeatable)?);
        let instruction_ns = repeatable.instruction_ns;
        conditions.insert("instruction_ns".to_owned(), json!(instruction_ns));
    }
    Ok(Document {
        schema: SCHEMA.to_owned(),
        bench: BENCH.to_owned(),
        command: machine::command(),
        commit: machine::commit(),
        machine: machine::describe(board.is_emulated()),
        results,
        ratios: Vec::new(),
        conditions,
    })
}

/// What these figures can and cannot show.
fn limits(board: &Board) -> &'static str {
    if board.is_emulated() {
        "emulated: instructions are counted, caches and buses take no time; for comparing configurations, no claim about hardware"
    } else {
        "FreeRTOS is a Linux process here: shows that the program works, says nothing about latency"
    }
}

/// The same samples by the emulator's count of instructions.
fn seen_from_outside(
    case: &str,
    told: &Told,
    record: &Path,
    repeatable: &Repeatable,
) -> Result<Vec<Measurement>, CliError> {
    let (edges, _) = split(&read(record, &repeatable.edges)?);
    let edges = outside::edges(&read(record, &repeatable.log)?, &edges)?;
    let intervals = outside::intervals(&edges, repeatable.instruction_ns);
    let clock = format!(
        "outside of the guest: instructions of {} ns between edges on its pin",
        repeatable.instruction_ns
    );
    let mut results = Vec::new();
    for (letter, histogram) in (FIRST_EDGE..).zip(&told.histograms) {
        let Some(interval) = intervals.get(&letter) else {
            continue;
        };
        if interval.len() != u64::from(histogram.count) {
            return Err(CliError::Failed(format!(
                "{}: the core took {} samples, its pin showed {}",
                histogram.name,
                histogram.count,
                interval.len()
            )));
        }
        let conditions = BTreeMap::from([("clock".to_owned(), json!(clock))]);
        let metric = format!("{}.outside", histogram.name);
        results.push(Measurement::of(case, &metric, interval, conditions)?);
    }
    Ok(results)
}

fn text(document: &Document) -> String {
    let mut text = format!(
        "{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}\n",
        "ns", "min", "p50", "p99", "p99.9", "max", "count"
    );
    for result in &document.results {
        text += &format!(
            "{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8}\n",
            result.metric,
            result.min,
            result.p50,
            result.p99,
            result.p999,
            result.max,
            result.count
        );
    }
    for (key, value) in &document.conditions {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        text += &format!("{key}: {value}\n");
    }
    text
}
