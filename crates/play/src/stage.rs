//! What the threads of a player share: the clock, and whether to go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hythe::monotonic_ns;

use crate::clock::Clock;
use crate::error::PlayError;

/// How long a thread sleeps or waits before it looks again whether to go on.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// The shortest sleep while the clock stands.
const NAP_NS: i64 = 1_000_000;

/// Shared by the threads.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    clock: Mutex<Clock>,
    is_over: AtomicBool,
    /// That is so because somebody has seen enough.
    is_closed: AtomicBool,
    /// The first picture was taken: the movie may begin.
    has_picture: AtomicBool,
    /// What ended it before its time, the first of all.
    failure: Mutex<Option<PlayError>>,
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
        change(&mut locked(&self.clock), monotonic_ns())
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

    pub(crate) fn picture_came(&self) {
        self.has_picture.store(true, Ordering::Release);
    }

    pub(crate) fn has_picture(&self) -> bool {
        self.has_picture.load(Ordering::Acquire)
    }

    /// Waits until the movie is at `time_ns`; returns where it then is.
    pub(crate) fn wait_until(&self, time_ns: i64) -> Result<i64, PlayError> {
        loop {
            self.go_on()?;
            let left = match self.at() {
                Some(at) if at >= time_ns => return Ok(at),
                Some(at) => time_ns.saturating_sub(at).max(NAP_NS),
                None => NAP_NS,
            };
            std::thread::sleep(Duration::from_nanos(left.unsigned_abs()).min(LOOK));
        }
    }
}

/// A thread that panicked has left a value like any other.
pub(crate) fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    match value.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
