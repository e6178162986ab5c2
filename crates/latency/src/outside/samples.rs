//! What was seen of a measure from outside: its samples, and when the largest came.

use hdrhistogram::Histogram;

use crate::outliers::Outliers;
use crate::result::Outlier;

/// Of one measure, in nanoseconds of counted instructions.
#[derive(Clone, Debug)]
pub struct Samples {
    /// All of them.
    pub histogram: Histogram<u64>,
    /// The largest, in the order of time since the measure's first edge.
    pub outliers: Vec<Outlier>,
    /// From the measure's first edge to the end of its last sample.
    pub lasted_ns: u64,
}

/// Samples while they come.
pub(super) struct Gathering {
    histogram: Histogram<u64>,
    outliers: Outliers,
    start_ns: u64,
    end_ns: u64,
}

impl Gathering {
    /// Of a measure whose first edge was at this time.
    pub(super) fn new(start_ns: u64) -> Self {
        #[allow(
            clippy::expect_used,
            reason = "proof: 4 digits are documented as valid"
        )]
        let histogram = Histogram::new(4).expect("a constant");
        Self {
            histogram,
            outliers: Outliers::new(),
            start_ns,
            end_ns: start_ns,
        }
    }

    /// A sample, and when that began from which it is counted.
    pub(super) fn add(&mut self, began_ns: u64, sample_ns: u64) {
        // A histogram that resizes itself takes every value.
        let _ = self.histogram.record(sample_ns);
        self.outliers.offer(began_ns, sample_ns);
        self.end_ns = self.end_ns.max(began_ns.saturating_add(sample_ns));
    }

    pub(super) fn end(self) -> Samples {
        Samples {
            outliers: self.outliers.since(self.start_ns),
            lasted_ns: self.end_ns - self.start_ns,
            histogram: self.histogram,
        }
    }
}
