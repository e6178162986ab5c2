//! Waits beside others that want the same CPU.
//!
//! Who spins gives way to them: one whose turn it is soon ends its own work, and is the sooner
//! done with it, be it what is waited for or not. One that computes without end keeps the CPU for
//! a whole slice, while who sleeps would have it back as soon as something comes. So a spin gives
//! way the sooner the more often somebody ran meanwhile; and where giving way took long, waits
//! spin briefly and sleep, for a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// An answer that comes within this time is not to wait for others that may not be there.
const UNDISTURBED: Duration = Duration::from_micros(20);
/// Nor one that comes within this time for others that are: a peer on another CPU needs no more.
const SHORTEST: Duration = Duration::from_nanos(500);
/// Giving way took so long: somebody ran meanwhile. Where nobody wants to, it takes a third.
const SOMEBODY: Duration = Duration::from_micros(1);
/// Giving way took long.
const LONG: Duration = Duration::from_micros(200);
/// Waits that sleep before one gives way again.
const SLEEPING: u32 = 256;

/// What the waits of a node have learnt of others on their CPUs.
#[derive(Debug)]
pub(crate) struct Crowd {
    sleeping: AtomicU32,
    undisturbed_ns: AtomicU32,
}

impl Default for Crowd {
    fn default() -> Self {
        Self {
            sleeping: AtomicU32::new(0),
            undisturbed_ns: AtomicU32::new(ns(UNDISTURBED)),
        }
    }
}

// Relaxed: hints, of which one more or less does not matter.
impl Crowd {
    /// For how long a wait spins that may for `limit`.
    pub(crate) fn limit(&self, limit: Duration) -> Duration {
        match self.sleeping.load(Ordering::Relaxed) {
            0 => limit,
            left => {
                self.sleeping.store(left - 1, Ordering::Relaxed);
                limit.min(UNDISTURBED)
            }
        }
    }

    /// Between two looks of a spin that has taken so long.
    #[inline]
    pub(crate) fn pause(&self, spun: Duration) {
        match ns(spun) >= self.undisturbed_ns.load(Ordering::Relaxed) {
            true => self.give_way(std::thread::yield_now),
            false => std::hint::spin_loop(),
        }
    }

    fn give_way(&self, how: impl FnOnce()) {
        let start = Instant::now();
        how();
        let taken = start.elapsed();
        let before = self.undisturbed_ns.load(Ordering::Relaxed);
        let learnt = if taken >= LONG {
            self.sleeping.store(SLEEPING, Ordering::Relaxed);
            ns(UNDISTURBED)
        } else if taken >= SOMEBODY {
            (before / 2).max(ns(SHORTEST))
        } else {
            (before * 2).min(ns(UNDISTURBED))
        };
        // Where there is nothing new, the line stays in the other caches, too.
        if learnt != before {
            self.undisturbed_ns.store(learnt, Ordering::Relaxed);
        }
    }
}

fn ns(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_testing::let_time_pass;

    fn spin(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {}
    }

    /// Does a spin that has taken so long give way? It is not to learn from it.
    fn gives_way(crowd: &Crowd, spun: Duration) -> bool {
        ns(spun) >= crowd.undisturbed_ns.load(Ordering::Relaxed)
    }

    #[test]
    fn thread_that_lost_cpu_by_yield_sleeps_for_a_while() {
        let (crowd, limit) = (Crowd::default(), 4 * UNDISTURBED);
        assert_eq!(crowd.limit(limit), limit);
        crowd.give_way(|| let_time_pass(LONG, "as another thread takes the CPU"));
        for _ in 0..SLEEPING {
            assert_eq!(crowd.limit(limit), UNDISTURBED);
        }
        assert_eq!(crowd.limit(limit), limit);
        assert_eq!(crowd.limit(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn thread_beside_others_yields_sooner() {
        let crowd = Crowd::default();
        assert!(gives_way(&crowd, UNDISTURBED) && !gives_way(&crowd, UNDISTURBED / 2));
        // More often than it takes: this machine may be busy, so that one of them takes long.
        let mut rounds = 0;
        while !gives_way(&crowd, SHORTEST) {
            crowd.give_way(|| spin(SOMEBODY));
            rounds += 1;
            assert!(rounds < 1_000, "it learns nothing");
        }
        assert!(!gives_way(&crowd, SHORTEST / 2));
        // They are gone.
        let mut rounds = 0;
        while gives_way(&crowd, UNDISTURBED / 2) {
            crowd.give_way(|| {});
            rounds += 1;
            assert!(rounds < 1_000, "it learns nothing");
        }
    }
}
