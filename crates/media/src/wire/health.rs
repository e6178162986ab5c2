//! Whether a destination can be reached, as far as this end can know, and what it says when that
//! changes.
//!
//! A refusal answers an earlier packet, and the packets between two answers seem to go. So a
//! destination in trouble is reachable again only when [`QUIET`] has passed without any. Never
//! calls the kernel; the time is handed in.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::fallback::MethodReason;
use super::method::Method;

/// How long nothing may go wrong before a destination in trouble counts as reachable again. Hosts
/// limit what they answer, Linux to one message a second (icmp(7), `icmp_ratelimit`); that a
/// neighbour does not answer is found out every three (arp(7)).
pub const QUIET: Duration = Duration::from_secs(5);

/// How long before its last packet a destination must have refused the last time to count as
/// reachable when a stream has ended: longer than the second between two messages that Linux
/// sends. A host that is out of reach takes longer to be found out, so it has no such sign.
const REFUSALS_APART_MAX: Duration = Duration::from_millis(1500);

/// How it stands with a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Nothing is known to be wrong.
    Reachable,
    /// Its host says that nobody listens on the port.
    Refused,
    /// The interface on the way is down.
    InterfaceDown,
    /// There is no way, or a host or router on it says so.
    Unreachable {
        /// What the kernel said.
        errno: Errno,
    },
    /// The socket's buffer or the interface's queue has no free capacity.
    Full,
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reachable => formatter.write_str("reachable"),
            Self::Refused => formatter.write_str("nobody listens there"),
            Self::InterfaceDown => formatter.write_str("the interface is down"),
            Self::Unreachable { errno } => write!(formatter, "out of reach: {errno}"),
            Self::Full => {
                formatter.write_str("the network does not take packets as fast as they come")
            }
        }
    }
}

/// What changed about a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Whether it can be reached.
    State(State),
    /// How it is sent to.
    Method {
        /// From now on.
        method: Method,
        /// Why.
        reason: MethodReason,
    },
    /// The scheduler on its way dropped packets, because it had or got them too late for their
    /// departure times. Reported once.
    Missed {
        /// The time passed while it had them. Otherwise they came too late, or it reckons by
        /// another clock.
        was_late: bool,
    },
    /// Its receiver said goodbye (RTCP BYE). Sending goes on until somebody ends it.
    Left,
    /// Packets are larger than its path takes.
    TooLarge {
        /// Of the packet, from its RTP header on.
        bytes: u16,
        /// Of the path, from the IP header on; 0 where the kernel does not say.
        mtu_bytes: u32,
    },
}

/// A change, and whose. Printed as one line for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where the packets go.
    pub destination: SocketAddr,
    /// What changed.
    pub change: Change,
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.destination)?;
        match self.change {
            Change::State(State::Reachable) => formatter.write_str("reachable again"),
            Change::State(state) => state.fmt(formatter),
            Change::Method { method, reason } => {
                write!(formatter, "sending with {method} ({reason})")
            }
            Change::Missed { was_late: true } => formatter.write_str(
                "the scheduler missed the departure times of packets and dropped them: a larger delta of etf helps",
            ),
            Change::Missed { was_late: false } => formatter.write_str(
                "packets came too late for their departure times and were dropped, or the scheduler reckons by another clock",
            ),
            Change::Left => formatter.write_str("its receiver said goodbye"),
            Change::TooLarge { bytes, mtu_bytes } => write!(
                formatter,
                "packets of {bytes} bytes do not fit the path's MTU of {mtu_bytes}: they are sent one by one, in fragments, or not at all"
            ),
        }
    }
}

/// The state of one destination over time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    state: State,
    changed_at: Option<Instant>,
    troubled_at: Option<Instant>,
    /// When the last packet was taken.
    sent_at: Option<Instant>,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Reachable,
            changed_at: None,
            troubled_at: None,
            sent_at: None,
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// The state as far as all packets tell together, for a stream that has ended: a receiver that
    /// came late took the last ones, though not long enough for [`Self::state`] to say so.
    pub(crate) fn final_state(&self) -> State {
        let last = self.troubled_at.zip(self.sent_at);
        let is_taken = last.is_some_and(|(troubled_at, sent_at)| {
            sent_at.saturating_duration_since(troubled_at) >= REFUSALS_APART_MAX
        });
        match self.state {
            State::Refused if is_taken => State::Reachable,
            state => state,
        }
    }

    /// Packets went; whether that is news.
    pub(crate) fn sent(&mut self, now: Instant) -> Option<State> {
        self.sent_at = Some(now);
        let is_quiet = has_passed(QUIET, self.troubled_at, now);
        (self.state != State::Reachable && is_quiet).then(|| self.turn(State::Reachable, now))
    }

    /// Something went wrong; whether that is news. Where different troubles take turns, the first
    /// is told until it has lasted.
    pub(crate) fn troubled(&mut self, trouble: State, now: Instant) -> Option<State> {
        self.troubled_at = Some(now);
        let may_turn = self.state == State::Reachable || has_passed(QUIET, self.changed_at, now);
        (self.state != trouble && may_turn).then(|| self.turn(trouble, now))
    }

    fn turn(&mut self, state: State, now: Instant) -> State {
        self.state = state;
        self.changed_at = Some(now);
        state
    }
}

fn has_passed(time: Duration, since: Option<Instant>, now: Instant) -> bool {
    since.is_none_or(|since| now.saturating_duration_since(since) >= time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_receiver_is_told_once_and_its_return_once() {
        let mut health = Health::new();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(health.sent(at(0)), None);
        assert_eq!(
            health.troubled(State::Refused, at(20)),
            Some(State::Refused)
        );
        // Every other packet is refused.
        for ms in (40..5000).step_by(40) {
            assert_eq!(health.sent(at(ms)), None);
            assert_eq!(health.troubled(State::Refused, at(ms + 20)), None);
        }
        assert_eq!(health.sent(at(9900)), None);
        assert_eq!(health.sent(at(10_020)), Some(State::Reachable));
        assert_eq!(health.sent(at(10_040)), None);
    }

    #[test]
    fn troubles_that_take_turns_are_not_told_each_time() {
        let mut health = Health::new();
        let now = Instant::now();
        assert!(health.troubled(State::Refused, now).is_some());
        assert_eq!(health.troubled(State::Full, now), None);
        assert_eq!(health.state(), State::Refused);
        let later = now + QUIET;
        assert_eq!(health.troubled(State::Full, later), Some(State::Full));
    }

    #[test]
    fn receiver_that_came_late_is_reachable_in_the_end() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        for (trouble, last_ms, expected) in [
            (State::Refused, 3960, State::Reachable),
            (State::Refused, 2400, State::Refused),
            (State::InterfaceDown, 3960, State::InterfaceDown),
        ] {
            let mut health = Health::new();
            for ms in (0..=last_ms).step_by(40) {
                health.sent(at(ms));
                if ms <= 1000 {
                    health.troubled(trouble, at(ms));
                }
            }
            assert_eq!(health.state(), trouble, "not for long enough");
            assert_eq!(health.final_state(), expected, "{trouble}, {last_ms} ms");
        }
        // The receiver went, and packets seem to go between the answers.
        let mut health = Health::new();
        for ms in (0..=4000).step_by(40) {
            health.sent(at(ms));
            if ms >= 2000 && ms % 1000 == 0 {
                health.troubled(State::Refused, at(ms));
            }
        }
        assert_eq!(health.final_state(), State::Refused);
    }

    #[test]
    fn event_is_a_line_for_people() {
        let line = |change| {
            let destination = "192.0.2.1:5004".parse().unwrap();
            Event {
                destination,
                change,
            }
            .to_string()
        };
        let again = Change::State(State::Reachable);
        assert_eq!(line(again), "192.0.2.1:5004: reachable again");
        let method = Change::Method {
            method: Method::Sendmmsg,
            reason: MethodReason::Refused {
                method: Method::SendfileGso,
                errno: Errno::IO,
            },
        };
        assert_eq!(
            line(method),
            "192.0.2.1:5004: sending with sendmmsg (sendfile-gso was refused: Input/output error (os error 5))"
        );
    }
}
