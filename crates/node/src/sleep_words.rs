//! Words that tell a peer outside of the pool's tables whether a thread of this participant sleeps:
//! then the peer rings, and only then.
//!
//! Processes look at the sleepers of a bell. A core sees none of the pool's tables, so a hop keeps
//! a word for it, and registers it ([`crate::sleep_word_guard`]). Written where a wait goes to
//! sleep and where it ends, by [`crate::wait`] and the bridge of a wait set; never on a path that
//! does not sleep.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longer than a store that an emulated core made takes to become visible here. Emulators that run
/// all processors of a machine on one thread leave barriers out: the core's store of what it pushed
/// may still be on its way when it reads that nobody sleeps.
const LATE_STORE: Duration = Duration::from_micros(3);

/// One such word.
pub trait SleepWord: std::fmt::Debug + Send + Sync {
    /// Says that somebody sleeps, or that nobody does. Callers put the barrier behind it.
    fn write(&self, sleeps: bool);
}

/// All of a participant.
#[derive(Debug, Default)]
pub(crate) struct SleepWords(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sleepers: u32,
    words: Vec<(u64, Box<dyn SleepWord>)>,
    last_number: u64,
}

impl SleepWords {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two states that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more. Its number is for taking it away.
    pub(crate) fn add(&self, word: Box<dyn SleepWord>) -> u64 {
        let mut state = self.state();
        word.write(state.sleepers > 0);
        state.last_number += 1;
        let number = state.last_number;
        state.words.push((number, word));
        number
    }

    /// It is not written any more, from this call's end on.
    pub(crate) fn remove(&self, number: u64) {
        self.state().words.retain(|(other, _)| *other != number);
    }

    /// A thread is about to sleep: a full barrier follows, then its last look for work. Returns how
    /// long that look is to go on.
    pub(crate) fn begin(&self) -> Duration {
        let mut state = self.state();
        state.sleepers += 1;
        if state.sleepers == 1 {
            state.write();
        }
        if state.words.is_empty() {
            Duration::ZERO
        } else {
            LATE_STORE
        }
    }

    /// It sleeps no longer.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.sleepers -= 1;
        if state.sleepers == 0 {
            state.write();
        }
    }
}

impl State {
    fn write(&self) {
        for (_, word) in &self.words {
            word.write(self.sleepers > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The last that was written, and how often.
    #[derive(Debug, Default)]
    struct Seen(AtomicU32, AtomicU32);

    impl SleepWord for Arc<Seen> {
        fn write(&self, sleeps: bool) {
            self.0.store(sleeps.into(), Ordering::Relaxed);
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn first_sleeper_and_the_last_are_told() {
        let words = SleepWords::default();
        assert_eq!(words.begin(), Duration::ZERO);
        let seen = Arc::new(Seen::default());
        let number = words.add(Box::new(Arc::clone(&seen)));
        let told = || {
            (
                seen.0.load(Ordering::Relaxed),
                seen.1.load(Ordering::Relaxed),
            )
        };
        assert_eq!(
            told(),
            (1, 1),
            "who comes while somebody sleeps is told at once"
        );
        assert_eq!(words.begin(), LATE_STORE);
        words.end();
        assert_eq!(told(), (1, 1), "one still sleeps");
        words.end();
        assert_eq!(told(), (0, 2));
        words.remove(number);
        words.begin();
        words.end();
        words.add(Box::new(Arc::clone(&seen)));
        assert_eq!(told(), (0, 3), "only when it came");
    }
}
