//! Departure times: the instant that the kernel is asked to send a packet at (`SO_TXTIME`,
//! `SCM_TXTIME`).
//!
//! Above this, departure times are nanoseconds of the monotonic clock. A [`DepartureClock`] is what
//! a socket's scheduler reckons by, and `Handed` remembers which packets a time stood for, because
//! a scheduler that drops them names only the time. Decides nothing, and calls the kernel only for
//! the time.

use std::collections::VecDeque;
use std::fmt;

use hythe_sys::socket_option::DepartureClock;
use rustix::io::Errno;

use super::scheduler::{Scheduler, Timing};
use crate::instant::{now_ns, tai_ns};

/// How long before its departure a packet has to be handed over at the least: the way through the
/// stack, on a busy machine.
const MARGIN_NS: u64 = 1_000_000;
/// Calls whose packets may be under way; a sender hands over far fewer at a time.
const CALLS_MAX: usize = 256;

/// Who heeds the departure times of packets to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Departures {
    /// They have none.
    Unused,
    /// This scheduler.
    Kept(Scheduler),
    /// Nobody: this one is in its place.
    Ignored(Scheduler),
    /// This scheduler would, but the socket does not take them.
    Refused(Scheduler, Errno),
    /// It could not be found out.
    Unknown(Errno),
}

impl fmt::Display for Departures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused => formatter.write_str("no departure times"),
            Self::Kept(scheduler) => write!(formatter, "SO_TXTIME, {scheduler}"),
            Self::Ignored(scheduler) => write!(
                formatter,
                "{scheduler}, and only fq and etf heed departure times"
            ),
            Self::Refused(scheduler, errno) => write!(
                formatter,
                "{scheduler}, but SO_TXTIME was refused: {errno}{}",
                hint(scheduler, *errno)
            ),
            Self::Unknown(errno) => {
                write!(formatter, "the scheduler on the way is not known: {errno}")
            }
        }
    }
}

/// What to do about a refusal.
fn hint(scheduler: &Scheduler, errno: Errno) -> &'static str {
    match (scheduler.timing, errno) {
        (Timing::Etf { .. }, Errno::PERM) => " (the clock of etf needs CAP_NET_ADMIN)",
        _ => "",
    }
}

/// The clock that `timing` reckons by: fq by the monotonic one, etf by TAI.
pub(crate) fn clock_of(timing: Timing) -> Option<DepartureClock> {
    match timing {
        Timing::Fq => Some(DepartureClock::Monotonic),
        Timing::Etf { .. } => Some(DepartureClock::Tai),
        _ => None,
    }
}

/// What has to be added to an instant of the monotonic clock to have that of `clock`; asked for
/// each call, because TAI may be set.
pub(crate) fn ahead_ns(clock: DepartureClock) -> i64 {
    match clock {
        DepartureClock::Monotonic => 0,
        DepartureClock::Tai => tai_ns().wrapping_sub(now_ns()).cast_signed(),
    }
}

/// How long before their departure packets have to be handed over, at the least.
pub(crate) fn margin_ns(timing: Timing) -> u64 {
    match timing {
        Timing::Etf { delta_ns } => u64::from(delta_ns) + MARGIN_NS,
        _ => 0,
    }
}

/// Packets given to a scheduler under one departure time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) departure_ns: u64,
    pub(crate) packets: u32,
    /// The call said at once that they were dropped; the scheduler says so as well, and that it was
    /// for their time.
    pub(crate) was_refused: bool,
}

/// Packets that a scheduler may still report to have dropped, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Handed(VecDeque<Given>);

impl Handed {
    /// Packets were given to it, of the socket's clock.
    pub(crate) fn push(&mut self, given: Given) {
        if self.0.len() == CALLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(given);
    }

    #[cfg(test)]
    pub(crate) fn take_oldest(&mut self) -> Option<Given> {
        self.0.pop_front()
    }

    /// What a report of `departure_ns` is about. Nothing of it is known if it is the second one.
    pub(crate) fn take(&mut self, departure_ns: u64) -> Option<Given> {
        let index = self
            .0
            .iter()
            .position(|given| given.departure_ns == departure_ns)?;
        self.0.remove(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etf(delta_ns: u32) -> Scheduler {
        Scheduler {
            interface: "near".into(),
            kind: "etf".into(),
            timing: Timing::Etf { delta_ns },
        }
    }

    #[test]
    fn report_stands_for_all_packets_of_its_time_and_for_them_once() {
        let given = |departure_ns, packets| Given {
            departure_ns,
            packets,
            was_refused: packets == 3,
        };
        let mut handed = Handed::default();
        for (departure_ns, packets) in [(10, 8), (20, 3), (20, 1)] {
            handed.push(given(departure_ns, packets));
        }
        assert_eq!(handed.take(20), Some(given(20, 3)));
        assert_eq!(handed.take(20), Some(given(20, 1)));
        assert_eq!(handed.take(20), None);
        assert_eq!(handed.take(10), Some(given(10, 8)));
        for departure_ns in 0..CALLS_MAX as u64 + 1 {
            handed.push(given(departure_ns, 2));
        }
        assert_eq!((handed.take(0), handed.take(1)), (None, Some(given(1, 2))));
    }

    #[test]
    fn clock_of_etf_is_ahead_of_the_monotonic_one_by_what_is_said() {
        assert_eq!(clock_of(Timing::Fq), Some(DepartureClock::Monotonic));
        assert_eq!(clock_of(Timing::Class(7)), None);
        assert_eq!(ahead_ns(DepartureClock::Monotonic), 0);
        let (before, ahead, after) = (now_ns(), ahead_ns(DepartureClock::Tai), now_ns());
        let tai = tai_ns();
        assert!(before.wrapping_add_signed(ahead) <= tai);
        // Both clocks were read between these two.
        assert!(ahead >= tai.wrapping_sub(after).cast_signed() - (tai - before) as i64);
    }

    #[test]
    fn what_etf_takes_up_early_has_to_come_earlier() {
        assert_eq!(margin_ns(Timing::Fq), 0);
        assert!(margin_ns(etf(500_000).timing) > 500_000);
    }

    #[test]
    fn whoever_heeds_them_or_does_not_is_named() {
        let told = Departures::Kept(etf(1)).to_string();
        assert_eq!(told, "SO_TXTIME, etf on near");
        let told = Departures::Refused(etf(1), Errno::PERM).to_string();
        assert!(told.contains("CAP_NET_ADMIN"), "{told}");
        let told = Departures::Ignored(etf(1)).to_string();
        assert!(told.contains("fq and etf"), "{told}");
    }
}
