//! Until when an operation may wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Until when an operation may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// Not at all.
    Now,
    /// Until that time of the system's clock, also where that is set meanwhile.
    At(SystemTime),
    /// As long as it takes.
    Never,
}

impl Deadline {
    /// So long from now.
    #[must_use]
    pub fn after(timeout: Duration) -> Self {
        SystemTime::now()
            .checked_add(timeout)
            .map_or(Self::Never, Self::At)
    }

    /// So many seconds and nanoseconds since 1970, as in POSIX. `None`: those are no nanoseconds.
    #[must_use]
    pub fn from_timespec(seconds: i64, nanoseconds: i64) -> Option<Self> {
        let nanoseconds = u32::try_from(nanoseconds).ok()?;
        if nanoseconds >= 1_000_000_000 {
            return None;
        }
        // What was before 1970 is over, as is 1970.
        let since = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
        Some(UNIX_EPOCH.checked_add(since).map_or(Self::Never, Self::At))
    }

    /// How long that is; `None`: it is over.
    pub(super) fn left(self) -> Option<Duration> {
        match self {
            Self::Now => None,
            Self::Never => Some(Duration::MAX),
            Self::At(time) => time
                .duration_since(coarse_now())
                .ok()
                .filter(|left| !left.is_zero()),
        }
    }
}

/// As `time()` shows it: by that clock no wait ends too early, either.
fn coarse_now() -> SystemTime {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    UNIX_EPOCH + Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}
