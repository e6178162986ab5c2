//! The rounds of one row: what its figures are made of.

use hdrhistogram::Histogram;

use super::run::Outcome;
use super::subject::Subject;
use crate::document::{Figures, Measurement, Pinned};
use crate::error::BenchError;
use crate::statistics::{encode, median, percentiles};

/// All rounds of one subject at one size.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) subject: Subject,
    pub(super) size: usize,
    rounds: Vec<Outcome>,
}

impl Series {
    pub(super) const fn new(subject: Subject, size: usize) -> Self {
        Self {
            subject,
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
            Outcome::Times(histogram) => histogram.value_at_quantile(0.5) as f64,
            Outcome::Rate { per_second, .. } => *per_second,
            Outcome::Bytes(bytes) => *bytes as f64,
        };
        self.rounds.iter().map(figure).collect()
    }

    /// In how many slots a stream was written in turn: the median over the rounds.
    fn reuse_slots(&self) -> Option<f64> {
        let slots = self.rounds.iter().map(|round| match round {
            Outcome::Rate { reuse_slots, .. } => *reuse_slots,
            Outcome::Times(_) | Outcome::Bytes(_) => None,
        });
        let slots: Option<Vec<f64>> = slots.collect();
        slots.filter(|slots| !slots.is_empty()).map(median)
    }

    /// Samples, messages or looks of all rounds.
    pub(super) fn count(&self) -> u64 {
        let count = |round: &Outcome| match round {
            Outcome::Times(histogram) => histogram.len(),
            Outcome::Rate { messages, .. } => *messages,
            Outcome::Bytes(_) => 1,
        };
        self.rounds.iter().map(count).sum()
    }

    /// The row of a stream's slots.
    pub(super) fn reuse(&self, pinned: Vec<usize>) -> Option<Measurement> {
        let value = self.reuse_slots()?;
        Some(Measurement {
            case: self.subject.to_string(),
            size_bytes: self.size,
            metric: "reuse_distance",
            unit: "slots",
            count: self.count(),
            figures: Figures::Value { value },
            kernel_copies: None,
            steady: None,
            conditions: Pinned { pinned },
        })
    }

    /// The row. `pinned`: the CPUs of the two sides.
    pub(super) fn measurement(&self, pinned: Vec<usize>) -> Result<Measurement, BenchError> {
        let histograms = self.rounds.iter().filter_map(|round| match round {
            Outcome::Times(histogram) => Some(histogram.clone()),
            Outcome::Rate { .. } | Outcome::Bytes(_) => None,
        });
        let histograms: Vec<Histogram<u64>> = histograms.collect();
        let figures = if histograms.is_empty() {
            let value = median(self.figures());
            Figures::Value { value }
        } else {
            Figures::Times {
                percentiles: percentiles(&histograms),
                histogram: encode(&histograms)?,
            }
        };
        let (metric, unit) = self.subject.metric();
        Ok(Measurement {
            case: self.subject.to_string(),
            size_bytes: self.size,
            metric,
            unit,
            count: self.count(),
            figures,
            kernel_copies: None,
            steady: None,
            conditions: Pinned { pinned },
        })
    }
}

#[cfg(test)]
pub(super) mod made {
    //! Series with known figures.

    use super::super::case::Case;
    use super::super::subject::Placement;
    use super::*;
    use crate::statistics::{histogram, record};
    use std::time::Duration;

    pub(in super::super) fn times(case: &str, size: usize, medians: &[u64]) -> Series {
        placed(case, Placement::Apart, size, medians)
    }

    pub(in super::super) fn placed(
        case: &str,
        placement: Placement,
        size: usize,
        medians: &[u64],
    ) -> Series {
        let mut made = Series::new(Subject::Exchange(Case::named(case), placement), size);
        for &median in medians {
            let mut round = histogram();
            for time in [median - 1, median, median * 3] {
                record(&mut round, Duration::from_nanos(time));
            }
            made.add(Outcome::Times(round));
        }
        made
    }

    pub(in super::super) fn rates(case: &str, values: &[f64]) -> Series {
        let subject = Subject::Exchange(Case::named(case), Placement::Apart);
        let mut made = Series::new(subject, 64);
        for &per_second in values {
            made.add(Outcome::Rate {
                messages: 10,
                per_second,
                reuse_slots: case.contains("stream").then_some(6.0),
            });
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_a_median_and_counts_all_messages() {
        let series = made::rates("hythe/poll/single", &[1e6, 9e6, 2e6]);
        let found = series.measurement(vec![0, 1]).expect("measured");
        assert_eq!(
            (found.metric, found.unit, found.count),
            ("rate", "msg/s", 30)
        );
        assert!(matches!(found.figures, Figures::Value { value } if value == 2e6));
        assert!(series.reuse(vec![0, 1]).is_none());
    }

    #[test]
    fn stream_has_a_row_of_its_slots() {
        let series = made::rates("hythe/poll/stream-4", &[1e3, 2e3]);
        let found = series.reuse(vec![0, 1]).expect("measured");
        assert_eq!((found.metric, found.unit), ("reuse_distance", "slots"));
        assert!(matches!(found.figures, Figures::Value { value } if value == 6.0));
    }
}
