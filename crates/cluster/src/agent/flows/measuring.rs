//! What the thread that measures a session's link shares with others: what was found, and what is
//! new.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use hythe_flows::measure::{Cause, Choice, Figures, Measured, choose};
use hythe_flows::message::{Carrier, Transport};
use rustix::event::{EventfdFlags, eventfd};

use super::Link;
use crate::agent::lock::lock;
use crate::status::{CarriersStatus, MeasuredStatus};

/// Of the links of an agent one is measured at a time.
#[derive(Debug, Default)]
pub(crate) struct Turn(Mutex<()>);

impl Turn {
    /// `None`: another is being measured.
    pub(super) fn take(&self) -> Option<MutexGuard<'_, ()>> {
        match self.0.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// What the thread of a session shares with others.
#[derive(Debug, Default)]
pub(crate) struct Measuring {
    has_begun: AtomicBool,
    pub(super) has_trouble: AtomicBool,
    bell: Mutex<Option<OwnedFd>>,
    /// Where the other side answers, if that is new.
    pub(super) there: Mutex<Option<(u16, u64)>>,
    pub(super) shown: Mutex<Shown>,
}

/// What people see.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) last: Option<(Measured, Cause, Instant)>,
    /// Why the last attempt came to nothing; empty: it did not.
    pub(super) trouble: String,
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) took: Duration,
}

impl Shown {
    /// Chooses what follows from what was measured: `Some`, if that is new.
    ///
    /// Whoever holds the lock sees both change at once: people never read figures beside a choice
    /// that was made from others.
    pub(super) fn conclude(
        &mut self,
        link: &Link,
        measured: Measured,
        cause: Cause,
    ) -> Option<Choice> {
        let before = link.chosen();
        let choice = choose(&before, &measured);
        self.trouble.clear();
        self.last = Some((measured, cause, Instant::now()));
        (choice != before).then(|| {
            link.choose(choice.clone());
            choice
        })
    }
}

impl Measuring {
    /// True, once: the thread is to begin.
    pub(crate) fn begin(&self) -> bool {
        !self.has_begun.swap(true, Ordering::AcqRel)
    }

    /// Has the thread look: the session is over, or something is new.
    pub(crate) fn ring(&self) {
        if let Some(bell) = &*lock(&self.bell) {
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// What [`ring`](Self::ring) makes readable.
    pub(super) fn open_bell(&self) -> std::io::Result<OwnedFd> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        *lock(&self.bell) = Some(bell.try_clone()?);
        Ok(bell)
    }

    /// The other side answers there.
    pub(crate) fn meet(&self, udp_port: u16, word: u64) {
        *lock(&self.there) = Some((udp_port, word));
        self.ring();
    }

    /// A flow broke, or lost its carrier.
    pub(crate) fn note_trouble(&self) {
        self.has_trouble.store(true, Ordering::Release);
    }

    /// For people.
    pub(super) fn status(&self, link: &Link) -> Option<CarriersStatus> {
        link.path_for(Transport::Packets).ok()?;
        let (shown, choice) = {
            let shown = lock(&self.shown);
            (shown.clone(), link.chosen())
        };
        let forced = link.forced();
        let name = |chosen, of_forced| match forced.map_or(chosen, |forced| match of_forced {
            true => forced,
            // Long runs go by UDP unless it was measured that they should not.
            false => Carrier::Udp,
        }) {
            Carrier::Udp => "udp".to_owned(),
            Carrier::Xdp => "xdp".to_owned(),
            Carrier::Tcp => "tcp".to_owned(),
            Carrier::Tls => "tls".to_owned(),
        };
        Some(CarriersStatus {
            short: name(choice.short, true),
            long: name(choice.long, false),
            is_forced: forced.is_some(),
            why: match (forced, &shown.last) {
                (Some(_), _) => String::new(),
                (None, None) => "not measured yet".to_owned(),
                (None, Some(_)) => choice.why,
            },
            trouble: shown.trouble,
            measured: shown.last.map(|(measured, cause, at)| MeasuredStatus {
                udp_round_trip_ns: measured.udp.round_trip_ns,
                udp_bytes_per_s: measured.udp.bytes_per_s,
                xdp_round_trip_ns: by_xdp(&measured).and_then(|it| it.round_trip_ns),
                xdp_bytes_per_s: by_xdp(&measured).and_then(|it| it.bytes_per_s),
                others_percent: measured.others_percent(),
                because: cause.to_string(),
                age_ms: at.elapsed().as_millis() as u64,
            }),
            measurements: shown.count,
            measuring_bytes: shown.bytes,
            measuring_us: shown.took.as_micros() as u64,
        })
    }
}

fn by_xdp(measured: &Measured) -> Option<Figures> {
    measured.xdp.as_ref().ok().map(|it| it.figures)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use hythe_flows::measure::{Bulk, ByXdp, Others};

    use super::*;
    use crate::ConnectionPath;

    fn measured(others: Bulk) -> Measured {
        let figures = |round_trip_ns, bytes_per_s| Figures {
            round_trip_ns: Some(round_trip_ns),
            bytes_per_s: Some(bytes_per_s),
        };
        Measured {
            udp: figures(10_000, 1_000_000_000),
            tcp_bytes_per_s: Some(1_000_000_000),
            xdp: Ok(ByXdp {
                figures: figures(5_000, 2_000_000_000),
                others: Others::Beside(others),
            }),
            bytes: 0,
            took_ns: 0,
        }
    }

    #[test]
    fn figures_are_seen_with_the_choice_that_was_made_from_them() {
        let path = ConnectionPath {
            local: [10, 0, 0, 1].into(),
            peer: [10, 0, 0, 2].into(),
        };
        let trusted = ["y".to_owned()];
        let link = Link::of((&trusted, None), Some(path), |_| Some("y".to_owned()));
        link.trust_there(Some(path.peer));
        let measuring = Measuring::default();
        let bulk = |bytes_per_s| Bulk {
            udp_bytes_per_s: Some(bytes_per_s),
            tcp_bytes_per_s: Some(bytes_per_s),
        };
        // The program costs others nothing, and five times.
        let conclude = |bytes_per_s| {
            let found = measured(bulk(bytes_per_s));
            lock(&measuring.shown).conclude(&link, found, Cause::First)
        };
        assert!(conclude(1_000_000_000).is_some());
        assert!(conclude(1_000_000_000).is_none(), "it is the same");
        let look = || {
            let seen = measuring.status(&link).expect("trusted");
            let found = seen.measured.expect("there");
            let (cost, carrier) = match seen.why.is_empty() {
                true => (100, "xdp"),
                false => (500, "udp"),
            };
            assert_eq!(found.others_percent, Some(cost), "{}", seen.why);
            assert_eq!([seen.short, seen.long], [carrier, carrier]);
        };
        thread::scope(|scope| {
            let reader = scope.spawn(|| (0..100_000).for_each(|_| look()));
            while !reader.is_finished() {
                conclude(200_000_000);
                conclude(1_000_000_000);
            }
        });
    }
}
