//! When a group leaves, and how well that was kept.

use hdrhistogram::Histogram;

/// The source of the media, or the machine, stood still: what was missed is not made up for.
const STALL_NS: u64 = 100_000_000;
/// Errors are recorded up to this; two significant digits.
const ERROR_NS_MAX: u64 = 10_000_000_000;

/// Turns instants of the stream into instants of the system's clock, and keeps account of the spacing.
///
/// Ask [`instant`](Self::instant) when a group is to leave, wait until then, send it, and tell [`sent`](Self::sent) when that was.
#[derive(Clone, Debug)]
pub struct Pacer {
    start: Option<Start>,
    previous: Option<Previous>,
    errors: Histogram<u64>,
    stalls: u64,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    due_ns: u64,
    ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Previous {
    planned_ns: u64,
    sent_ns: u64,
}

/// How far the distances between groups were from what was planned: the absolute difference, in nanoseconds. That the packets of a
/// group leave back to back was asked for and is no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spacing {
    /// Distances measured.
    pub count: u64,
    /// Half of the errors are no larger.
    pub p50_ns: u64,
    /// 99 % are no larger.
    pub p99_ns: u64,
    /// 99.9 % are no larger.
    pub p999_ns: u64,
    /// The largest.
    pub max_ns: u64,
    /// Times that everything stood still for more than 0.1 s, and the plan was moved.
    pub stalls: u64,
}

impl Pacer {
    /// At the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        #[allow(
            clippy::expect_used,
            reason = "proof: 1 < the bound, and two digits are between 0 and 5"
        )]
        let errors = Histogram::new_with_bounds(1, ERROR_NS_MAX, 2).expect("sound bounds");
        Self {
            start: None,
            previous: None,
            errors,
            stalls: 0,
        }
    }

    /// When the group that is due at `due_ns` is to leave. The first one, at once.
    ///
    /// After a delay the groups are still apart by half of what was planned, so that two of them are no burst of twice the length.
    pub fn instant(&mut self, due_ns: u64, now_ns: u64) -> u64 {
        let planned_ns = self.planned(due_ns, now_ns);
        let Some(previous) = self.previous else {
            return planned_ns;
        };
        let gap_ns = planned_ns.saturating_sub(previous.planned_ns);
        planned_ns.max(previous.sent_ns.saturating_add(gap_ns / 2))
    }

    /// The group that is due at `due_ns` left at `sent_ns`.
    pub fn sent(&mut self, due_ns: u64, sent_ns: u64) {
        let planned_ns = self.planned(due_ns, sent_ns);
        let late_ns = sent_ns.saturating_sub(planned_ns);
        if late_ns > STALL_NS {
            self.stalls += 1;
            self.previous = None;
            self.start = Some(Start {
                due_ns,
                ns: sent_ns,
            });
            return;
        }
        if let Some(previous) = self.previous {
            let planned = planned_ns.saturating_sub(previous.planned_ns);
            let actual = sent_ns.saturating_sub(previous.sent_ns);
            self.errors.saturating_record(planned.abs_diff(actual));
        }
        self.previous = Some(Previous {
            planned_ns,
            sent_ns,
        });
    }

    /// How far the stream is at `now_ns`, for reports. None before the first group.
    #[must_use]
    pub fn position_ns(&self, now_ns: u64) -> Option<u64> {
        let start = self.start?;
        let elapsed_ns = now_ns.saturating_sub(start.ns);
        Some(start.due_ns.saturating_add(elapsed_ns))
    }

    /// How well the plan was kept so far.
    #[must_use]
    pub fn spacing(&self) -> Spacing {
        Spacing {
            count: self.errors.len(),
            p50_ns: self.errors.value_at_quantile(0.5),
            p99_ns: self.errors.value_at_quantile(0.99),
            p999_ns: self.errors.value_at_quantile(0.999),
            max_ns: self.errors.max(),
            stalls: self.stalls,
        }
    }

    /// The errors themselves, for those who merge or plot them.
    #[must_use]
    pub fn errors(&self) -> &Histogram<u64> {
        &self.errors
    }

    fn planned(&mut self, due_ns: u64, now_ns: u64) -> u64 {
        let start = *self.start.get_or_insert(Start { due_ns, ns: now_ns });
        start.ns.saturating_add(due_ns.saturating_sub(start.due_ns))
    }
}

impl Default for Pacer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_first_goes_at_once_and_the_others_as_planned() {
        let mut pacer = Pacer::new();
        assert_eq!(pacer.position_ns(5), None);
        assert_eq!(pacer.instant(7, 5), 5);
        assert_eq!(pacer.instant(7 + 3 * MS, 6), 5 + 3 * MS);
        assert_eq!(pacer.position_ns(5 + 3 * MS), Some(7 + 3 * MS));
    }

    #[test]
    fn errors_are_differences_of_distances() {
        let mut pacer = Pacer::new();
        // Always 50 us late: the distances are right all the same.
        for due_ns in (0..1000).map(|index| index * MS) {
            let instant = pacer.instant(due_ns, 0);
            pacer.sent(due_ns, instant + 50_000 * u64::from(due_ns != 0));
        }
        let spacing = pacer.spacing();
        assert_eq!((spacing.count, spacing.p50_ns), (999, 0));
        assert!((50_000..51_000).contains(&spacing.max_ns), "{spacing:?}");
    }

    #[test]
    fn after_a_delay_groups_keep_half_their_distance() {
        let mut pacer = Pacer::new();
        pacer.sent(0, 0);
        pacer.sent(10 * MS, 30 * MS); // 20 ms late
        let mut now_ns = 30 * MS;
        for (due_ns, expected) in [(20, 35), (30, 40), (40, 45), (50, 50), (60, 60)] {
            now_ns = pacer.instant(due_ns * MS, now_ns);
            assert_eq!(now_ns, expected * MS);
            pacer.sent(due_ns * MS, now_ns);
        }
        assert_eq!(pacer.spacing().stalls, 0);
    }

    #[test]
    fn a_stall_moves_the_plan() {
        let mut pacer = Pacer::new();
        pacer.sent(0, 0);
        pacer.sent(10 * MS, 500 * MS);
        assert_eq!(pacer.spacing().stalls, 1);
        assert_eq!(pacer.instant(20 * MS, 500 * MS), 510 * MS);
        assert_eq!(pacer.spacing().count, 0);
    }

    #[test]
    fn hostile_times_saturate() {
        let mut pacer = Pacer::new();
        pacer.sent(0, 1);
        assert_eq!(pacer.instant(u64::MAX, 1), u64::MAX);
    }
}
