//! One bounded wait: spin a little, then sleep on the own bell.

use std::time::{Duration, Instant};

use hythe_memory::Mapped;
use hythe_pool::{Control, MemberIndex, PortIndex};

use crate::NodeError;
use crate::spin::{SpinGate, is_realtime};

/// How to wait.
#[derive(Clone, Copy, Debug)]
pub struct WaitPlan {
    /// Look this long before the first sleep.
    pub(crate) spin: Duration,
    /// Sleep at most this long before looking again: what bounds a wake-up that an emulator has
    /// lost.
    pub(crate) nap: Duration,
}

/// The spin of a plan that has not asked the node's gate yet ([`WaitPlan::gated`]); every wait
/// asks.
const BRIEFLY: Duration = Duration::from_micros(50);

/// How a wait ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By the first look.
    #[default]
    AtOnce,
    /// While it spun.
    Spun,
    /// After it had slept, so long after the first look.
    Slept(Duration),
}

/// What a wait cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitReport {
    /// Sleeps that a bell ended.
    pub(crate) sleeps: u64,
    pub(crate) ending: Ending,
}

impl WaitPlan {
    /// Where every change rings.
    pub(crate) const LONGEST_NAP: Duration = Duration::from_secs(1);

    /// For peers that ring.
    #[must_use]
    pub fn for_processes() -> Self {
        Self {
            spin: may_spin(),
            nap: Self::LONGEST_NAP,
        }
    }

    /// Never spins, and looks again after `nap` at the latest.
    #[must_use]
    pub const fn sleeping(nap: Duration) -> Self {
        let spin = Duration::ZERO;
        Self { spin, nap }
    }

    /// Looks again after `nap` at the latest.
    #[must_use]
    pub fn at_most(self, nap: Duration) -> Self {
        let nap = self.nap.min(nap);
        Self { nap, ..self }
    }

    /// As long as the node may spin now; not at all if this place may not.
    pub(crate) fn gated(self, gate: &SpinGate) -> Self {
        if self.spin.is_zero() {
            return self;
        }
        Self {
            spin: gate.limit(),
            ..self
        }
    }
}

/// Not zero unless the calling thread outranks whoever should answer.
fn may_spin() -> Duration {
    if is_realtime() {
        Duration::ZERO
    } else {
        BRIEFLY
    }
}

/// Tries until something comes of it or the time is over (`None`).
pub(crate) fn wait_for<T>(
    control: &Control<Mapped>,
    me: MemberIndex,
    plan: WaitPlan,
    timeout: Duration,
    attempt: impl FnMut() -> Result<Option<T>, NodeError>,
) -> Result<Option<T>, NodeError> {
    let mut report = WaitReport::default();
    wait_reporting(control, me, plan, timeout, &mut report, attempt)
}

/// As [`wait_for`]; says in `report` what it cost.
pub(crate) fn wait_reporting<T>(
    control: &Control<Mapped>,
    me: MemberIndex,
    plan: WaitPlan,
    timeout: Duration,
    report: &mut WaitReport,
    mut attempt: impl FnMut() -> Result<Option<T>, NodeError>,
) -> Result<Option<T>, NodeError> {
    if let Some(done) = attempt()? {
        return Ok(Some(done));
    }
    if timeout.is_zero() {
        return Ok(None);
    }
    let start = Instant::now();
    while start.elapsed() < plan.spin.min(timeout) {
        std::hint::spin_loop();
        if let Some(done) = attempt()? {
            report.ending = Ending::Spun;
            return Ok(Some(done));
        }
    }
    let bell = control.tables().bell(me);
    loop {
        let ticket = bell.lie_down(control.memory());
        let attempted = attempt();
        let left = timeout.saturating_sub(start.elapsed());
        if matches!(attempted, Ok(None)) && !left.is_zero() {
            control
                .memory()
                .wait(bell.count, ticket.count(), left.min(plan.nap));
            report.sleeps += u64::from(!bell.is_quiet(control.memory(), ticket));
        }
        bell.rise(control.memory());
        report.ending = Ending::Slept(start.elapsed());
        match attempted {
            Ok(None) if left.is_zero() => return Ok(None),
            Ok(None) => {}
            done => return done,
        }
    }
}

/// Wakes a participant if it sleeps. Call after making work for it visible.
pub(crate) fn ring(control: &Control<Mapped>, member: MemberIndex) {
    let bell = control.tables().bell(member);
    if bell.ring(control.memory()) {
        control.memory().wake(bell.count);
    }
}

/// Tells the owner of a port that something has been put into one of its queues.
pub(crate) fn ring_port(control: &Control<Mapped>, owner: MemberIndex, port: PortIndex) {
    hythe_memory::full_barrier();
    announce_behind_barrier(control, owner, port);
}

/// As [`ring_port`], when one full barrier stands behind the work for all who are told.
#[inline]
pub(crate) fn announce_behind_barrier(
    control: &Control<Mapped>,
    owner: MemberIndex,
    port: PortIndex,
) {
    if control.marks().announce_behind_barrier(owner, port) {
        let bell = control.tables().bell(owner);
        control.memory().wake(bell.count);
    }
}

/// Wakes a participant whatever its words say.
pub(crate) fn ring_always(control: &Control<Mapped>, member: MemberIndex) {
    let bell = control.tables().bell(member);
    bell.ring_always(control.memory());
    control.memory().wake(bell.count);
}
