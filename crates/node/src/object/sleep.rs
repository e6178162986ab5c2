//! Waiting for an object to change: looking at its word for a while, then sleeping on it.

use std::time::{Duration, Instant};

use hythe_abi::objects::{header, object};
use hythe_memory::{Mapped, Memory, Ordering, full_barrier};
use hythe_pool::{ObjectIndex, ObjectTable};

use super::{Deadline, LONGEST_NAP, SyncError};
use crate::crowd::Crowd;
use crate::spin::SpinGate;
use crate::spinner::SharedSpinner;
use crate::wait::{Ending, WaitPlan};

/// A wait of one handle.
#[derive(Debug)]
pub(super) struct ChangeWait<'a> {
    pub(super) word: ChangeWord<'a>,
    pub(super) gate: &'a SpinGate,
    pub(super) crowd: &'a Crowd,
    /// What the waits of this handle have learned.
    pub(super) spinner: &'a SharedSpinner,
    /// False: whoever waits outranks who should change the object.
    pub(super) may_spin: bool,
}

impl ChangeWait<'_> {
    /// Waits until the word is not `seen` any more, for a while. `look` is asked before a sleep;
    /// what it finds ends the wait.
    pub(super) fn until_change<T>(
        &self,
        seen: u32,
        deadline: Deadline,
        look: impl FnOnce() -> Result<Option<T>, SyncError>,
    ) -> Result<Option<T>, SyncError> {
        let left = deadline.left().ok_or(SyncError::TimedOut)?;
        let limit = self.gate.limit();
        let plan = self.spinner.plan(
            WaitPlan {
                spin: if self.may_spin { limit } else { Duration::ZERO },
                nap: left.min(LONGEST_NAP),
            },
            self.gate,
        );
        let begun = Instant::now();
        let spin = self.crowd.limit(plan.spin).min(left);
        if self.word.spin(seen, (begun, spin), self.crowd) {
            self.spinner.learn(limit, plan, Ending::Spun);
            return Ok(None);
        }
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if self.word.sleep(seen, plan.nap) {
            return Err(SyncError::Interrupted);
        }
        let slept = Ending::Slept(begun.elapsed());
        self.spinner.learn(limit, plan, slept);
        Ok(None)
    }
}

/// The word that changes with an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeWord<'t> {
    memory: &'t Mapped,
    changed_at: usize,
}

impl<'t> ChangeWord<'t> {
    pub(super) fn of(table: &'t ObjectTable<Mapped>, index: ObjectIndex) -> Self {
        Self {
            memory: table.memory(),
            changed_at: ObjectTable::<Mapped>::changed_at(index),
        }
    }

    /// As it stands before a look.
    pub(super) fn now(&self) -> u32 {
        self.memory.load(self.changed_at, Ordering::Acquire)
    }

    /// Looks for a change, until so long after that time. True: there was one.
    fn spin(&self, seen: u32, (begun, limit): (Instant, Duration), crowd: &Crowd) -> bool {
        if limit.is_zero() {
            return false;
        }
        loop {
            for _ in 0..32 {
                if self.now() != seen {
                    return true;
                }
                std::hint::spin_loop();
            }
            let spun = begun.elapsed();
            if spun >= limit {
                return false;
            }
            crowd.pause(spun);
        }
    }

    /// Sleeps until a change, for so long at most. True: a signal handler has run.
    fn sleep(&self, seen: u32, nap: Duration) -> bool {
        let _sleeper = Sleeper::begin(*self);
        // Its partner is the one in `wake`: whoever changes the object sees this sleeper, or the
        // sleeper the change.
        full_barrier();
        self.now() == seen && self.memory.wait_interruptible(self.changed_at, seen, nap)
    }
}

/// Somebody who sleeps, as long as this value lives: only then does a change ask the kernel. If it
/// dies, there are wakes that nobody needs.
#[derive(Debug)]
struct Sleeper<'t>(ChangeWord<'t>);

impl<'t> Sleeper<'t> {
    fn begin(word: ChangeWord<'t>) -> Self {
        let at = sleepers_at(word.changed_at);
        word.memory.add(at, 1, Ordering::AcqRel);
        Self(word)
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let one_fewer = 1_u32.wrapping_neg();
        let at = sleepers_at(self.0.changed_at);
        self.0.memory.add(at, one_fewer, Ordering::AcqRel);
    }
}

/// After a change, when the object was left: wakes so many of those who sleep on it, and those who
/// watch all.
pub(super) fn wake(table: &ObjectTable<Mapped>, index: ObjectIndex, most: u32) {
    let (memory, changed_at) = (table.memory(), ObjectTable::<Mapped>::changed_at(index));
    // Its partner is the one in `ChangeWord::sleep`.
    full_barrier();
    if memory.load(sleepers_at(changed_at), Ordering::Relaxed) != 0 {
        memory.wake_some(changed_at, most);
    }
    if memory.load(header::WATCHERS, Ordering::Relaxed) != 0 {
        memory.add(header::CHANGES, 1, Ordering::Release);
        memory.wake(header::CHANGES);
    }
}

const fn sleepers_at(changed_at: usize) -> usize {
    changed_at - object::CHANGED + object::SLEEPERS
}
