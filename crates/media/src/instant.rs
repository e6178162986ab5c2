//! The system's clocks in nanoseconds, and waiting for an instant.

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

/// The monotonic clock.
pub(crate) fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Since 1970.
pub(crate) fn unix_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// Since 1970 without leap seconds, as far as the system was told of them.
pub(crate) fn tai_ns() -> u64 {
    match clock_gettime_dynamic(DynamicClockId::Tai) {
        Ok(time) => nanoseconds(time),
        Err(_) => unix_ns(), // before Linux 3.10, where it does not exist
    }
}

fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until `due_ns` of the monotonic clock; returns by how much it is past.
pub(crate) fn sleep_until(due_ns: u64) -> u64 {
    let due = Timespec {
        tv_sec: (due_ns / 1_000_000_000) as i64,
        tv_nsec: (due_ns % 1_000_000_000) as i64,
    };
    // A signal handler may interrupt the sleep, which then goes on; any other failure means not
    // waiting, which the caller notices no more than a clock that is late.
    while now_ns() < due_ns
        && clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &due) == Err(Errno::INTR)
    {
    }
    now_ns().saturating_sub(due_ns)
}
