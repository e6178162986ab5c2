//! One bounded wait: spin a little, then sleep on the own bell.

use std::time::{Duration, Instant};

use hythe_memory::Mapped;
use hythe_pool::{Control, Member, MemberIndex};

use crate::NodeError;

/// How to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitPlan {
    /// Look this long before the first sleep.
    pub(crate) spin: Duration,
    /// Sleep at most this long before looking again: what bounds a wake-up that an emulator has lost.
    pub(crate) nap: Duration,
}

/// A wake-up across two processors costs about ten microseconds: spinning twice that costs at most three times the best.
const SPIN: Duration = Duration::from_micros(20);

impl WaitPlan {
    /// For a peer on this Linux.
    pub(crate) fn for_processes() -> Self {
        Self {
            spin: spin_budget(),
            nap: Duration::from_secs(1),
        }
    }

    /// For a peer on a core, which may be emulated.
    pub(crate) fn for_core() -> Self {
        Self {
            spin: spin_budget(),
            nap: Duration::from_millis(20),
        }
    }
}

/// None where the peer could not run meanwhile: on a single CPU, or when this thread outranks all others.
fn spin_budget() -> Duration {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cpus > 1 && !is_realtime() {
        SPIN
    } else {
        Duration::ZERO
    }
}

/// Field 41 of the thread's `stat` is its policy; 1 is SCHED_FIFO, 2 SCHED_RR, 6 SCHED_DEADLINE.
fn is_realtime() -> bool {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let policy = after_name.split_ascii_whitespace().nth(38);
    matches!(policy, Some("1" | "2" | "6"))
}

/// Tries until something comes of it or the time is over (`None`).
pub(crate) fn wait_for<T>(
    control: &Control<Mapped>,
    me: MemberIndex,
    plan: WaitPlan,
    timeout: Duration,
    attempt: impl FnMut() -> Result<Option<T>, NodeError>,
) -> Result<Option<T>, NodeError> {
    wait_counting(control, me, plan, timeout, &mut 0, attempt)
}

/// As [`wait_for`]; adds to `sleeps` how many sleeps a bell ended.
pub(crate) fn wait_counting<T>(
    control: &Control<Mapped>,
    me: MemberIndex,
    plan: WaitPlan,
    timeout: Duration,
    sleeps: &mut u64,
    mut attempt: impl FnMut() -> Result<Option<T>, NodeError>,
) -> Result<Option<T>, NodeError> {
    if let Some(done) = attempt()? {
        return Ok(Some(done));
    }
    let start = Instant::now();
    while start.elapsed() < plan.spin.min(timeout) {
        std::hint::spin_loop();
        if let Some(done) = attempt()? {
            return Ok(Some(done));
        }
    }
    let bell = Member::bell(control, me);
    loop {
        let ticket = bell.lie_down(control.memory());
        let attempted = attempt();
        let left = timeout.saturating_sub(start.elapsed());
        if matches!(attempted, Ok(None)) && !left.is_zero() {
            control
                .memory()
                .wait(bell.count, ticket.count(), left.min(plan.nap));
            *sleeps += u64::from(!bell.is_quiet(control.memory(), ticket));
        }
        bell.rise(control.memory());
        match attempted {
            Ok(None) if left.is_zero() => return Ok(None),
            Ok(None) => {}
            done => return done,
        }
    }
}

/// Wakes a participant if it sleeps. Call after making work for it visible.
pub(crate) fn ring(control: &Control<Mapped>, member: MemberIndex) {
    let bell = Member::bell(control, member);
    if bell.ring(control.memory()) {
        control.memory().wake(bell.count);
    }
}

/// Wakes a participant whatever its words say.
pub(crate) fn ring_always(control: &Control<Mapped>, member: MemberIndex) {
    let bell = Member::bell(control, member);
    bell.ring_always(control.memory());
    control.memory().wake(bell.count);
}
