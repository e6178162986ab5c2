//! What both systems do: messages of a content of their own, there and back, and their times.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use crate::Failure;

/// As in `hythe-bench`: what both find can be added up.
const LONGEST_NS: u64 = 60_000_000_000;
const DIGITS: u8 = 3;
const WARM_UP_MAX: u64 = 1000;
const WARM_UP_MIN: u64 = 16;
const SAMPLES_MIN: u64 = 20;

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

/// Writes message `number`.
pub(crate) fn fill(bytes: &mut [u8], number: u64) {
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&number.to_ne_bytes());
    }
}

/// Reads all of it.
pub(crate) fn check(bytes: &[u8], number: u64) -> Result<(), Failure> {
    let expected = number.to_ne_bytes();
    match bytes.chunks_exact(8).all(|word| word == expected) {
        true => Ok(()),
        false => Err(format!("message {number} is damaged").into()),
    }
}

/// There and back, as often as the budget allows.
pub(crate) fn round_trips(
    budget: Budget,
    mut round_trip: impl FnMut(u64) -> Result<(), Failure>,
) -> Result<Histogram<u64>, Failure> {
    let mut number = 0;
    let warm_up = (budget.count / 10).clamp(WARM_UP_MIN, WARM_UP_MAX);
    let start = Instant::now();
    while number < warm_up && (number == 0 || start.elapsed() < budget.time) {
        round_trip(number)?;
        number += 1;
    }
    let mut times = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)?;
    let start = Instant::now();
    loop {
        let sent = Instant::now();
        round_trip(number)?;
        let back = Instant::now();
        let taken = (back - sent).as_nanos();
        times.saturating_record(u64::try_from(taken).unwrap_or(u64::MAX));
        number += 1;
        let is_late = back - start >= budget.time;
        if times.len() >= budget.count || is_late && times.len() >= SAMPLES_MIN.min(budget.count) {
            return Ok(times);
        }
    }
}

/// Base64 of an HdrHistogram V2.
pub(crate) fn encode(times: &Histogram<u64>) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let serialized = V2Serializer::new().serialize(times, &mut bytes);
    serialized.map_err(|error| format!("a histogram cannot be written: {error:?}"))?;
    Ok(STANDARD.encode(bytes))
}
