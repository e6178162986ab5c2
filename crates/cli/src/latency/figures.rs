//! What a core told as results of a document, by its own clock and from outside.

use std::collections::BTreeMap;

use hythe_latency::outside;
use hythe_latency::result::Measurement;
use serde_json::json;

use super::told::Told;
use crate::error::CliError;

/// One letter for each measure, in the order in which they are told.
const FIRST_EDGE: u8 = b'A';

/// Behind the name of a measure: by the emulator's time.
pub(super) const OUTSIDE: &str = ".outside";

/// What an emulator has recorded of a run.
pub(super) struct Recorded {
    /// Its record.
    pub(super) log: Vec<u8>,
    /// What came out of the pin.
    pub(super) edges: Vec<u8>,
    pub(super) instruction_ns: u32,
}

/// The letter that begins a sample of each measure.
pub(super) fn letters(told: &Told) -> impl Iterator<Item = (u8, &str)> {
    let names = told
        .histograms
        .iter()
        .map(|histogram| histogram.name.as_str());
    (FIRST_EDGE..).zip(names)
}

/// By the core's own clock.
pub(super) fn by_guest(case: &str, told: &Told) -> Result<Vec<Measurement>, CliError> {
    let values = &told.conditions.values;
    let clock = format!("{}, {} Hz", values["clock"], values["clock_hz"]);
    let conditions = BTreeMap::from([("clock".to_owned(), json!(clock))]);
    let mut results = Vec::new();
    for histogram in &told.histograms {
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

/// The same samples by the emulator's count of instructions.
pub(super) fn from_outside(
    case: &str,
    told: &Told,
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
    for ((letter, name), histogram) in letters(told).zip(&told.histograms) {
        let Some(interval) = intervals.get(&letter) else {
            continue;
        };
        if interval.len() != u64::from(histogram.count) {
            return Err(CliError::Failed(format!(
                "{name}: the core took {} samples, its pin showed {}",
                histogram.count,
                interval.len()
            )));
        }
        let metric = format!("{name}{OUTSIDE}");
        results.push(Measurement::of(
            case,
            &metric,
            interval,
            conditions.clone(),
        )?);
    }
    Ok(results)
}
