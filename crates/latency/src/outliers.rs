//! The largest samples with their instants, in memory that is all there before the measurement
//! begins.
//!
//! What a histogram cannot tell: whether the late ones came together, at the start, or once a
//! second. Called for each sample by whoever has its instant: the threads that measure this machine
//! ([`crate::host`]), and the reader of a board's edges ([`crate::outside`]). Never allocates for a
//! sample, and never keeps some of those that are equally late: which of them would be chance, and
//! look like a burst.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::result::Outlier;

/// So many are kept at most of each measure and CPU: enough to show a rhythm, and 4 KiB.
pub(crate) const KEPT: usize = 256;

/// A sample in nanoseconds, and the instant from which it was late.
type Late = (u64, u64);

/// A heap whose top is the smallest of those kept.
#[derive(Debug)]
pub(crate) struct Outliers {
    heap: BinaryHeap<Reverse<Late>>,
    /// The largest sample for which there was no free capacity; no larger than any in the heap.
    left_out: Option<u64>,
}

impl Outliers {
    /// All of its memory is touched here.
    pub(crate) fn new() -> Self {
        let mut heap = BinaryHeap::with_capacity(KEPT);
        heap.extend(std::iter::repeat_n(Reverse((u64::MAX, u64::MAX)), KEPT));
        heap.clear();
        Self {
            heap,
            left_out: None,
        }
    }

    /// Allocates nothing.
    pub(crate) fn offer(&mut self, began_ns: u64, sample_ns: u64) {
        if self.heap.len() < KEPT {
            self.heap.push(Reverse((sample_ns, began_ns)));
            return;
        }
        let mut left_out = sample_ns;
        if let Some(mut least) = self.heap.peek_mut()
            && sample_ns > least.0.0
        {
            left_out = least.0.0;
            *least = Reverse((sample_ns, began_ns));
        }
        self.left_out = self.left_out.max(Some(left_out));
    }

    /// In the order of time, which is counted from the start of the measure. Of equal samples all
    /// or none; if even the largest is too frequent for that, the first of it alone.
    pub(crate) fn since(&self, start_ns: u64) -> Vec<Outlier> {
        let late = self.heap.iter().map(|Reverse(late)| late);
        let whole = late.clone().filter(|late| Some(late.0) > self.left_out);
        let first = late.min_by_key(|late| late.1);
        let only_first = first.filter(|_| whole.clone().next().is_none());
        let late = whole.chain(only_first);
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
    fn largest_are_kept_in_whatever_order_they_come() {
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
    fn few_are_all_kept_and_of_too_many_largest_ones_the_first() {
        let mut outliers = Outliers::new();
        assert_eq!(outliers.since(0), []);
        outliers.offer(7, 5);
        assert_eq!(outliers.since(10), [Outlier { at_ns: 0, value: 5 }]);
        for at in 1..1000 {
            outliers.offer(at, 9);
        }
        assert_eq!(outliers.since(0), [Outlier { at_ns: 1, value: 9 }]);
    }

    #[test]
    fn of_equal_samples_there_are_all_or_none() {
        let kept = |samples: &[(u64, u64)]| {
            let mut outliers = Outliers::new();
            let mut at = 0;
            for &(count, sample) in samples {
                for _ in 0..count {
                    outliers.offer(at, sample);
                    at += 1;
                }
            }
            let found = outliers.since(0);
            let least = found.iter().map(|outlier| outlier.value).min();
            (found.len() as u64, least)
        };
        let most = KEPT as u64;
        let usual = (10_000, 1);
        assert_eq!(kept(&[usual, (3, 9), usual, (2, 7)]), (5, Some(7)));
        assert_eq!(
            kept(&[(3, 9), (most, 5)]),
            (3, Some(9)),
            "one has no free capacity"
        );
        assert_eq!(kept(&[(most, 5), (3, 9)]), (3, Some(9)), "also at last");
        assert_eq!(kept(&[(3, 9), (most - 3, 5)]), (most, Some(5)));
        assert_eq!(kept(&[(3, 9), (most - 3, 5), usual]), (most, Some(5)));
        assert_eq!(kept(&[usual, (most, 5)]), (most, Some(5)));
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
