//! The rounds of one case at one size, and the ratios between series.

use hdrhistogram::Histogram;

use super::case::{Case, Pattern, System, Wait, word};
use super::run::Outcome;
use crate::document::{Figures, Measurement, Pinned, Ratio};
use crate::error::BenchError;
use crate::statistics::{encode, median, paired_ratio, percentiles};

/// All rounds of one case at one size.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) case: Case,
    pub(super) size: usize,
    rounds: Vec<Outcome>,
}

impl Series {
    pub(super) const fn new(case: Case, size: usize) -> Self {
        Self {
            case,
            size,
            rounds: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, round: Outcome) {
        self.rounds.push(round);
    }

    /// The figure of each round that ratios are made of: the median time, or the rate.
    pub(super) fn figures(&self) -> Vec<f64> {
        let figure = |round: &Outcome| match round {
            Outcome::RoundTrips(histogram) => histogram.value_at_quantile(0.5) as f64,
            Outcome::Rate { per_second, .. } => *per_second,
        };
        self.rounds.iter().map(figure).collect()
    }

    pub(super) fn measurement(&self, pinned: &Pinned) -> Result<Measurement, BenchError> {
        let (mut histograms, mut count): (Vec<Histogram<u64>>, u64) = (Vec::new(), 0);
        for round in &self.rounds {
            match round {
                Outcome::RoundTrips(histogram) => {
                    count += histogram.len();
                    histograms.push(histogram.clone());
                }
                Outcome::Rate { messages, .. } => count += messages,
            }
        }
        let (metric, unit, figures) = if histograms.is_empty() {
            let value = median(self.figures());
            ("rate", "msg/s", Figures::Value { value })
        } else {
            let figures = Figures::Times {
                percentiles: percentiles(&histograms),
                histogram: encode(&histograms)?,
            };
            ("round_trip", "ns", figures)
        };
        Ok(Measurement {
            case: self.case.to_string(),
            size_bytes: self.size,
            metric,
            unit,
            count,
            figures,
            conditions: pinned.clone(),
        })
    }
}

/// Every comparison that these series allow.
pub(super) fn ratios(series: &[Series]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for above in series {
        for below in series.iter().filter(|below| below.size == above.size) {
            if let Some(name) = comparison(above.case, below.case) {
                ratios.push(ratio(name, above, below));
            }
        }
    }
    for wait in [Wait::Poll, Wait::Block, Wait::Adaptive] {
        let case = Case {
            system: System::Hythe,
            wait,
            pattern: Pattern::Untouched,
        };
        let of_case = || series.iter().filter(|series| series.case == case);
        let smallest = of_case().min_by_key(|series| series.size);
        let largest = of_case().max_by_key(|series| series.size);
        if let (Some(smallest), Some(largest)) = (smallest, largest)
            && smallest.size < largest.size
        {
            let name = format!(
                "hythe {} untouched p50 largest/smallest size",
                word(case.wait)
            );
            ratios.push(ratio(name, largest, smallest));
        }
    }
    ratios
}

fn ratio(name: String, above: &Series, below: &Series) -> Ratio {
    Ratio {
        name,
        size_bytes: above.size,
        value: paired_ratio(&above.figures(), &below.figures()),
    }
}

/// What the quotient of the two is called, if anybody wants to know it: hythe by its floor, others by hythe.
fn comparison(above: Case, below: Case) -> Option<String> {
    if above.pattern != below.pattern {
        return None;
    }
    let pattern = word(above.pattern);
    let metric = match above.pattern {
        Pattern::Single => "rate",
        Pattern::Untouched | Pattern::Filled => "p50",
    };
    let systems = (above.system, below.system);
    let waits = (above.wait, below.wait);
    match (systems, waits) {
        ((System::Hythe, System::Floor) | (System::Unix | System::Pipe, System::Hythe), _)
            if above.wait == below.wait =>
        {
            let (above, below, wait) = (word(systems.0), word(systems.1), word(waits.0));
            Some(format!("{above}/{below} {wait} {pattern} {metric}"))
        }
        (
            (System::Hythe, System::Hythe),
            (Wait::Adaptive, Wait::Poll) | (Wait::Adaptive, Wait::Block),
        ) => {
            let (above, below) = (word(waits.0), word(waits.1));
            Some(format!("hythe {above}/{below} {pattern} {metric}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{histogram, record};
    use std::time::Duration;

    fn times(case: &str, size: usize, medians: &[u64]) -> Series {
        let mut made = Series::new(case.parse().expect("a case"), size);
        for &median in medians {
            let mut round = histogram();
            for time in [median - 1, median, median * 3] {
                record(&mut round, Duration::from_nanos(time));
            }
            made.add(Outcome::RoundTrips(round));
        }
        made
    }

    fn rates(case: &str, values: &[f64]) -> Series {
        let mut made = Series::new(case.parse().expect("a case"), 64);
        for &per_second in values {
            made.add(Outcome::Rate {
                messages: 10,
                per_second,
            });
        }
        made
    }

    #[test]
    fn ratios_compare_like_with_like() {
        let series = [
            times("floor/poll/untouched", 8, &[100, 400]),
            times("hythe/poll/untouched", 8, &[150, 600]),
            times("hythe/poll/untouched", 64, &[300, 1200]),
            times("hythe/adaptive/untouched", 64, &[330, 1320]),
            times("unix/block/filled", 64, &[900, 900]),
            rates("floor/poll/single", &[8e6]),
            rates("hythe/poll/single", &[2e6]),
        ];
        let found: Vec<(String, usize, f64)> = ratios(&series)
            .into_iter()
            .map(|ratio| (ratio.name, ratio.size_bytes, ratio.value))
            .collect();
        let expected = [
            ("hythe/floor poll untouched p50", 8, 1.5),
            ("hythe adaptive/poll untouched p50", 64, 1.1),
            ("hythe/floor poll single rate", 64, 0.25),
            ("hythe poll untouched p50 largest/smallest size", 64, 2.0),
        ];
        let expected = expected.map(|(name, size, value)| (name.to_owned(), size, value));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_rate_is_a_median_and_counts_all_messages() {
        let pinned = Pinned { pinned: vec![0, 1] };
        let series = rates("hythe/poll/single", &[1e6, 9e6, 2e6]);
        let found = series.measurement(&pinned).expect("measured");
        assert_eq!(
            (found.metric, found.unit, found.count),
            ("rate", "msg/s", 30)
        );
        assert!(matches!(found.figures, Figures::Value { value } if value == 2e6));
    }
}
