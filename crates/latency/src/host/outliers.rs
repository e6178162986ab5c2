//! The largest samples with their instants, in memory that is all there before the measurement begins.
//!
//! What a histogram cannot tell: whether the late ones came together, at the start, or once a second.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::result::Outlier;

/// So many are kept of each measure and CPU: enough to show a rhythm, and 4 KiB.
pub(super) const KEPT: usize = 256;

/// A sample in nanoseconds, and the instant from which it was late.
type Late = (u64, u64);

/// A heap whose top is the smallest of those kept.
#[derive(Debug)]
pub(super) struct Outliers {
    heap: BinaryHeap<Reverse<Late>>,
}

impl Outliers {
    /// All of its memory is touched here.
    pub(super) fn new() -> Self {
        let mut heap = BinaryHeap::with_capacity(KEPT);
        heap.extend(std::iter::repeat_n(Reverse((u64::MAX, u64::MAX)), KEPT));
        heap.clear();
        Self { heap }
    }

    /// Allocates nothing. Of equal samples the earliest are kept.
    pub(super) fn offer(&mut self, began_ns: u64, sample_ns: u64) {
        if self.heap.len() < KEPT {
            self.heap.push(Reverse((sample_ns, began_ns)));
            return;
        }
        if let Some(mut least) = self.heap.peek_mut()
            && sample_ns > least.0.0
        {
            *least = Reverse((sample_ns, began_ns));
        }
    }

    /// In the order of time, which is counted from the start of the measure.
    pub(super) fn since(&self, start_ns: u64) -> Vec<Outlier> {
        let late = self.heap.iter().map(|Reverse(late)| late);
        let mut found: Vec<Outlier> = late
            .map(|&(value, began_ns)| Outlier {
                at_ns: began_ns.saturating_sub(start_ns),
                value,
            })
            .collect();
        found.sort_unstable_by_key(|outlier| (outlier.at_ns, outlier.value));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_in_whatever_order_they_come() {
        let many = KEPT as u64 * 4;
        let rising: Vec<u64> = (0..many).collect();
        let falling: Vec<u64> = rising.iter().rev().copied().collect();
        let mixed: Vec<u64> = rising.iter().map(|at| at * 397 % many).collect();
        for samples in [rising, falling, mixed] {
            let mut outliers = Outliers::new();
            for (at, &sample) in samples.iter().enumerate() {
                outliers.offer(1000 + at as u64, sample);
            }
            let found = outliers.since(1000);
            assert_eq!(found.len(), KEPT);
            assert!(found.is_sorted_by_key(|outlier| outlier.at_ns));
            for outlier in found {
                assert!(outlier.value >= many - KEPT as u64, "{outlier:?}");
                assert_eq!(samples[outlier.at_ns as usize], outlier.value);
            }
        }
    }

    #[test]
    fn few_are_all_kept_and_of_equal_ones_the_first() {
        let mut outliers = Outliers::new();
        outliers.offer(7, 5);
        assert_eq!(outliers.since(10), [Outlier { at_ns: 0, value: 5 }]);
        for at in 0..1000 {
            outliers.offer(at, 9);
        }
        let last = outliers.since(0).last().map(|outlier| outlier.at_ns);
        assert_eq!(last, Some(KEPT as u64 - 1));
    }

    #[test]
    fn nothing_is_allocated_however_many_come() {
        let mut outliers = Outliers::new();
        let counted = allocation_counter::measure(|| {
            for at in 0..KEPT as u64 * 3 {
                outliers.offer(at, at);
            }
        });
        assert_eq!(counted.count_total, 0);
    }
}
