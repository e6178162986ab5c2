//! How much of a CPU a thread of the agent may use for what serves nobody.
//!
//! A core decides how often the agent is woken: each ring and each line that it prints is work. A
//! thread whose useless work has used more than its share rests, and what comes meanwhile is taken
//! at once afterwards. Work that served somebody is never held up. Never sleeps itself.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// One part in so many of the time may be spent on useless work.
const SHARE: u32 = 8;
/// Useless work that may be done without a rest after a time without any.
const BURST: Duration = Duration::from_millis(50);
/// The shortest rest: shorter ones would be mostly switching.
const REST_MIN: Duration = Duration::from_micros(500);

/// The budget of one thread; of the thread that made it.
#[derive(Debug)]
pub(crate) struct CpuShare {
    seen: Instant,
    used: Duration,
    /// Work that may be done before the next rest.
    credit: Duration,
}

impl CpuShare {
    pub(crate) fn begin() -> Self {
        Self {
            seen: Instant::now(),
            used: cpu_time(),
            credit: BURST,
        }
    }

    /// Call once in each turn. How long to rest now: the share is used up.
    pub(crate) fn rest(&mut self, is_useful: bool) -> Option<Duration> {
        let (now, used) = (Instant::now(), cpu_time());
        let passed = now - std::mem::replace(&mut self.seen, now);
        let worked = used.saturating_sub(std::mem::replace(&mut self.used, used));
        let useless = if is_useful { Duration::ZERO } else { worked };
        self.account(passed, useless)
    }

    fn account(&mut self, passed: Duration, worked: Duration) -> Option<Duration> {
        let credit = (self.credit + passed / SHARE).min(BURST);
        if let Some(left) = credit.checked_sub(worked) {
            self.credit = left;
            return None;
        }
        self.credit = Duration::ZERO;
        Some(((worked - credit) * SHARE).clamp(REST_MIN, BURST))
    }
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_testing::let_time_pass;

    const STEP: Duration = Duration::from_micros(10);

    /// Works in steps, rests when told to, and says how much of the time was work.
    fn worked(share: &mut CpuShare, idle: Duration, steps: u32) -> f64 {
        let (mut passed, mut all) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..steps {
            let step = passed + STEP + idle;
            passed = share.account(step, STEP).unwrap_or_default();
            all += STEP + idle + passed;
        }
        (STEP * steps).as_secs_f64() / all.as_secs_f64()
    }

    #[test]
    fn idle_thread_never_rests() {
        let mut share = CpuShare::begin();
        // One part in nine.
        for _ in 0..100_000 {
            assert_eq!(share.account(9 * STEP, STEP), None);
        }
    }

    #[test]
    fn busy_thread_is_held_to_its_share() {
        let mut share = CpuShare::begin();
        let part = worked(&mut share, Duration::ZERO, 1_000_000);
        assert!(part < 1.2 / f64::from(SHARE), "{part}");
        // A time of idleness gives the burst back, and no more.
        assert_eq!(share.account(Duration::from_secs(100), BURST), None);
        assert!(share.account(STEP, STEP).is_some());
    }

    #[test]
    fn clock_is_that_of_the_thread() {
        let mut share = CpuShare::begin();
        let_time_pass(
            Duration::from_millis(2),
            "it does not count while it sleeps",
        );
        assert_eq!(share.rest(true), None);
    }
}
