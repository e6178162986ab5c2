//! Whether a program wants its waits to end, as one does that a signal ends.
//!
//! Two ways to want it: a question that the program sets once through its node, asked by ports that
//! wait for long; and interrupts, which any thread or signal handler makes
//! ([`Node::interrupt`](crate::Node::interrupt)). An interrupt ends the waits that are under way,
//! and the next one that begins if there were none. Never waits, allocates or locks.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

type Question = Box<dyn Fn() -> bool + Send + Sync>;

/// Whether the waits of a participant are to end.
#[derive(Default)]
pub(crate) struct Interrupt {
    question: OnceLock<Question>,
    /// How many interrupts there were.
    made: AtomicU32,
    /// The last of them that a wait has reported.
    reported: AtomicU32,
}

/// What a wait that begins knows: the interrupts that were reported before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported(u32);

impl Interrupt {
    /// The first question stays.
    pub(crate) fn set(&self, is_asked: Question) {
        let _ = self.question.set(is_asked);
    }

    /// Is a wait to end as if its time were over? An interrupt is left for the next wait that
    /// reports it.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_made_since(self.begin()) || self.question.get().is_some_and(|is_asked| is_asked())
    }

    /// For signal handlers, too. The caller wakes those who wait.
    pub(crate) fn make(&self) {
        // Pairs with the acquire load in `is_made_since`, which follows a look at the bell that is
        // rung behind this.
        self.made.fetch_add(1, Ordering::Release);
    }

    /// A wait begins.
    pub(crate) fn begin(&self) -> Reported {
        // Nothing is read by it but the number.
        Reported(self.reported.load(Ordering::Relaxed))
    }

    /// Is there an interrupt that was not reported when this wait began?
    pub(crate) fn is_made_since(&self, begun: Reported) -> bool {
        self.made.load(Ordering::Acquire) != begun.0
    }

    /// A wait ends by it. Of several that end at once each says so; one that begins now does not.
    pub(crate) fn report(&self) {
        let made = self.made.load(Ordering::Acquire);
        self.reported.store(made, Ordering::Relaxed);
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupt")
            .field("question", &self.question.get().is_some())
            .field("made", &self.made)
            .field("reported", &self.reported)
            .finish()
    }
}
