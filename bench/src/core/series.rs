//! The rounds of one row: what its figures are made of.

use hdrhistogram::Histogram;

use super::case::Case;

/// All rounds of one case at one size.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) case: Case,
    pub(super) size: usize,
    pub(super) rounds: Vec<Histogram<u64>>,
}

impl Series {
    pub(super) const fn new(case: Case, size: usize) -> Self {
        Self {
            case,
            size,
            rounds: Vec::new(),
        }
    }

    /// The median time of each round, which ratios are made of.
    pub(super) fn medians(&self) -> Vec<f64> {
        let median = |round: &Histogram<u64>| round.value_at_quantile(0.5) as f64;
        self.rounds.iter().map(median).collect()
    }

    /// Samples of all rounds.
    pub(super) fn count(&self) -> u64 {
        self.rounds.iter().map(Histogram::len).sum()
    }
}

#[cfg(test)]
pub(super) mod made {
    //! Series with known figures.

    use std::time::Duration;

    use super::super::case::{Payload, System, Wait};
    use super::*;
    use crate::statistics::{histogram, record};

    pub(in super::super) fn times(
        (system, wait, payload): (System, Wait, Payload),
        size: usize,
        medians: &[u64],
    ) -> Series {
        let case = Case {
            system,
            wait,
            payload,
        };
        let mut made = Series::new(case, size);
        for &median in medians {
            let mut round = histogram();
            for time in [median - 1, median, median * 3] {
                record(&mut round, Duration::from_nanos(time));
            }
            made.rounds.push(round);
        }
        made
    }
}
