//! When a link is measured: at first, when it changes, and rarely otherwise.

use std::fmt;

const SECOND_NS: u64 = 1_000_000_000;
/// The least time between two measurements, whatever changes.
const PAUSE_NS: u64 = 3 * SECOND_NS;
/// After trouble with a carrier, which may itself be the load's.
const TROUBLE_NS: u64 = 10 * SECOND_NS;
/// Where nothing changes.
const REPEAT_NS: u64 = 3600 * SECOND_NS;
/// Where the other side did not take part, or a carrier that should be there was not to be had:
/// after so long, and then twice as long each time, up to [`REPEAT_NS`].
const RETRY_NS: u64 = 3 * SECOND_NS;

/// Why a link is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is new.
    First,
    /// Address, interface, MTU or what serves it are others.
    Changed,
    /// A flow broke, or lost its carrier.
    Trouble,
    /// The last attempt brought too little.
    Retry,
    /// It was long ago.
    Again,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "the link is new",
            Self::Changed => "the link has changed",
            Self::Trouble => "a flow had trouble",
            Self::Retry => "the last attempt brought too little",
            Self::Again => "the last time was long ago",
        })
    }
}

/// When a link is measured, where `K` is what it is known by.
#[derive(Debug)]
pub struct Schedule<K> {
    last: Option<(K, u64)>,
    /// One after the other, of attempts that brought too little.
    failures: u32,
    has_trouble: bool,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self {
            last: None,
            failures: 0,
            has_trouble: false,
        }
    }
}

impl<K: PartialEq> Schedule<K> {
    /// Is it to be measured now, and why?
    pub fn due(&self, now_ns: u64, link: &K) -> Option<Cause> {
        let Some((measured, at_ns)) = &self.last else {
            return Some(Cause::First);
        };
        let since_ns = now_ns.saturating_sub(*at_ns);
        let retry_ns = RETRY_NS << self.failures.saturating_sub(1).min(16);
        let causes = [
            (measured != link, PAUSE_NS, Cause::Changed),
            (self.has_trouble, TROUBLE_NS, Cause::Trouble),
            (self.failures > 0, retry_ns.min(REPEAT_NS), Cause::Retry),
            (true, REPEAT_NS, Cause::Again),
        ];
        let mut due = causes
            .into_iter()
            .filter(|(is_so, pause_ns, _)| *is_so && since_ns >= *pause_ns);
        due.next().map(|(.., cause)| cause)
    }

    /// It was measured, as this link, and brought enough or not.
    pub fn measured(&mut self, now_ns: u64, link: K, is_enough: bool) {
        let is_same = self.last.as_ref().is_some_and(|(last, _)| *last == link);
        self.failures = match (is_enough, is_same) {
            (true, _) => 0,
            (false, true) => self.failures.saturating_add(1),
            (false, false) => 1,
        };
        self.last = Some((link, now_ns));
        self.has_trouble = false;
    }

    /// A flow broke, or lost its carrier.
    pub fn note_trouble(&mut self) {
        self.has_trouble = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_measures_new_and_changed_links() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(0, &"mtu 1500"), Some(Cause::First));
        schedule.measured(0, "mtu 1500", true);
        let due = |schedule: &Schedule<&'static str>, seconds: u64, link| {
            schedule.due(seconds * SECOND_NS, &link)
        };
        assert_eq!(due(&schedule, 3_599, "mtu 1500"), None);
        assert_eq!(due(&schedule, 3_600, "mtu 1500"), Some(Cause::Again));
        // A link that changes all the time is not measured all the time.
        assert_eq!(due(&schedule, 2, "mtu 9000"), None);
        assert_eq!(due(&schedule, 3, "mtu 9000"), Some(Cause::Changed));
        schedule.note_trouble();
        assert_eq!(due(&schedule, 9, "mtu 1500"), None);
        assert_eq!(due(&schedule, 10, "mtu 1500"), Some(Cause::Trouble));
        schedule.measured(10 * SECOND_NS, "mtu 1500", true);
        assert_eq!(due(&schedule, 100, "mtu 1500"), None);
    }

    #[test]
    fn what_brings_too_little_is_tried_less_and_less_often() {
        let mut schedule = Schedule::default();
        let (mut now_ns, mut attempts) = (0, 0);
        while now_ns < 24 * REPEAT_NS {
            if let Some(cause) = schedule.due(now_ns, &()) {
                assert_eq!(cause == Cause::First, attempts == 0);
                attempts += 1;
                schedule.measured(now_ns, (), false);
            }
            now_ns += SECOND_NS;
        }
        assert!((24..40).contains(&attempts), "{attempts} in a day");
        schedule.measured(now_ns, (), true);
        assert_eq!(schedule.due(now_ns + 60 * SECOND_NS, &()), None);
    }
}
