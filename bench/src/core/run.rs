//! One run: one case at one size, on a core that runs.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hythe_vring::Bell;

use super::board::Running;
use super::case::{Case, System};
use super::copy::CopyEnd;
use super::hythe::HytheEnd;
use super::wait::Waiting;
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::statistics;

/// Before the first sample: caches, predictors, an emulator's translations.
const WARM_UP_MAX: u64 = 500;
const WARM_UP_MIN: u64 = 4;
/// A run whose time is over early still has so many samples.
const SAMPLES_MIN: u64 = 20;

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) count: u64,
    pub(super) time: Duration,
}

/// Measures, and audits the ledger behind it.
pub(super) fn run(
    case: Case,
    size: usize,
    budget: Budget,
    running: &Running,
    bell: &Bell,
    lookout: &Lookout,
) -> Result<Histogram<u64>, BenchError> {
    let waiting = Waiting {
        wait: case.wait,
        node: running.node(case.system),
        lookout,
    };
    let histogram = match case.system {
        System::Hythe | System::Agent => {
            let mut end = HytheEnd::open(case, size, waiting)?;
            running.check_rings(case.system)?;
            let histogram = sample(budget, lookout, |number| end.round_trip(number))?;
            end.finish()?;
            histogram
        }
        System::Copy => {
            let mut end = CopyEnd::open(case, size, waiting, running.pool(), bell)?;
            let histogram = sample(budget, lookout, |number| end.round_trip(number))?;
            end.finish()?;
            histogram
        }
    };
    running.audit(&case, size)?;
    Ok(histogram)
}

/// The times of round trips, until the budget is spent. A signal ends it between two of them: while
/// messages come, no wait looks up.
pub(super) fn sample(
    budget: Budget,
    lookout: &Lookout,
    mut round_trip: impl FnMut(u64) -> Result<(), BenchError>,
) -> Result<Histogram<u64>, BenchError> {
    let mut number = 0;
    let start = Instant::now();
    let warm_up = (budget.count / 10).clamp(WARM_UP_MIN, WARM_UP_MAX);
    while number < warm_up && (number < WARM_UP_MIN || start.elapsed() < budget.time) {
        round_trip(number)?;
        number += 1;
    }
    let mut histogram = statistics::histogram();
    let samples_min = SAMPLES_MIN.min(budget.count);
    let start = Instant::now();
    loop {
        lookout.check_stop()?;
        let sent = Instant::now();
        round_trip(number)?;
        let back = Instant::now();
        statistics::record(&mut histogram, back - sent);
        number += 1;
        let samples = histogram.len();
        let is_late = back - start >= budget.time;
        if samples >= budget.count || is_late && samples >= samples_min {
            return Ok(histogram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_of_samples_or_of_time() {
        let wanted = |count, time| {
            let budget = Budget { count, time };
            let sampled = sample(budget, &Lookout::default(), |_| Ok(()));
            sampled.expect("sampled").len()
        };
        assert_eq!(wanted(300, Duration::from_secs(60)), 300);
        assert_eq!(wanted(300, Duration::ZERO), SAMPLES_MIN);
        assert_eq!(wanted(3, Duration::ZERO), 3);
    }
}
