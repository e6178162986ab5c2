//! The instants at which a thread wakes, and when it has had enough of them.

use super::crew::Start;
use super::plan::{Plan, Until};

/// The rhythm of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    interval_ns: u64,
    /// From the common start: so that neighbours are not woken at the same instant.
    offset_ns: u64,
    until: Until,
}

impl Cycle {
    /// Of the thread at `place` of `places` in a row, in which the last is the neighbour of the
    /// first.
    pub(super) fn new(plan: &Plan, place: usize, places: usize) -> Self {
        let interval_ns = u64::try_from(plan.interval.as_nanos()).unwrap_or(u64::MAX);
        // Two phases keep neighbours apart, and a third closes a ring of odd length.
        let is_odd_one = places % 2 == 1 && places > 1 && place == places - 1;
        let phase = if is_odd_one { 2 } else { place as u64 % 2 };
        Self {
            interval_ns,
            offset_ns: interval_ns / 3 * phase,
            until: plan.until,
        }
    }

    pub(super) fn begin(self, start_ns: u64) -> Cycles {
        let first = start_ns + self.offset_ns;
        let (end_ns, loops) = match self.until {
            Until::Elapsed(time) => {
                let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                (first.saturating_add(time), u64::MAX)
            }
            Until::Loops(loops) => (u64::MAX, loops),
        };
        Cycles {
            interval_ns: self.interval_ns,
            next_ns: first,
            end_ns,
            left: loops,
            missed: 0,
        }
    }
}

/// A rhythm under way.
#[derive(Debug)]
pub(super) struct Cycles {
    interval_ns: u64,
    next_ns: u64,
    end_ns: u64,
    left: u64,
    /// Cycles whose time had passed before they could begin.
    pub(super) missed: u64,
}

impl Cycles {
    /// The instant of the next cycle. None: it was the last.
    pub(super) fn next(&self, start: &Start) -> Option<u64> {
        let is_left = self.left > 0 && self.next_ns < self.end_ns && !start.is_over();
        is_left.then_some(self.next_ns)
    }

    /// A cycle is over at `now_ns`; those whose time has passed meanwhile are left out, as
    /// cyclictest does it.
    pub(super) fn done(&mut self, now_ns: u64) {
        self.left -= 1;
        self.next_ns += self.interval_ns;
        if let Some(late) = now_ns.checked_sub(self.next_ns + 1) {
            let passed = late / self.interval_ns + 1;
            self.missed += passed;
            self.next_ns += passed * self.interval_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::plan::tests::plan;
    use super::*;

    fn cycle(until: Until) -> Cycle {
        let plan = Plan {
            interval: Duration::from_nanos(100),
            until,
            ..plan()
        };
        Cycle::new(&plan, 0, 1)
    }

    #[test]
    fn what_has_passed_is_left_out_and_counted() {
        let mut cycles = cycle(Until::Loops(5)).begin(1000);
        let mut step = |now, next, missed| {
            cycles.done(now);
            assert_eq!((cycles.next_ns, cycles.missed), (next, missed), "{now}");
        };
        step(1001, 1100, 0);
        step(1200, 1200, 0);
        step(1301, 1400, 1);
        step(1750, 1800, 4);
        step(1850, 1900, 4);
        assert_eq!(cycles.left, 0);
    }

    #[test]
    fn time_ends_it_too() {
        let mut cycles = cycle(Until::Elapsed(Duration::from_nanos(250))).begin(0);
        let mut done = 0;
        while cycles.next_ns < cycles.end_ns && cycles.left > 0 {
            cycles.done(cycles.next_ns);
            done += 1;
        }
        assert_eq!(done, 3);
    }

    #[test]
    fn neighbours_in_a_ring_are_woken_at_different_instants() {
        for places in 2..9 {
            let offset = |place| Cycle::new(&plan(), place % places, places).offset_ns;
            for place in 0..places {
                assert_ne!(offset(place), offset(place + 1), "{place} of {places}");
            }
        }
    }
}
