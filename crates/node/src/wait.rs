//! One bounded wait: spin a little, then sleep on the own bell.

use std::time::{Duration, Instant};

use hythe_memory::Mapped;
use hythe_pool::{Control, MemberIndex, PortIndex};

use crate::NodeError;
use crate::crowd::Crowd;
use crate::doorbell::{Doorbells, Line};
use crate::interrupt::{Interrupt, Reported};
use crate::pool::Pool;
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
    pub(crate) pool: &'a Pool,
    pub(crate) me: MemberIndex,
    pub(crate) doorbells: &'a Doorbells,
    pub(crate) words: &'a SleepWords,
    pub(crate) crowd: &'a Crowd,
    /// Of waits that the program interrupts with an error; `None` for those inside other calls.
    pub(crate) interrupt: Option<&'a Interrupt>,
}

impl<'a> SleepPlace<'a> {
    /// For a wait that begins: what ends it with an error.
    pub(crate) fn begin(&self) -> Interruptible<'a> {
        Interruptible(
            self.interrupt
                .map(|interrupt| (interrupt, interrupt.begin())),
        )
    }
}

/// A wait that the program may interrupt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interruptible<'a>(Option<(&'a Interrupt, Reported)>);

impl Interruptible<'_> {
    /// Asked between the announcement of a sleep and the sleep, which the ring behind an interrupt
    /// ends.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.0
            .is_some_and(|(interrupt, begun)| interrupt.is_made_since(begun))
    }

    /// The error with which it ends.
    pub(crate) fn report(&self) -> NodeError {
        if let Some((interrupt, _)) = self.0 {
            interrupt.report();
        }
        NodeError::Interrupted
    }
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

/// What a wait is for.
pub(crate) trait Awaited {
    type Found;

    /// Looks for it once.
    fn look(&mut self) -> Result<Option<Self::Found>, NodeError>;

    /// As [`WaitPlan::nap`], for whoever it may come from now. Asked at each sleep: a core that
    /// comes during a wait needs looks more often than processes do.
    fn nap(&self) -> Duration;
}

/// What does not depend on who is there.
struct Attempts<F>(F);

impl<T, F: FnMut() -> Result<Option<T>, NodeError>> Awaited for Attempts<F> {
    type Found = T;

    fn look(&mut self) -> Result<Option<T>, NodeError> {
        (self.0)()
    }

    fn nap(&self) -> Duration {
        WaitPlan::LONGEST_NAP
    }
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
        self.spinning(gate.limit())
    }

    /// For so long; not at all if this place may not spin.
    pub(crate) const fn spinning(self, limit: Duration) -> Self {
        if self.spin.is_zero() {
            return self;
        }
        Self {
            spin: limit,
            nap: self.nap,
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
    let mut awaited = Attempts(attempt);
    wait_reporting(place, plan, timeout, &mut report, &mut awaited)
}

/// As [`wait_for`], for what says itself how often it needs a look; says in `report` what it cost.
pub(crate) fn wait_reporting<A: Awaited>(
    place: SleepPlace<'_>,
    plan: WaitPlan,
    timeout: Duration,
    report: &mut WaitReport,
    awaited: &mut A,
) -> Result<Option<A::Found>, NodeError> {
    if let Some(done) = awaited.look()? {
        return Ok(Some(done));
    }
    if timeout.is_zero() {
        return Ok(None);
    }
    let (start, interruptible) = (Instant::now(), place.begin());
    let spin = place.crowd.limit(plan.spin).min(timeout);
    loop {
        let spun = start.elapsed();
        if spun >= spin {
            break;
        }
        place.crowd.pause(spun);
        if let Some(done) = awaited.look()? {
            report.ending = Ending::Spun;
            return Ok(Some(done));
        }
    }
    let control = place.pool.control();
    let bell = control.tables().bell(place.me);
    let mut line = None;
    loop {
        // Before the look: it finds what came before there was a line, or the line tells of it.
        line = line.or_else(|| plan.at_most(awaited.nap()).line(place.doorbells));
        let look_on = place.words.begin();
        let ticket = bell.lie_down(control.memory());
        let attempted = look_for(look_on, &mut || awaited.look());
        let left = timeout.saturating_sub(start.elapsed());
        let is_interrupted = interruptible.is_interrupted();
        if matches!(attempted, Ok(None)) && !left.is_zero() && !is_interrupted {
            // Of a core that this look has found, the next sleep hears the doorbell.
            let nap = plan.at_most(awaited.nap()).nap.min(left);
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
            Ok(None) if is_interrupted => return Err(interruptible.report()),
            Ok(None) if left.is_zero() => return Ok(None),
            // Nobody rings any more in a pool that is lost, but the own watcher.
            Ok(None) => place.pool.check_whole()?,
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
#[inline(always)]
pub(crate) fn announce_behind_barrier(
    control: &Control<Mapped>,
    owner: MemberIndex,
    port: PortIndex,
) {
    if control.view().marks().needs_announcing(owner, port) {
        announce(control, owner, port);
    }
}

#[cold]
fn announce(control: &Control<Mapped>, owner: MemberIndex, port: PortIndex) {
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

#[cfg(test)]
mod tests {
    use hythe_abi::RegionIndex;
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;
    use crate::doorbell::DoorbellKey;
    use crate::{Node, Pool, PoolOptions};

    const LONG: Duration = Duration::from_secs(100);

    /// A core that comes with the first look, and rings in the third.
    struct LateCore<'a> {
        doorbells: &'a Doorbells,
        rung: std::os::fd::OwnedFd,
        came: Option<std::sync::Arc<crate::doorbell::Doorbell>>,
        looks: u32,
    }

    impl Awaited for LateCore<'_> {
        type Found = ();

        fn look(&mut self) -> Result<Option<()>, NodeError> {
            self.looks += 1;
            match self.looks {
                1 => {
                    let files = [&self.rung, &self.rung];
                    let [ring, rung] = files
                        .map(|file| rustix::io::fcntl_dupfd_cloexec(file, 0).expect("duplicated"));
                    let key = DoorbellKey {
                        region: RegionIndex(1),
                        session: 1,
                    };
                    self.came = Some(self.doorbells.add(key, (ring, rung)).expect("added"));
                }
                3 => {
                    rustix::io::write(&self.rung, &1_u64.to_ne_bytes()).expect("written");
                }
                _ => {}
            }
            Ok((self.looks == 4).then_some(()))
        }

        fn nap(&self) -> Duration {
            match self.came {
                Some(_) => Duration::from_millis(1),
                None => LONG,
            }
        }
    }

    #[test]
    fn wait_hears_the_doorbell_of_a_core_that_came_meanwhile() {
        let root = format!("hythe-wait-{}", std::process::id());
        let root = std::env::temp_dir().join(root);
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let node = Node::join(&pool, "test").expect("joins");
        let participant = std::sync::Arc::clone(node.participant());
        let mut core = LateCore {
            doorbells: participant.doorbells(),
            rung: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("made"),
            came: None,
            looks: 0,
        };
        let plan = WaitPlan::sleeping(LONG);
        let mut report = WaitReport::default();
        let waited = wait_reporting(participant.place(), plan, LONG, &mut report, &mut core);
        assert!(waited.expect("sound").is_some());
        assert_eq!(report.sleeps, 1, "the doorbell ended a sleep");
        drop(core);
        drop((participant, node));
        std::fs::remove_dir_all(root).expect("own");
    }
}
