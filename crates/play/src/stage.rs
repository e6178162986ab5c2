//! What the threads of a player share: the clock, and whether to go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hythe::monotonic_ns;

use crate::clock::Clock;
use crate::error::PlayError;
use crate::ports::UnitTag;

/// How long a thread sleeps or waits before it looks again whether to go on.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Shared by the threads.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    clock: Mutex<Clock>,
    /// The clock has begun to go, or goes again.
    goes: Condvar,
    is_over: AtomicBool,
    /// That is so because somebody has seen enough.
    is_closed: AtomicBool,
    /// The first picture was taken: the movie may begin.
    has_picture: AtomicBool,
    /// Since when the core was sent something, or was to be, and has sent nothing; in nanoseconds
    /// of the monotonic clock.
    silent_since: Mutex<Option<u64>>,
    /// From which unit on the pictures are wanted.
    wanted: Mutex<Wanted>,
    /// The last picture was shown.
    are_pictures_over: AtomicBool,
    /// What ended it before its time, the first of all.
    failure: Mutex<Option<PlayError>>,
}

/// What the decoder of pictures is to be sent. A decoder that began anew is sent units again, which
/// is another pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) pass: u32,
    /// Number of the unit whose picture is shown next; decoding begins at the key frame before it.
    pub(crate) number: u32,
}

/// Ends the threads when it goes, also by a panic.
struct EndOnDrop<'a>(&'a Stage);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

impl Stage {
    /// Runs a thread's work. An error of it ends the others, each at its next look.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> Result<T, PlayError>) -> Option<T> {
        let end = EndOnDrop(self);
        match work() {
            Ok(done) => {
                std::mem::forget(end);
                Some(done)
            }
            // It ends in order, as the others do.
            Err(PlayError::Interrupted) if self.is_closed() => None,
            Err(error) => {
                locked(&self.failure).get_or_insert(error);
                None
            }
        }
    }

    /// What ended it before its time.
    pub(crate) fn failure(&self) -> Option<PlayError> {
        locked(&self.failure).take()
    }

    /// Ends the movie where it is: what was played until then is reported.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.is_over.store(true, Ordering::Release);
    }

    /// Has somebody seen enough?
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// What was begun is as good as done where somebody has seen enough.
    pub(crate) fn unless_closed(&self, done: Result<(), PlayError>) -> Result<(), PlayError> {
        match done {
            Err(PlayError::Interrupted) if self.is_closed() => Ok(()),
            done => done,
        }
    }

    /// An error as soon as the threads are to end.
    pub(crate) fn go_on(&self) -> Result<(), PlayError> {
        match self.is_over.load(Ordering::Acquire) {
            true => Err(PlayError::Interrupted),
            false => Ok(()),
        }
    }

    pub(crate) fn with_clock<T>(&self, change: impl FnOnce(&mut Clock, u64) -> T) -> T {
        let mut clock = locked(&self.clock);
        let now_ns = monotonic_ns();
        let stood = !clock.is_going(now_ns);
        let done = change(&mut clock, now_ns);
        if stood && clock.is_going(now_ns) {
            self.goes.notify_all();
        }
        done
    }

    /// Where the movie is; `None`: it has not begun.
    pub(crate) fn at(&self) -> Option<i64> {
        self.with_clock(|clock, now_ns| clock.at(now_ns))
    }

    /// Is the movie not yet at `time_ns`? An error as soon as the threads are to end.
    pub(crate) fn is_before(&self, time_ns: i64) -> Result<bool, PlayError> {
        self.go_on()?;
        Ok(self.at().is_none_or(|at| at < time_ns))
    }

    /// Something is sent to the core, which should send something itself.
    pub(crate) fn is_sending(&self) {
        locked(&self.silent_since).get_or_insert_with(monotonic_ns);
    }

    /// The core sent something.
    pub(crate) fn has_answered(&self) {
        *locked(&self.silent_since) = None;
    }

    /// How long the core has sent nothing, although it should.
    pub(crate) fn silence(&self) -> Duration {
        let since = *locked(&self.silent_since);
        let ns = since.map_or(0, |since| monotonic_ns().saturating_sub(since));
        Duration::from_nanos(ns)
    }

    pub(crate) fn picture_came(&self) {
        self.has_picture.store(true, Ordering::Release);
    }

    pub(crate) fn has_picture(&self) -> bool {
        self.has_picture.load(Ordering::Acquire)
    }

    /// From which unit on the pictures are wanted.
    pub(crate) fn wanted(&self) -> Wanted {
        *locked(&self.wanted)
    }

    /// The decoder has forgotten what it was sent in `pass`: begins another, unless that was asked
    /// for before.
    pub(crate) fn send_again(&self, pass: u32, number: u32) {
        let mut wanted = locked(&self.wanted);
        if wanted.pass == pass {
            let pass = (pass + 1) % UnitTag::PASSES;
            *wanted = Wanted { pass, number };
        }
    }

    pub(crate) fn end_pictures(&self) {
        self.are_pictures_over.store(true, Ordering::Release);
    }

    pub(crate) fn are_pictures_over(&self) -> bool {
        self.are_pictures_over.load(Ordering::Acquire)
    }

    /// Waits until the movie is at `time_ns`; returns where it then is.
    pub(crate) fn wait_until(&self, time_ns: i64) -> Result<i64, PlayError> {
        loop {
            if let Some(at) = self.nap_until(time_ns)? {
                return Ok(at);
            }
        }
    }

    /// As [`Self::wait_until`], but no longer than until it is time to look; `None`: it is not
    /// there yet.
    pub(crate) fn nap_until(&self, time_ns: i64) -> Result<Option<i64>, PlayError> {
        self.go_on()?;
        let clock = locked(&self.clock);
        let now_ns = monotonic_ns();
        let left = match clock.at(now_ns) {
            Some(at) if at >= time_ns => return Ok(Some(at)),
            Some(at) if clock.is_going(now_ns) => {
                Duration::from_nanos(time_ns.abs_diff(at)).min(LOOK)
            }
            // Whoever lets it go says so.
            _ => LOOK,
        };
        let woken = self.goes.wait_timeout(clock, left);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
        Ok(None)
    }
}

/// A thread that panicked has left a value like any other.
pub(crate) fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    match value.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
