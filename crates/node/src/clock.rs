//! Times: coarse for dating holds, exact for time-outs.

use rustix::time::{ClockId, clock_gettime};

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
