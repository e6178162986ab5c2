//! How late a timer's handler is, seen from outside: its edges against the instants that the timer
//! was programmed for.
//!
//! The core shows on its pin when it programs the timer, and says with which period: from then on
//! each alarm's instant is known, and the core's clock takes no part.

use super::Edge;
use super::samples::{Gathering, Samples};
use crate::LatencyError;

/// What stands on either side of the programming.
const PROGRAMMED: u8 = b'+';

/// Between two alarms of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Of the core's clock; not 0.
    pub ticks: u32,
    /// How many of them there are in a second; not 0.
    pub tick_hz: u32,
}

impl Period {
    /// From the programming to that alarm, in nanoseconds. A product of 64, 32 and 30 bits.
    fn until(self, alarm: u64) -> u128 {
        u128::from(alarm) * self.scaled_ns() / self.hz()
    }

    /// How many alarms were due in that time, which has 96 bits at most.
    fn passed(self, ns: u128) -> u64 {
        u64::try_from(ns * self.hz() / self.scaled_ns()).unwrap_or(u64::MAX - 1)
    }

    fn scaled_ns(self) -> u128 {
        u128::from(self.ticks.max(1)) * 1_000_000_000
    }

    fn hz(self) -> u128 {
        u128::from(self.tick_hz.max(1))
    }
}

/// A timer's alarms.
#[derive(Clone, Debug)]
pub struct Alarms {
    /// From the instant that each was programmed for to the edge of its handler, in nanoseconds;
    /// times since the programming.
    pub lateness: Samples,
    /// The programming is known to this: every lateness may be so much too large, and none is too
    /// small.
    pub programmed_within_ns: u64,
}

/// The alarms of the measure that ends its samples with `letter`, at so many nanoseconds an
/// instruction.
///
/// An alarm whose handler comes a period late or later stands for those that were missed meanwhile,
/// as on the core itself.
///
/// # Errors
/// [`LatencyError::RecordLog`]: there is no programming before the first alarm, or a handler ran
/// before its time: not the edges of such a measure.
pub fn alarms(
    edges: &[Edge],
    letter: u8,
    period: Period,
    instruction_ns: u32,
) -> Result<Alarms, LatencyError> {
    let refuse = |what: String| Err(LatencyError::RecordLog { what });
    let is_alarm = |edge: &&Edge| edge.letter == letter;
    let first = edges.iter().position(|edge| is_alarm(&edge));
    let before = &edges[..first.unwrap_or(edges.len())];
    let mut programming = before.iter().rev().filter(|edge| edge.letter == PROGRAMMED);
    let (Some(behind), Some(from)) = (programming.next(), programming.next()) else {
        return refuse(
            "the pin does not show when the timer was programmed; is the image of another version?"
                .to_owned(),
        );
    };
    let ns = |instructions: u64| u128::from(instructions) * u128::from(instruction_ns);
    let whole = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
    let mut lateness = Gathering::new(0);
    let mut last = 0;
    let mut next = 1;
    for edge in edges.iter().filter(is_alarm) {
        let now = ns(edge.instruction.saturating_sub(from.instruction));
        // The core took the time before it wrote the last edge, and may have been stopped in
        // between: what became due then was still to come. Of several the first, so that no
        // lateness is too small.
        if now < period.until(next) {
            next = last + 1;
        }
        let due = period.until(next);
        let Some(late) = now.checked_sub(due) else {
            return refuse(format!(
                "alarm {next} was handled {now} ns after its programming, before it was due: {due} ns"
            ));
        };
        lateness.add(whole(due), whole(late));
        last = next;
        next = period.passed(now).max(last) + 1;
    }
    let within = ns(behind.instruction.saturating_sub(from.instruction));
    Ok(Alarms {
        lateness: lateness.end(),
        programmed_within_ns: whole(within),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 ticks of 1 GHz: alarms every 10 ns.
    const PERIOD: Period = Period {
        ticks: 10,
        tick_hz: 1_000_000_000,
    };

    fn edges(text: &[(u64, u8)]) -> Vec<Edge> {
        let edges = text.iter().map(|&(instruction, letter)| Edge {
            instruction,
            letter,
        });
        edges.collect()
    }

    fn lateness(text: &[(u64, u8)]) -> Vec<u64> {
        let found = alarms(&edges(text), b'g', PERIOD, 1).expect("good");
        let all = found.lateness.histogram.iter_recorded();
        all.flat_map(|at| std::iter::repeat_n(at.value_iterated_to(), at.count_at_value() as usize))
            .collect()
    }

    #[test]
    fn lateness_is_counted_from_the_programming() {
        let text = [
            (90, b'+'),
            (91, b'+'),
            (95, b'A'),
            (97, b'a'),
            (100, b'+'),
            (103, b'+'),
            (112, b'g'),
            (121, b'g'),
            (135, b'g'),
        ];
        assert_eq!(lateness(&text), [1, 2, 5]);
        let found = alarms(&edges(&text), b'g', PERIOD, 1).expect("good");
        assert_eq!(found.programmed_within_ns, 3);
        // Twice the nanoseconds, half the pace.
        let slower = Period {
            tick_hz: 500_000_000,
            ..PERIOD
        };
        let found = alarms(&edges(&text), b'g', slower, 2).expect("good");
        let max = found.lateness.histogram.max();
        assert_eq!((max, found.programmed_within_ns), (10, 6));
        assert_eq!(found.lateness.lasted_ns, 70, "to the last edge");
        let outliers = found.lateness.outliers.iter();
        let outliers: Vec<_> = outliers.map(|late| (late.at_ns, late.value)).collect();
        assert_eq!(
            outliers,
            [(20, 4), (40, 2), (60, 10)],
            "since it was programmed"
        );
    }

    #[test]
    fn period_that_is_no_whole_number_does_not_drift() {
        let third = Period {
            ticks: 1,
            tick_hz: 3,
        };
        let mut text = vec![(0, b'+'), (0, b'+')];
        text.extend((1..=3000).map(|alarm| (alarm * 1_000_000_000 / 3, b'g')));
        let found = alarms(&edges(&text), b'g', third, 1).expect("good");
        let found = &found.lateness.histogram;
        assert_eq!((found.len(), found.max()), (3000, 0));
    }

    #[test]
    fn alarms_that_were_missed_are_in_the_lateness_of_the_next() {
        // The first comes 25 late: 2 more were due meanwhile. The next is the fourth.
        let text = [(0, b'+'), (1, b'+'), (35, b'g'), (44, b'g'), (50, b'g')];
        assert_eq!(lateness(&text), [0, 4, 25]);
        // The time was taken before 20, the edge came behind it: the second alarm is the next all
        // the same.
        let text = [(0, b'+'), (1, b'+'), (20, b'g'), (22, b'g'), (31, b'g')];
        assert_eq!(lateness(&text), [1, 2, 10]);
        // It was stopped there until 34.
        let text = [(0, b'+'), (1, b'+'), (34, b'g'), (35, b'g'), (41, b'g')];
        assert_eq!(lateness(&text), [1, 15, 24]);
    }

    #[test]
    fn what_is_no_timer_is_refused() {
        let refused = |text: &[(u64, u8)]| {
            let error = alarms(&edges(text), b'g', PERIOD, 1).expect_err("refused");
            error.to_string()
        };
        let early = refused(&[(0, b'+'), (1, b'+'), (11, b'g'), (12, b'g')]);
        assert!(early.contains("alarm 2 was handled 12 ns"), "{early}");
        for without in [
            &[][..],
            &[(1, b'g')],
            &[(1, b'+'), (11, b'g')],
            &[(1, b'g'), (2, b'+'), (3, b'+')],
        ] {
            assert!(refused(without).contains("programmed"), "{without:?}");
        }
    }
}
