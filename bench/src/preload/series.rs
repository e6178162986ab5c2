//! All boots of one way to a file of one size, and the figures of them.
//!
//! Never throws a boot away.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::case::{FileSystem, Way};
use super::image::{Content, Image};
use super::transcript::{Outcome, Run};
use crate::document::Percentiles;
use crate::statistics;

/// One case at one size.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) file_system: FileSystem,
    pub(super) way: Way,
    pub(super) size: usize,
    outcomes: Vec<Outcome>,
}

impl Series {
    pub(super) const fn new(file_system: FileSystem, way: Way, size: usize) -> Self {
        Self {
            file_system,
            way,
            size,
            outcomes: Vec::new(),
        }
    }

    /// Is the image what its boots read from?
    pub(super) fn is_of(&self, image: &Image) -> bool {
        let is_wanted = match image.content {
            Content::File(bytes) => !self.way.is_of_application() && bytes == self.size,
            Content::Application => self.way.is_of_application(),
        };
        is_wanted && image.file_system == self.file_system
    }

    pub(super) fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Of each boot its time; of the bound the first read, from a cold boot like all others.
    pub(super) fn times(&self) -> Vec<Duration> {
        let first = self.outcomes.iter().map(|outcome| outcome.runs.first());
        first.flatten().map(|run| run.time).collect()
    }

    /// The fastest of further reads in the same boots, when the file system knew the file already
    /// (its index is in memory, its checksums are checked), though none of its pages were.
    pub(super) fn fastest_again(&self) -> Option<Duration> {
        let further = self
            .outcomes
            .iter()
            .flat_map(|outcome| outcome.runs.iter().skip(1));
        further.map(|run| run.time).min()
    }

    pub(super) fn boots(&self) -> u64 {
        self.times().len() as u64
    }

    /// Nanoseconds. NaN of nothing.
    pub(super) fn median(&self) -> f64 {
        let times = self.times().into_iter();
        statistics::median(times.map(|time| time.as_nanos() as f64).collect())
    }

    pub(super) fn fastest(&self) -> f64 {
        let fastest = self.times().into_iter().min();
        fastest.map_or(f64::NAN, |time| time.as_nanos() as f64)
    }

    /// From the fastest boot to the slowest.
    pub(super) fn range(&self) -> f64 {
        let slowest = self.times().into_iter().max();
        slowest.map_or(f64::NAN, |time| time.as_nanos() as f64) - self.fastest()
    }

    /// Exact, since boots are few: each is the least time that so many of the boots keep; the
    /// median is that of `median`.
    pub(super) fn percentiles(&self) -> Percentiles {
        let mut times = self.times();
        times.sort_unstable();
        let rank = |share: f64| {
            let place = (times.len() as f64 * share).ceil() as usize;
            times
                .get(place.saturating_sub(1))
                .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        Percentiles {
            min: rank(0.0),
            p50: self.median().round() as u64,
            p99: rank(0.99),
            p999: rank(0.999),
            max: rank(1.0),
        }
    }

    pub(super) fn histogram(&self) -> Histogram<u64> {
        let mut histogram = statistics::histogram();
        for time in self.times() {
            statistics::record(&mut histogram, time);
        }
        histogram
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.outcomes.iter().flat_map(|outcome| &outcome.runs)
    }

    /// The median of what the test program took for its reading, on the board's own clock.
    pub(super) fn guest_median(&self) -> f64 {
        let times = self.runs().map(|run| run.guest_time.as_nanos() as f64);
        statistics::median(times.collect())
    }

    /// The fewest pages of the file in memory when the real init was executed, over all boots.
    pub(super) fn resident_at_start(&self) -> Option<u64> {
        let outcomes = self.outcomes.iter();
        outcomes
            .filter_map(|outcome| outcome.resident_at_start)
            .min()
    }

    /// The same, right before they were needed.
    pub(super) fn resident_before_use(&self) -> Option<u64> {
        self.runs().map(|run| run.resident_before_use).min()
    }

    /// The least share of the pages read ahead that were still there when they were needed.
    pub(super) fn kept(&self) -> Option<f64> {
        let shares = self.outcomes.iter().filter_map(|outcome| {
            let read = outcome.resident_at_start.filter(|pages| *pages > 0)?;
            let used = outcome.runs.first()?.resident_before_use;
            Some(used as f64 / read as f64)
        });
        shares.min_by(f64::total_cmp)
    }

    /// How long the disk was busy, in nanoseconds, the median. On NAND it has nothing to do.
    pub(super) fn disk_busy(&self) -> Option<f64> {
        let outcomes = self.outcomes.iter();
        let busy = outcomes.filter_map(|outcome| outcome.disk_busy);
        let busy: Vec<f64> = busy.map(|busy| busy.as_nanos() as f64).collect();
        let is_told = !busy.is_empty() && !self.file_system.is_on_nand();
        is_told.then(|| statistics::median(busy))
    }

    /// Bytes a second off the bare flash, the median.
    pub(super) fn raw_rate(&self) -> Option<f64> {
        let rates = self.outcomes.iter();
        let rates: Vec<f64> = rates
            .filter_map(|outcome| outcome.raw_bytes_per_second)
            .collect();
        (!rates.is_empty()).then(|| statistics::median(rates))
    }

    pub(super) fn kernel(&self) -> Option<&str> {
        let mut outcomes = self.outcomes.iter();
        outcomes.find_map(|outcome| outcome.kernel.as_deref())
    }

    /// What `preload-init` said last.
    pub(super) fn said(&self) -> Option<&str> {
        let mut outcomes = self.outcomes.iter().rev();
        outcomes.find_map(|outcome| outcome.said.as_deref())
    }
}

/// Its name in results.
impl fmt::Display for Series {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.way, self.file_system)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A series with these times, in milliseconds, a boot each.
    pub(in crate::preload) fn series(way: Way, size: usize, times_ms: &[u64]) -> Series {
        let mut series = Series::new(FileSystem::Ubifs, way, size);
        for ms in times_ms {
            series.add(outcome(&[*ms], 0, 0));
        }
        series
    }

    pub(in crate::preload) fn outcome(times_ms: &[u64], at_start: u64, before_use: u64) -> Outcome {
        let run = |ms: &u64| Run {
            time: Duration::from_millis(*ms),
            resident_before_use: before_use,
            ..Run::default()
        };
        Outcome {
            runs: times_ms.iter().map(run).collect(),
            resident_at_start: Some(at_start),
            ..Outcome::default()
        }
    }

    #[test]
    fn of_several_reads_in_a_boot_the_first_counts() {
        let mut bound = Series::new(FileSystem::Ubifs, Way::Bound, 1);
        bound.add(outcome(&[520, 500], 0, 0));
        bound.add(outcome(&[510, 490], 0, 0));
        bound.add(outcome(&[540, 500], 0, 0));
        assert_eq!(bound.boots(), 3);
        assert_eq!(bound.fastest(), 510e6);
        assert_eq!(bound.median(), 520e6);
        assert_eq!(bound.range(), 30e6);
        assert_eq!(bound.fastest_again(), Some(Duration::from_millis(490)));
    }

    #[test]
    fn percentiles_of_few_boots_are_boots() {
        let times: Vec<u64> = (1..=5).map(|boot| boot * 100).collect();
        let found = series(Way::Plain, 1, &times).percentiles();
        let expected = Percentiles {
            min: 100_000_000,
            p50: 300_000_000,
            p99: 500_000_000,
            p999: 500_000_000,
            max: 500_000_000,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn one_boot_that_lost_pages_shows() {
        let mut budget = Series::new(FileSystem::Ubifs, Way::Budget, 1);
        budget.add(outcome(&[1], 512, 512));
        assert_eq!(budget.kept(), Some(1.0));
        budget.add(outcome(&[1], 512, 256));
        assert_eq!(budget.kept(), Some(0.5));
        assert_eq!(budget.resident_before_use(), Some(256));
        assert_eq!(series(Way::Plain, 1, &[5]).kept(), None);
    }
}
