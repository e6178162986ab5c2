//! The output of the measuring program as a document: results by its own clock and from outside,
//! and their conditions.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use hythe::core::Board;
use hythe_command::error::CliError;
use hythe_latency::result::{BENCH, Document, Measurement, SCHEMA};
use hythe_latency::xen::GuestCpuInstructions;
use hythe_latency::{machine, outside};
use serde_json::{Value, json};

use super::board_args::Under;
use super::board_output::BoardOutput;
use super::round_trip;

/// One letter for each measure, in the order in which the program reports them.
const FIRST_EDGE: u8 = b'A';

/// Behind the name of a measure: by the emulator's time.
pub(super) const OUTSIDE: &str = ".outside";

/// Behind the name of a measure: by the instructions of the core's own CPU.
pub(super) const GUEST_CPU_INSTRUCTIONS: &str = ".guest_cpu_instructions";

/// The condition that says why nobody sees the samples from outside, where nobody does.
pub(super) const UNSEEN: &str = "absent.outside";

/// What an emulator has recorded of a run.
pub(super) struct Recorded {
    /// Its record.
    pub(super) log: Vec<u8>,
    /// What came out of the pin.
    pub(super) edges: Vec<u8>,
    pub(super) instruction_ns: u32,
}

/// The letter that begins a sample of each measure.
pub(super) fn letters(output: &BoardOutput) -> impl Iterator<Item = (u8, &str)> {
    let names = output
        .histograms
        .iter()
        .map(|histogram| histogram.name.as_str());
    (FIRST_EDGE..).zip(names)
}

/// By the core's own clock.
pub(super) fn by_guest(case: &str, output: &BoardOutput) -> Result<Vec<Measurement>, CliError> {
    let values = &output.conditions.values;
    let clock = format!("{}, {} Hz", values["clock"], values["clock_hz"]);
    let conditions = BTreeMap::from([("clock".to_owned(), json!(clock))]);
    let mut results = Vec::new();
    for histogram in &output.histograms {
        let samples = histogram.to_nanoseconds();
        results.push(Measurement::of(
            case,
            &histogram.name,
            &samples,
            conditions.clone(),
        )?);
    }
    Ok(results)
}

/// Samples by what the core's own CPU executed, whatever another CPU did meanwhile.
pub(super) fn guest_cpu_instructions(
    case: &str,
    output: &BoardOutput,
    counted: &BTreeMap<u8, GuestCpuInstructions>,
    instruction_ns: u32,
) -> Result<Vec<Measurement>, CliError> {
    let clock = format!(
        "outside of the guest: instructions of {instruction_ns} ns that the core's CPU executed between edges on its pin"
    );
    let mut results = Vec::new();
    for (letter, name) in letters(output) {
        let Some(own) = counted.get(&letter) else {
            continue;
        };
        let conditions = BTreeMap::from(
            [
                ("clock", json!(clock)),
                ("first_sample", json!(own.first)),
                ("samples_with_a_turn_of_another_cpu", json!(own.with_a_turn)),
                ("executed_instructions", json!(own.executed)),
                ("interrupts", json!(own.interrupts)),
                ("by_exits", by_exits(own, instruction_ns)),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        let exits: u64 = own
            .by_exits
            .iter()
            .map(|(exits, samples)| exits * samples.len())
            .sum();
        let samples = in_nanoseconds(&own.instructions, instruction_ns);
        let metric = format!("{name}{GUEST_CPU_INSTRUCTIONS}");
        results.push(Measurement {
            exits: Some(exits as f64 / samples.len().max(1) as f64),
            ..Measurement::of(case, &metric, &samples, conditions)?
        });
    }
    Ok(results)
}

/// What samples took that met with so many exits.
fn by_exits(own: &GuestCpuInstructions, instruction_ns: u32) -> Value {
    let of = |(exits, samples): (&u64, &Histogram<u64>)| {
        let samples = in_nanoseconds(samples, instruction_ns);
        json!({
            "exits": exits,
            "samples": samples.len(),
            "min": samples.min(),
            "p50": samples.value_at_quantile(0.5),
            "p999": samples.value_at_quantile(0.999),
            "max": samples.max(),
        })
    };
    own.by_exits.iter().map(of).collect()
}

fn in_nanoseconds(instructions: &Histogram<u64>, instruction_ns: u32) -> Histogram<u64> {
    let mut nanoseconds = Histogram::new_from(instructions);
    for bucket in instructions.iter_recorded() {
        let value = bucket.value_iterated_to() * u64::from(instruction_ns);
        // A histogram that resizes itself takes every value.
        let _ = nanoseconds.record_n(value, bucket.count_at_value());
    }
    nanoseconds
}

/// The same samples by the emulator's count of instructions, the largest with their times.
pub(super) fn from_outside(
    case: &str,
    output: &BoardOutput,
    recorded: &Recorded,
) -> Result<Vec<Measurement>, CliError> {
    let edges = outside::edges(&recorded.log, &recorded.edges)?;
    let intervals = outside::intervals(&edges, recorded.instruction_ns);
    let clock = format!(
        "outside of the guest: instructions of {} ns between edges on its pin",
        recorded.instruction_ns
    );
    let conditions = BTreeMap::from([("clock".to_owned(), json!(clock))]);
    let mut results = Vec::new();
    for ((letter, name), histogram) in letters(output).zip(&output.histograms) {
        let mut conditions = conditions.clone();
        let alarms = match period(output, name, histogram.tick_hz)? {
            Some(period) => {
                let alarms = outside::alarms(
                    &edges,
                    letter.to_ascii_lowercase(),
                    period,
                    recorded.instruction_ns,
                )?;
                let within = json!(alarms.programmed_within_ns);
                conditions.insert("programmed_within_ns".to_owned(), within);
                Some(alarms.lateness)
            }
            None => None,
        };
        let Some(seen) = alarms.as_ref().or_else(|| intervals.get(&letter)) else {
            continue;
        };
        if seen.histogram.len() != u64::from(histogram.count) {
            return Err(CliError::Failed(format!(
                "{name}: the core took {} samples, its pin showed {}",
                histogram.count,
                seen.histogram.len()
            )));
        }
        let metric = format!("{name}{OUTSIDE}");
        results.push(Measurement {
            outliers: seen.outliers.clone(),
            lasted_ns: Some(seen.lasted_ns),
            ..Measurement::of(case, &metric, &seen.histogram, conditions)?
        });
    }
    Ok(results)
}

/// Of a measure whose samples are a timer's alarms.
fn period(
    output: &BoardOutput,
    name: &str,
    tick_hz: u32,
) -> Result<Option<outside::Period>, CliError> {
    let Some(said) = output.conditions.values.get(&format!("period.{name}")) else {
        return Ok(None);
    };
    match said.parse() {
        Ok(ticks) if ticks > 0 => Ok(Some(outside::Period { ticks, tick_hz })),
        _ => Err(CliError::Failed(format!(
            "the core says that {name} has a period of {said:?} ticks"
        ))),
    }
}

/// What the core said, and what we know.
pub(super) fn conditions(
    board: &Board,
    output: &BoardOutput,
    limits: &str,
) -> BTreeMap<String, Value> {
    let said = output.conditions.values.iter();
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
                "board {} has no emulator that counts its instructions, so nothing tells when an \
                 edge is on its pin",
                board.name()
            );
            conditions.insert(UNSEEN.to_owned(), json!(why));
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
