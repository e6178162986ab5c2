//! Looking less and less where looking has not paid: what one waiting place has learned.
//!
//! Used by subscribers, wait sets, semaphores and message queues, which wait again and again. Never
//! waits itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::spin::SpinGate;
use crate::wait::{Ending, WaitPlan};

/// After so many short sleeps at most, spinning is tried again.
const LONGEST_HOLDOFF: u32 = 256;

/// How long to spin next, learned from what became of earlier waits: as the halt polling of KVM
/// does it (`Documentation/virt/kvm/halt-polling.rst`), with a holdoff that doubles while trying
/// does not pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spinner {
    /// The next spin in eighths of the limit; 0: none.
    eighths: u32,
    /// Short sleeps until spinning is tried again.
    holdoff: u32,
    /// Short sleeps since it was given up.
    short_sleeps: u32,
}

impl Default for Spinner {
    fn default() -> Self {
        Self {
            eighths: 8,
            holdoff: 1,
            short_sleeps: 0,
        }
    }
}

impl Spinner {
    /// The plan of the next wait.
    pub(crate) fn plan(&self, plan: WaitPlan, gate: &SpinGate) -> WaitPlan {
        self.plan_within(plan, gate.limit())
    }

    /// The same where it may spin for so long.
    pub(crate) fn plan_within(&self, plan: WaitPlan, limit: Duration) -> WaitPlan {
        let gated = plan.spinning(limit);
        WaitPlan {
            spin: gated.spin * self.eighths / 8,
            ..gated
        }
    }

    /// Notes how a wait with this plan ended.
    pub(crate) fn learn(&mut self, limit: Duration, plan: WaitPlan, ending: Ending) {
        match ending {
            Ending::AtOnce => {}
            Ending::Spun => *self = Self::default(),
            Ending::Slept(_) if !plan.spin.is_zero() => {
                self.eighths /= 2;
                if self.eighths == 0 {
                    self.holdoff = (self.holdoff * 2).min(LONGEST_HOLDOFF);
                    self.short_sleeps = 0;
                }
            }
            // Not longer than a spin, and the wake-up that it would have saved.
            Ending::Slept(waited) if waited < limit * 2 => {
                self.short_sleeps += 1;
                if self.short_sleeps >= self.holdoff {
                    self.eighths = 8;
                }
            }
            Ending::Slept(_) => {}
        }
    }
}

/// One of a handle that several threads use. What two learn at the same time, one of them forgets.
#[derive(Debug)]
pub(crate) struct SharedSpinner(AtomicU32);

impl Default for SharedSpinner {
    fn default() -> Self {
        Self(AtomicU32::new(Spinner::default().to_bits()))
    }
}

impl SharedSpinner {
    /// The plan of the next wait.
    pub(crate) fn plan(&self, plan: WaitPlan, gate: &SpinGate) -> WaitPlan {
        Spinner::from_bits(self.0.load(Ordering::Relaxed)).plan(plan, gate)
    }

    /// Notes how a wait with this plan ended.
    pub(crate) fn learn(&self, limit: Duration, plan: WaitPlan, ending: Ending) {
        let bits = self.0.load(Ordering::Relaxed);
        let mut spinner = Spinner::from_bits(bits);
        spinner.learn(limit, plan, ending);
        let learned = spinner.to_bits();
        // Where there is nothing new, the line stays in the other caches, too.
        if learned != bits {
            self.0.store(learned, Ordering::Relaxed);
        }
    }
}

impl Spinner {
    /// Each in bits of its own: at most 8, [`LONGEST_HOLDOFF`], and more short sleeps than that.
    fn to_bits(self) -> u32 {
        self.eighths | self.holdoff << 8 | self.short_sleeps.min(0xFFF) << 20
    }

    const fn from_bits(bits: u32) -> Self {
        Self {
            eighths: bits & 0xFF,
            holdoff: bits >> 8 & 0xFFF,
            short_sleeps: bits >> 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(16);
    const SHORT: Ending = Ending::Slept(Duration::from_micros(12));
    const LONG: Ending = Ending::Slept(Duration::from_millis(12));

    fn gate(open: bool) -> SpinGate {
        SpinGate::fixed(LIMIT, open)
    }

    fn plan(spinner: Spinner, gate: &SpinGate) -> WaitPlan {
        let plan = WaitPlan {
            spin: LIMIT,
            nap: Duration::from_secs(1),
        };
        spinner.plan(plan, gate)
    }

    /// Lets one wait end so, and says how long it had spun before.
    fn wait(spinner: &mut Spinner, ending: Ending) -> u128 {
        let plan = plan(*spinner, &gate(true));
        spinner.learn(LIMIT, plan, ending);
        plan.spin.as_micros()
    }

    #[test]
    fn closed_gate_and_a_real_time_thread_do_not_spin() {
        assert_eq!(plan(Spinner::default(), &gate(true)).spin, LIMIT);
        assert_eq!(plan(Spinner::default(), &gate(false)).spin, Duration::ZERO);
        let never = WaitPlan {
            spin: Duration::ZERO,
            nap: LIMIT,
        };
        let planned = Spinner::default().plan(never, &gate(true));
        assert_eq!(planned.spin, Duration::ZERO);
        // Nor for a peer on another machine, for which the gate is always open.
        let limit = gate(false).limit_for_other_machines();
        let spins = |plan| Spinner::default().plan_within(plan, limit).spin;
        assert_eq!(spins(never), Duration::ZERO);
        assert_eq!(
            spins(WaitPlan {
                spin: LIMIT,
                ..never
            }),
            LIMIT
        );
    }

    #[test]
    fn shared_one_learns_the_same() {
        let (mut spinner, shared) = (Spinner::default(), SharedSpinner::default());
        let endings = [LONG; 5].into_iter().chain([SHORT; 2000]);
        for ending in endings.chain([Ending::Spun, LONG]) {
            let planned = plan(spinner, &gate(true));
            spinner.learn(LIMIT, planned, ending);
            shared.learn(LIMIT, planned, ending);
            let bits = shared.0.load(Ordering::Relaxed);
            assert_eq!(Spinner::from_bits(bits), spinner);
        }
    }

    #[test]
    fn spins_that_fail_become_shorter_and_stop() {
        let mut spinner = Spinner::default();
        let spun: Vec<u128> = (0..6).map(|_| wait(&mut spinner, LONG)).collect();
        assert_eq!(spun, [16, 8, 4, 2, 0, 0]);
    }

    #[test]
    fn spin_that_pays_brings_back_the_whole_budget() {
        let mut spinner = Spinner::default();
        wait(&mut spinner, LONG);
        assert_eq!(wait(&mut spinner, Ending::Spun), 8);
        assert_eq!(wait(&mut spinner, Ending::AtOnce), 16);
    }

    #[test]
    fn useless_spinning_is_tried_ever_more_seldom() {
        let mut spinner = Spinner::default();
        let mut tries = 0;
        let mut total = 0;
        for _ in 0..10_000 {
            let spun = wait(&mut spinner, SHORT);
            tries += u32::from(spun == 16);
            total += spun;
        }
        // At most every 256th, after the first few.
        assert!((10..=60).contains(&tries), "{tries}");
        assert!(total < 2000, "{total} microseconds of 10000 waits");
        // The peer has become quick: the next try finds that out, and stays.
        while wait(&mut spinner, SHORT) != 16 {}
        wait(&mut spinner, Ending::Spun);
        assert_eq!(wait(&mut spinner, Ending::Spun), 16);
    }

    #[test]
    fn long_sleeps_do_not_bring_it_back() {
        let mut spinner = Spinner::default();
        for _ in 0..10 {
            wait(&mut spinner, LONG);
        }
        assert_eq!(spinner.eighths, 0);
    }
}
