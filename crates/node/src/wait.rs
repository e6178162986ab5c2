//! One bounded wait: spin a little, then sleep on the own bell.

use std::time::{Duration, Instant};

use hythe_memory::Mapped;
use hythe_pool::{Control, MemberIndex, PortIndex};

use crate::NodeError;
use crate::doorbell::{Doorbells, Line};
use crate::sleep_words::SleepWords;
use crate::spin::{SpinGate, is_realtime};

/// How to wait.
#[derive(Clone, Copy, Debug)]
pub struct WaitPlan {
    /// Look this long before the first sleep.
    pub(crate) spin: Duration,
    /// Sleep at most this long before looking again: what bounds a wake-up that an emulator has
    /// lost. Shorter than [`WaitPlan::LONGEST_NAP`] it says that a peer of another hop is waited
    /// for: such a wait ends by the doorbells of the participant, too.
    pub(crate) nap: Duration,
}

/// Where a participant sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SleepPlace<'a> {
    pub(crate) control: &'a Control<Mapped>,
    pub(crate) me: MemberIndex,
    pub(crate) doorbells: &'a Doorbells,
    pub(crate) words: &'a SleepWords,
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

    /// What to sleep on in place of the bell, where doorbells wake, too.
    fn line(self, doorbells: &Doorbells) -> Option<Line> {
        (self.nap < Self::LONGEST_NAP)
            .then(|| doorbells.line())
            .flatten()
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
    place: SleepPlace<'_>,
    plan: WaitPlan,
    timeout: Duration,
    attempt: impl FnMut() -> Result<Option<T>, NodeError>,
) -> Result<Option<T>, NodeError> {
    let mut report = WaitReport::default();
    wait_reporting(place, plan, timeout, &mut report, attempt)
}

/// As [`wait_for`]; says in `report` what it cost.
pub(crate) fn wait_reporting<T>(
    place: SleepPlace<'_>,
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
    let control = place.control;
    let bell = control.tables().bell(place.me);
    let mut line = None;
    loop {
        // Before the look: it finds what came before there was a line, or the line tells of it.
        line = line.or_else(|| plan.line(place.doorbells));
        let look_on = place.words.begin();
        let ticket = bell.lie_down(control.memory());
        let attempted = look_for(look_on, &mut attempt);
        let left = timeout.saturating_sub(start.elapsed());
        if matches!(attempted, Ok(None)) && !left.is_zero() {
            let nap = left.min(plan.nap);
            let rung = match &line {
                Some(line) => line.sleep(nap),
                None => {
                    control.memory().wait(bell.count, ticket.count(), nap);
                    false
                }
            };
            report.sleeps += u64::from(rung || !bell.is_quiet(control.memory(), ticket));
        }
        bell.rise(control.memory());
        place.words.end();
        report.ending = Ending::Slept(start.elapsed());
        match attempted {
            Ok(None) if left.is_zero() => return Ok(None),
            Ok(None) => {}
            done => return done,
        }
    }
}

/// Tries once, and again until so much time has passed.
pub(crate) fn look_for<T>(
    time: Duration,
    attempt: &mut impl FnMut() -> Result<Option<T>, NodeError>,
) -> Result<Option<T>, NodeError> {
    let start = Instant::now();
    loop {
        let attempted = attempt();
        if !matches!(attempted, Ok(None)) || time.is_zero() || start.elapsed() >= time {
            return attempted;
        }
        std::hint::spin_loop();
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
