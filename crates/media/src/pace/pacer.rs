//! When a group leaves, and how well that was kept.

use hdrhistogram::Histogram;

const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// The source of the media, or the machine, stood still: what was missed is not made up for.
const STALL_NS: u64 = 100_000_000;
/// Errors are recorded up to this; two significant digits.
const ERROR_NS_MAX: u64 = 10_000_000_000;

/// Turns ticks of the media clock into instants of the system's clock, and keeps account of the spacing.
///
/// Ask [`instant`](Self::instant) when a group is to leave, wait until then, send it, and tell [`sent`](Self::sent) when that was.
#[derive(Clone, Debug)]
pub struct Pacer {
    clock_hz: u32,
    start: Option<Start>,
    previous: Option<Previous>,
    errors: Histogram<u64>,
    stalls: u64,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    due: u64,
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
    /// For media with `clock_hz` ticks a second, at least 1.
    #[must_use]
    pub fn new(clock_hz: u32) -> Self {
        #[allow(
            clippy::expect_used,
            reason = "proof: 1 < the bound, and two digits are between 0 and 5"
        )]
        let errors = Histogram::new_with_bounds(1, ERROR_NS_MAX, 2).expect("sound bounds");
        Self {
            clock_hz: clock_hz.max(1),
            start: None,
            previous: None,
            errors,
            stalls: 0,
        }
    }

    /// When the group that is due at tick `due` is to leave. The first one, at once.
    ///
    /// After a delay the groups are still apart by half of what was planned, so that two of them are no burst of twice the length.
    pub fn instant(&mut self, due: u64, now_ns: u64) -> u64 {
        let planned_ns = self.planned(due, now_ns);
        let Some(previous) = self.previous else {
            return planned_ns;
        };
        let gap_ns = planned_ns.saturating_sub(previous.planned_ns);
        planned_ns.max(previous.sent_ns.saturating_add(gap_ns / 2))
    }

    /// The group that is due at `due` left at `sent_ns`.
    pub fn sent(&mut self, due: u64, sent_ns: u64) {
        let planned_ns = self.planned(due, sent_ns);
        let late_ns = sent_ns.saturating_sub(planned_ns);
        if late_ns > STALL_NS {
            self.stalls += 1;
            self.previous = None;
            self.start = Some(Start { due, ns: sent_ns });
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

    /// The tick of the media clock at `now_ns`: for reports. None before the first group.
    #[must_use]
    pub fn tick_at(&self, now_ns: u64) -> Option<u64> {
        let start = self.start?;
        let elapsed = u128::from(now_ns.saturating_sub(start.ns));
        Some(start.due + (elapsed * u128::from(self.clock_hz) / NANOS_PER_SECOND) as u64)
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

    fn planned(&mut self, due: u64, now_ns: u64) -> u64 {
        let start = *self.start.get_or_insert(Start { due, ns: now_ns });
        let ticks = u128::from(due.saturating_sub(start.due));
        let since = ticks * NANOS_PER_SECOND / u128::from(self.clock_hz);
        start
            .ns
            .saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn instants_follow_the_clock_without_adding_up_rounding() {
        let mut pacer = Pacer::new(44_100);
        assert_eq!(pacer.instant(7, 5), 5);
        assert_eq!(pacer.instant(7 + 3 * 44_100, 5), 5 + 3_000 * MS);
        assert_eq!(pacer.tick_at(5 + 3_000 * MS), Some(7 + 3 * 44_100));
    }

    #[test]
    fn errors_are_differences_of_distances() {
        let mut pacer = Pacer::new(1000);
        // Always 50 us late: the distances are right all the same.
        for due in 0..1000 {
            let instant = pacer.instant(due, 0);
            pacer.sent(due, instant + 50_000 * u64::from(due != 0));
        }
        let spacing = pacer.spacing();
        assert_eq!((spacing.count, spacing.p50_ns), (999, 0));
        assert!((50_000..51_000).contains(&spacing.max_ns), "{spacing:?}");
    }

    #[test]
    fn after_a_delay_groups_keep_half_their_distance() {
        let mut pacer = Pacer::new(1000);
        pacer.sent(0, 0);
        pacer.sent(10, 30 * MS); // 20 ms late
        let next = pacer.instant(20, 30 * MS);
        assert_eq!(next, 35 * MS);
        pacer.sent(20, next);
        assert_eq!(pacer.instant(30, next), 40 * MS);
        pacer.sent(30, 40 * MS);
        assert_eq!(pacer.instant(40, 40 * MS), 45 * MS);
        pacer.sent(40, 45 * MS);
        assert_eq!(pacer.instant(50, 45 * MS), 50 * MS);
        assert_eq!(pacer.spacing().stalls, 0);
    }

    #[test]
    fn a_stall_moves_the_plan() {
        let mut pacer = Pacer::new(1000);
        pacer.sent(0, 0);
        pacer.sent(10, 500 * MS);
        assert_eq!(pacer.spacing().stalls, 1);
        assert_eq!(pacer.instant(20, 500 * MS), 510 * MS);
        assert_eq!(pacer.spacing().count, 0);
    }

    #[test]
    fn hostile_times_saturate() {
        let mut pacer = Pacer::new(1);
        pacer.sent(0, 0);
        assert_eq!(pacer.instant(u64::MAX, 0), u64::MAX);
    }
}
