//! Waiting in tests: until something can be observed, and for time that is itself the subject.
//!
//! Tests of all crates call these functions; `cargo xtask tidy` refuses `sleep(` in tests anywhere
//! else. [`eventually`] and [`Polling`] end when a state is reached, so a busy machine only makes
//! them longer. [`stays`] and [`let_time_pass`] wait a certain time and say why. Time never makes
//! a test of theirs fail, except that [`BOUND`] ends what is dead.

use std::time::{Duration, Instant};

/// Bound of each wait for a state. Only a test that has failed waits this long.
pub const BOUND: Duration = Duration::from_secs(300);

/// First pause between two polls; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_micros(200);

/// Longest pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Waits until `holds` returns true.
///
/// # Panics
///
/// If it does not within [`BOUND`]; the message names `what`.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    eventually_some(what, || holds().then_some(()));
}

/// Waits until `poll` returns a value, and returns it.
///
/// # Panics
///
/// If it does not within [`BOUND`]; the message names `what`.
#[track_caller]
pub fn eventually_some<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let mut polling = Polling::new(what);
    loop {
        if let Some(found) = poll() {
            return found;
        }
        polling.pause();
    }
}

/// Waits until `holds` returns true. Where it does not, `state` is a part of the message.
///
/// # Panics
///
/// If it does not within [`BOUND`]; the message names `what` and the state.
#[track_caller]
pub fn eventually_or_show(
    what: &str,
    mut holds: impl FnMut() -> bool,
    mut state: impl FnMut() -> String,
) {
    let mut polling = Polling::new(what);
    while !holds() {
        polling.pause_or_show(&mut state);
    }
}

/// The pauses of a loop that polls, for loops that do more than ask for one state.
#[derive(Debug)]
pub struct Polling<'a> {
    what: &'a str,
    start: Instant,
    pause: Duration,
}

impl<'a> Polling<'a> {
    /// A wait that begins now. `what` names what is waited for.
    #[must_use]
    pub fn new(what: &'a str) -> Self {
        let (start, pause) = (Instant::now(), FIRST_PAUSE);
        Self { what, start, pause }
    }

    /// Pauses before the next poll, at most 20 ms.
    ///
    /// # Panics
    ///
    /// If the wait has lasted [`BOUND`].
    #[track_caller]
    pub fn pause(&mut self) {
        let (what, start) = (self.what, self.start);
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        std::thread::sleep(self.pause);
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }

    /// Pauses before the next poll, at most 20 ms.
    ///
    /// # Panics
    ///
    /// If the wait has lasted [`BOUND`]; the message has `state` in it.
    #[track_caller]
    pub fn pause_or_show(&mut self, state: impl FnOnce() -> String) {
        if self.start.elapsed() >= BOUND {
            panic!("not within {BOUND:?}: {}; now: {}", self.what, state());
        }
        self.pause();
    }
}

/// Checks for a certain time that a state does not change: the test of what must not happen. A
/// longer time, or a slower machine, makes the test stricter or weaker, and never makes it fail
/// by itself.
///
/// # Panics
///
/// If `holds` returns false once; the message names `what`.
#[track_caller]
pub fn stays(what: &str, time: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut polling = Polling::new(what);
    loop {
        let is_over = start.elapsed() >= time;
        assert!(holds(), "no longer after {:?}: {what}", start.elapsed());
        if is_over {
            return;
        }
        polling.pause();
    }
}

/// Lets time pass, where time is the subject: a time-out that runs out, the pace of a sender, a
/// process that is killed at a random moment. `reason` says why no state can be waited for; it
/// is for the reader of the test.
pub fn let_time_pass(time: Duration, reason: &str) {
    debug_assert!(!reason.is_empty(), "a reason");
    std::thread::sleep(time);
}

/// Blocks this process, or this thread, until a signal of its test kills it. Returns only where
/// the test that should kill it has died before.
pub fn await_kill() {
    std::thread::sleep(2 * BOUND);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn eventually_polls_until_it_holds() {
        let polls = AtomicU32::new(0);
        eventually("three polls", || polls.fetch_add(1, Ordering::Relaxed) == 2);
        assert_eq!(polls.load(Ordering::Relaxed), 3);
        assert_eq!(eventually_some("at once", || Some(7)), 7);
    }

    #[test]
    fn failed_wait_names_subject_and_state() {
        let failed = catch_unwind(|| {
            let mut polling = Polling::new("the moon rises");
            polling.start = Instant::now().checked_sub(BOUND).expect("up for minutes");
            polling.pause_or_show(|| "it is day".to_owned());
        });
        let message = failed.expect_err("the bound is over");
        let message = message.downcast::<String>().expect("a text");
        assert!(message.contains("the moon rises; now: it is day"));
    }

    #[test]
    fn stays_checks_until_time_is_over() {
        let start = Instant::now();
        stays("true", Duration::from_millis(5), || true);
        assert!(start.elapsed() >= Duration::from_millis(5));
        let changed = catch_unwind(|| stays("false", Duration::from_secs(600), || false));
        assert!(changed.is_err());
    }
}
