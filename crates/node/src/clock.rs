//! Times: coarse for dating holds, exact for time-outs.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// The time by which holds are dated, as late as its last reading: by the watcher, each look.
#[derive(Debug)]
pub(crate) struct CoarseTime {
    monotonic_ms: AtomicU64,
}

impl CoarseTime {
    pub(crate) fn now() -> Self {
        Self {
            monotonic_ms: AtomicU64::new(coarse_ms()),
        }
    }

    pub(crate) fn read_clock(&self) {
        // Relaxed, here and below: nothing else is told by it.
        self.monotonic_ms.store(coarse_ms(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::Relaxed)
    }
}

/// Milliseconds of the monotonic clock, as coarse as the kernel's tick: costs a few nanoseconds.
pub(crate) fn coarse_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    // The monotonic clock starts at boot and is never negative.
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

/// Nanoseconds of the monotonic clock, comparable between processes of this machine.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
