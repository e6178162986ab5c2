//! What a core told as results of a document, by its own clock and from outside.

use std::collections::BTreeMap;

use hythe_latency::core::CoreHistogram;
use hythe_latency::outside;
use hythe_latency::result::Measurement;
use serde_json::json;

use super::told::Told;
use crate::error::CliError;

/// One letter for each measure, in the order in which they are told.
const FIRST_EDGE: u8 = b'A';

/// Behind the name of a measure: by the emulator's time.
pub(super) const OUTSIDE: &str = ".outside";

/// Behind the name of a measure: without samples in which the emulator ran another CPU.
pub(super) const OWN_TURN: &str = ".own_turn";

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

/// The samples of a measure without those in which another CPU had its turn. A turn is thousands of instructions, far more than any trap:
/// as many of the largest samples are left out as the emulator's log tells of.
pub(super) fn own_turn(
    case: &str,
    histogram: &CoreHistogram,
    interleaved: u64,
) -> Result<Measurement, CliError> {
    let all = histogram.to_nanoseconds();
    let mut kept = all.clone();
    kept.reset();
    let mut left = all.len().saturating_sub(interleaved);
    for bucket in all.iter_recorded() {
        let count = bucket.count_at_value().min(left);
        // It takes what a histogram of its own shape holds.
        let _ = kept.record_n(bucket.value_iterated_to(), count);
        left -= count;
    }
    let conditions = BTreeMap::from([("left_out".to_owned(), json!(interleaved))]);
    let metric = format!("{}{OWN_TURN}", histogram.name);
    Ok(Measurement::of(case, &metric, &kept, conditions)?)
}

/// The same samples by the emulator's count of instructions, the largest with their times.
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
        let mut conditions = conditions.clone();
        let alarms = match period(told, name, histogram.tick_hz)? {
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
fn period(told: &Told, name: &str, tick_hz: u32) -> Result<Option<outside::Period>, CliError> {
    let Some(said) = told.conditions.values.get(&format!("period.{name}")) else {
        return Ok(None);
    };
    match said.parse() {
        Ok(ticks) if ticks > 0 => Ok(Some(outside::Period { ticks, tick_hz })),
        _ => Err(CliError::Failed(format!(
            "the core says that {name} has a period of {said:?} ticks"
        ))),
    }
}
