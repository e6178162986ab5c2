//! The clock of a measurement: `CLOCK_MONOTONIC`, in nanoseconds.

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// What results call it.
pub(super) const NAME: &str = "CLOCK_MONOTONIC";

/// The time.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither part is ever negative: this clock starts at 0 when the machine does.
    now.tv_sec.cast_unsigned() * NS_PER_SECOND + now.tv_nsec.cast_unsigned()
}

/// Sleeps until then. A signal handler that runs meanwhile does not end the sleep.
pub(super) fn sleep_until(then_ns: u64) {
    let then = Timespec {
        tv_sec: (then_ns / NS_PER_SECOND).cast_signed(),
        tv_nsec: (then_ns % NS_PER_SECOND).cast_signed(),
    };
    while clock_nanosleep_absolute(ClockId::Monotonic, &then) == Err(Errno::INTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_never_ends_early() {
        for ahead in [0, 1, 200_000] {
            let then = now_ns() + ahead;
            sleep_until(then);
            assert!(now_ns() >= then, "{ahead}");
        }
    }
}
