//! Waits for a peer on another machine, beside others of this one that want the same CPU.
//!
//! Who spins gives way to them: one whose turn it is soon ends its own work, and is the sooner
//! done with it. One that computes without end keeps the CPU for a whole slice, while who sleeps
//! would have it back as soon as something comes. So where giving way took long, waits spin
//! briefly and sleep, for a while.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// An answer that comes within this time is not to wait for others.
const UNDISTURBED: Duration = Duration::from_micros(20);
/// Giving way took long.
const LONG: Duration = Duration::from_micros(200);
/// Waits that sleep before one gives way again.
const SLEEPING: u32 = 256;

/// What one waiter has learnt of others on its CPU.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    sleeping: AtomicU32,
}

impl Crowd {
    /// For how long a wait spins that may for `limit`.
    pub(crate) fn limit(&self, limit: Duration) -> Duration {
        // Relaxed: a hint of one waiter for itself.
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
        match spun >= UNDISTURBED {
            true => self.give_way(std::thread::yield_now),
            false => std::hint::spin_loop(),
        }
    }

    fn give_way(&self, how: impl FnOnce()) {
        let start = Instant::now();
        how();
        if start.elapsed() >= LONG {
            self.sleeping.store(SLEEPING, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lost_the_cpu_by_giving_way_sleeps_for_a_while() {
        let (crowd, limit) = (Crowd::default(), 4 * UNDISTURBED);
        assert_eq!(crowd.limit(limit), limit);
        crowd.give_way(|| std::thread::sleep(LONG));
        for _ in 0..SLEEPING {
            assert_eq!(crowd.limit(limit), UNDISTURBED);
        }
        assert_eq!(crowd.limit(limit), limit);
        assert_eq!(crowd.limit(Duration::ZERO), Duration::ZERO);
    }
}
