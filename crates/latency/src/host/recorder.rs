//! What one thread found, in memory that is all there before it begins.

use hdrhistogram::Histogram;

use crate::LatencyError;
use crate::outliers::Outliers;

/// Larger samples are counted as this one, and their exact maximum is kept beside.
const VALUE_MAX_NS: u64 = 100_000_000_000;
/// Significant digits: 0.1 %.
const DIGITS: u8 = 3;

/// A histogram that never grows, and what does not fit into one.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) histogram: Histogram<u64>,
    pub(super) outliers: Outliers,
    /// Samples above [`VALUE_MAX_NS`].
    pub(super) overflow: u64,
    /// The largest sample, exactly.
    pub(super) max: u64,
    /// Cycles that could not begin in time, and were left out.
    pub(super) missed: u64,
}

impl Recorder {
    /// All of its memory is touched here, so that recording meets no page fault where memory cannot
    /// be locked.
    pub(super) fn new() -> Result<Self, LatencyError> {
        let histogram = Histogram::new_with_bounds(1, VALUE_MAX_NS, DIGITS);
        let mut histogram = histogram.map_err(|error| LatencyError::Host {
            what: format!("there is no memory for a histogram: {error:?}"),
        })?;
        histogram.reset();
        Ok(Self {
            histogram,
            outliers: Outliers::new(),
            overflow: 0,
            max: 0,
            missed: 0,
        })
    }

    /// A sample, and the instant from which it was late. Allocates nothing.
    pub(super) fn record(&mut self, began_ns: u64, sample_ns: u64) {
        self.overflow += u64::from(sample_ns > VALUE_MAX_NS);
        self.max = self.max.max(sample_ns);
        self.histogram.saturating_record(sample_ns);
        self.outliers.offer(began_ns, sample_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_kept_and_those_too_large_are_counted() {
        let mut recorder = Recorder::new().expect("small");
        for sample in [0, 1, 1000, VALUE_MAX_NS, VALUE_MAX_NS + 1, u64::MAX] {
            recorder.record(7, sample);
        }
        assert_eq!(recorder.histogram.len(), 6);
        assert_eq!((recorder.overflow, recorder.max), (2, u64::MAX));
        assert_eq!(recorder.histogram.count_between(900, 1100), 1);
        let largest = recorder.outliers.since(0).last().map(|last| last.value);
        assert_eq!(
            largest,
            Some(u64::MAX),
            "exactly, where the histogram has an end"
        );
    }
}
