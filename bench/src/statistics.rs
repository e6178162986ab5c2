//! Figures out of samples: percentiles per round, medians over rounds, quotients of rounds.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::document::Percentiles;
use crate::error::BenchError;

/// Longer than any wait here may last.
const LONGEST_NS: u64 = 60_000_000_000;
/// Figures are exact to one part in a thousand.
const DIGITS: u8 = 3;

/// An empty histogram of nanoseconds. All have the same shape, so that they can be added up.
pub(crate) fn histogram() -> Histogram<u64> {
    #[allow(
        clippy::expect_used,
        reason = "proof: the bounds are constants that the crate documents as valid"
    )]
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("valid bounds")
}

/// Notes one sample.
#[inline]
pub(crate) fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// All rounds of one case: medians, so that one disturbed round does not count.
pub(crate) fn percentiles(rounds: &[Histogram<u64>]) -> Percentiles {
    let over_rounds = |quantile: f64| {
        let values = rounds
            .iter()
            .map(|round| round.value_at_quantile(quantile) as f64);
        median(values.collect()).round() as u64
    };
    Percentiles {
        min: rounds.iter().map(Histogram::min).min().unwrap_or(0),
        p50: over_rounds(0.5),
        p99: over_rounds(0.99),
        p999: over_rounds(0.999),
        max: rounds.iter().map(Histogram::max).max().unwrap_or(0),
    }
}

/// The samples of all rounds.
pub(crate) fn sum(rounds: &[Histogram<u64>]) -> Result<Histogram<u64>, BenchError> {
    let mut all = histogram();
    for round in rounds {
        all.add(round)
            .map_err(|error| BenchError::Invalid(format!("histograms do not add up: {error:?}")))?;
    }
    Ok(all)
}

/// The samples of all rounds in the interchange format.
pub(crate) fn encode(rounds: &[Histogram<u64>]) -> Result<String, BenchError> {
    let all = sum(rounds)?;
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(&all, &mut bytes)
        .map_err(|error| {
            BenchError::Invalid(format!("a histogram cannot be written: {error:?}"))
        })?;
    Ok(STANDARD.encode(bytes))
}

/// What [`encode`] made.
pub(crate) fn decode(text: &str) -> Result<Histogram<u64>, BenchError> {
    let bytes = STANDARD
        .decode(text)
        .map_err(|error| BenchError::Invalid(format!("a histogram is no base64: {error}")))?;
    Deserializer::new()
        .deserialize(&mut &bytes[..])
        .map_err(|error| BenchError::Invalid(format!("a histogram cannot be read: {error:?}")))
}

/// The middle value; of an even number, the mean of the two in the middle. NaN of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The median, and else exact least values that so many of the figures keep.
pub(crate) fn quantile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    if share == 0.5 {
        return median(sorted);
    }
    let place = (sorted.len() as f64 * share).ceil() as usize;
    let place = place.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

/// The median of the quotients of rounds that ran next to each other: what disturbed both does not
/// count.
pub(crate) fn paired_ratio(above: &[f64], below: &[f64]) -> f64 {
    median(above.iter().zip(below).map(|(a, b)| a / b).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut made = histogram();
        for value in values {
            record(&mut made, Duration::from_nanos(value));
        }
        made
    }

    #[test]
    fn median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), 3.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let found = [0.0, 0.5, 0.99, 0.999, 1.0].map(|share| quantile(&figures, share));
        assert_eq!(found, [1.0, 50.5, 99.0, 100.0, 100.0]);
        assert!(quantile(&[], 0.99).is_nan());
    }

    #[test]
    fn one_disturbed_round_moves_only_the_maximum() {
        let calm = || round(1..=1000);
        let disturbed = round((1..=1000).map(|value| value * 50));
        let found = percentiles(&[calm(), disturbed, calm()]);
        let expected = Percentiles {
            min: 1,
            p50: 500,
            p99: 990,
            p999: 999,
            max: 50_015,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn ratios_are_of_neighbours() {
        // The machine became three times slower in the second round: the ratio did not.
        let ratio = paired_ratio(&[20.0, 60.0, 24.0], &[10.0, 30.0, 10.0]);
        assert_eq!(ratio, 2.0);
    }

    #[test]
    fn encoded_histogram_has_the_samples_of_all_rounds() {
        let text = encode(&[round([100, 200]), round([300])]).expect("encoded");
        let found = decode(&text).expect("decoded");
        assert_eq!((found.len(), found.min(), found.max()), (3, 100, 300));
        assert!(decode(&text[..8]).is_err() && decode("no").is_err());
    }

    #[test]
    fn time_beyond_the_range_still_counts() {
        let found = round([LONGEST_NS * 3]);
        assert_eq!(found.len(), 1);
        assert!(found.max() >= LONGEST_NS);
    }
}
