//! Registering a word that tells a peer whether this participant sleeps, for as long as the word
//! may be written. Used by hops.

use std::sync::Arc;
use std::time::Duration;

use crate::participant::Participant;
use crate::sleep_words::SleepWord;

/// Keeps a word registered.
#[derive(Debug)]
pub struct SleepWordGuard {
    shared: Arc<Participant>,
    number: u64,
}

impl SleepWordGuard {
    /// Writes the word from now on, until the guard is dropped.
    #[must_use]
    pub fn register(shared: &Arc<Participant>, word: Box<dyn SleepWord>) -> Self {
        Self {
            shared: Arc::clone(shared),
            number: shared.sleep_words().add(word),
        }
    }
}

impl Drop for SleepWordGuard {
    fn drop(&mut self) {
        // In a forked child a thread of the parent may have held the lock.
        if !self.shared.is_a_copy() {
            self.shared.sleep_words().remove(self.number);
        }
    }
}

/// A sleeper that is announced, until this is dropped.
#[derive(Debug)]
pub(crate) struct Asleep(Arc<Participant>);

impl Asleep {
    /// Announces one. A full barrier follows, then the last look for work, for as long as this
    /// says.
    pub(crate) fn begin(shared: &Arc<Participant>) -> (Self, Duration) {
        let look_on = shared.sleep_words().begin();
        (Self(Arc::clone(shared)), look_on)
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        // As for [`SleepWordGuard`].
        if !self.0.is_a_copy() {
            self.0.sleep_words().end();
        }
    }
}
