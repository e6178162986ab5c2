//! A lock that costs the thread which takes it again and again no locked instruction.
//!
//! A node's steps on the ledger are taken under one lock, nearly always by one thread: two locked
//! instructions for each step were a fifth of a message. So a thread that has taken the lock often
//! enough in a row becomes its owner. It then enters by a plain store, and looks behind it whether
//! it still is the owner. Another thread ends the ownership, has the kernel order the accesses of
//! all threads (`membarrier`), and waits until the owner is out: either the owner sees that it owns
//! nothing any more, or the other sees that it is inside. Each further owner needs a longer run,
//! and there are [`TURNS`] of them at most; behind that, and where the kernel has no `membarrier`,
//! this is a plain mutex.
//!
//! Called by the node, for its steps on the ledger. What a panic left is used as it is. Not for a
//! copy in a forked child: another thread of the parent may have been inside. A thread that takes a
//! lock which it has taken already panics, or waits for ever, as with a mutex of the standard
//! library.

#![allow(
    unsafe_code,
    reason = "this is the island: a value that a thread reaches because it is inside"
)]

mod facade;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use self::facade::{Access, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, Place};

/// Owners that a lock has in its life, at most. Each has a word of its own to say that it is
/// inside: one that comes late with its store disturbs nobody.
pub const TURNS: usize = 8;
/// So often in a row the first owner has taken it; each further one [`RUN_GROWTH`] times as often.
const FIRST_RUN: u64 = 64;
const RUN_GROWTH: u64 = if cfg!(loom) { 1 } else { 8 };
/// No thread's number.
const NOBODY: u64 = u64::MAX;
/// A look whether the owner is out, before the other thread sleeps.
const SPINS: u32 = 100;

/// A lock that a single thread takes without a locked instruction.
pub struct BiasedLock<T> {
    /// The number of the thread that owns it, above the number of its turn; or [`NOBODY`]. Changed
    /// under the mutex only.
    owner: AtomicU64,
    /// Is the owner of this turn inside?
    inside: [AtomicU32; TURNS],
    mutex: Mutex<Runs>,
    value: Place<T>,
    first_run: u64,
}

/// Who takes the mutex.
#[derive(Debug)]
struct Runs {
    last: u32,
    length: u64,
    /// Owners so far.
    turns: usize,
}

/// The right to the value.
pub struct BiasedGuard<'l, T> {
    /// Ends before the right does.
    value: Access<T>,
    _entered: Entered<'l>,
}

/// How a thread came in.
enum Entered<'l> {
    AsOwner(&'l AtomicU32),
    ByMutex(#[allow(dead_code, reason = "held, not read")] MutexGuard<'l, Runs>),
}

// SAFETY: the value is reached by one thread at a time, which `lock` sees to.
unsafe impl<T: Send> Sync for BiasedLock<T> {}
// SAFETY: with the lock, its value moves.
unsafe impl<T: Send> Send for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    /// With this value in it. Asks the kernel for what a change of owner needs.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self::with_run(value, FIRST_RUN)
    }

    fn with_run(value: T, first_run: u64) -> Self {
        let turns = if facade::can_order_all_threads() {
            0
        } else {
            TURNS
        };
        Self {
            owner: AtomicU64::new(NOBODY),
            inside: std::array::from_fn(|_| AtomicU32::new(0)),
            mutex: Mutex::new(Runs {
                last: 0,
                length: 0,
                turns,
            }),
            value: Place::new(value),
            first_run,
        }
    }

    /// Waits for it.
    ///
    /// # Panics
    /// If this thread has taken it already, as its owner.
    #[inline(always)]
    pub fn lock(&self) -> BiasedGuard<'_, T> {
        self.lock_as(facade::this_thread())
    }

    /// Enters if this thread is the owner; so it never waits, and takes no locked instruction.
    ///
    /// # Panics
    /// As [`lock`](Self::lock).
    #[inline(always)]
    pub fn try_lock_as_owner(&self) -> Option<BiasedGuard<'_, T>> {
        self.enter_as_owner(facade::this_thread())
    }

    #[inline(always)]
    fn lock_as(&self, me: u32) -> BiasedGuard<'_, T> {
        match self.enter_as_owner(me) {
            Some(entered) => entered,
            None => self.lock_by_mutex(me),
        }
    }

    #[inline(always)]
    fn enter_as_owner(&self, me: u32) -> Option<BiasedGuard<'_, T>> {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner >> 32 == u64::from(me) {
            let inside = &self.inside[owner as usize % TURNS];
            // Only this thread writes it.
            assert!(inside.load(Ordering::Relaxed) == 0, "taken twice");
            inside.store(1, Ordering::Relaxed);
            // With the other thread's, in `end_turn`: it sees the store, or we see its.
            facade::order_this_thread();
            if self.owner.load(Ordering::Relaxed) == owner {
                return Some(self.entered(Entered::AsOwner(inside)));
            }
            inside.store(0, Ordering::Relaxed);
        }
        None
    }

    #[cold]
    fn lock_by_mutex(&self, me: u32) -> BiasedGuard<'_, T> {
        let mut runs = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != NOBODY {
            self.end_turn(owner);
        }
        runs.length = if runs.last == me { runs.length + 1 } else { 1 };
        runs.last = me;
        let turn = runs.turns;
        let is_long = turn < TURNS && runs.length >= self.first_run * RUN_GROWTH.pow(turn as u32);
        if !is_long || me == facade::NO_THREAD {
            return self.entered(Entered::ByMutex(runs));
        }
        runs.turns += 1;
        runs.length = 0;
        // Whoever takes the mutex next sees both.
        let inside = &self.inside[turn];
        inside.store(1, Ordering::Relaxed);
        let mine = u64::from(me) << 32 | turn as u64;
        self.owner.store(mine, Ordering::Relaxed);
        self.entered(Entered::AsOwner(inside))
    }

    /// Under the mutex: the owner is none any more, and out.
    fn end_turn(&self, owner: u64) {
        self.owner.store(NOBODY, Ordering::Relaxed);
        facade::order_all_threads();
        let inside = &self.inside[owner as usize % TURNS];
        let mut looks = 0;
        // Pairs with the release store of `Entered`. It is out within one step, unless it does not
        // run: then this thread sleeps, and does not take the CPU from it.
        while inside.load(Ordering::Acquire) != 0 {
            facade::wait(looks >= SPINS);
            looks += 1;
        }
    }

    #[inline(always)]
    fn entered<'l>(&'l self, entered: Entered<'l>) -> BiasedGuard<'l, T> {
        BiasedGuard {
            value: self.value.access(),
            _entered: entered,
        }
    }

    /// The value, of which nobody else has the lock.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Self::AsOwner(inside) = self {
            // Pairs with the acquire load in `end_turn`.
            inside.store(0, Ordering::Release);
        }
    }
}

impl<T> Deref for BiasedGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: whoever has entered has the value alone, for as long as this lives.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for BiasedGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { self.value.as_mut() }
    }
}

impl<T> fmt::Debug for BiasedLock<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BiasedLock").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for BiasedGuard<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("BiasedGuard").finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use hythe_testing::watched;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Has the calling thread become the owner?
    fn is_owned(lock: &BiasedLock<u64>) -> bool {
        lock.owner.load(Ordering::Relaxed) >> 32 == u64::from(facade::this_thread())
    }

    fn take(lock: &BiasedLock<u64>, times: u64) {
        for _ in 0..times {
            *lock.lock() += 1;
        }
    }

    #[test]
    fn long_run_makes_an_owner_and_another_thread_ends_that() {
        if !facade::can_order_all_threads() {
            eprintln!("skipped: no membarrier here");
            return;
        }
        let lock = Arc::new(BiasedLock::new(0));
        take(&lock, FIRST_RUN - 1);
        assert!(!is_owned(&lock));
        take(&lock, 2);
        assert!(is_owned(&lock));
        let other = Arc::clone(&lock);
        std::thread::spawn(move || take(&other, 1)).join().unwrap();
        assert!(!is_owned(&lock));
        // The second run is longer.
        take(&lock, FIRST_RUN * RUN_GROWTH - 1);
        assert!(!is_owned(&lock));
        take(&lock, 1);
        assert!(is_owned(&lock));
        let all = FIRST_RUN + 1 + 1 + FIRST_RUN * RUN_GROWTH;
        assert_eq!(*lock.lock(), all);
        assert_eq!(
            Arc::into_inner(lock).map(|mut lock| *lock.get_mut()),
            Some(all)
        );
    }

    #[test]
    fn nothing_is_lost_between_threads_that_become_owners_in_turn() {
        const ROUNDS: u64 = 200;
        let lock = Arc::new(BiasedLock::with_run(0_u64, 2));
        let stops = Arc::new(AtomicBool::new(false));
        let threads = [1_u64, 7, 40].map(|times| {
            let (lock, stops) = (Arc::clone(&lock), Arc::clone(&stops));
            std::thread::spawn(move || {
                let mut taken = 0;
                while taken < ROUNDS * times || !stops.load(Ordering::Relaxed) {
                    take(&lock, times);
                    taken += times;
                    std::thread::yield_now();
                    if taken >= ROUNDS * times {
                        break;
                    }
                }
                taken
            })
        });
        let taken: u64 = threads.map(|thread| thread.join().unwrap()).iter().sum();
        stops.store(true, Ordering::Relaxed);
        assert_eq!(*lock.lock(), taken);
    }

    #[test]
    fn another_thread_waits_until_the_owner_is_out() {
        let lock = Arc::new(BiasedLock::with_run(0_u64, 1));
        let mut guard = lock.lock();
        let other = Arc::clone(&lock);
        let (waiting, lock_it) = watched(move || *other.lock());
        let thread = std::thread::spawn(lock_it);
        waiting.until_asleep();
        // As long as it has begun to look at us, it waits: it must not see a half.
        *guard = 1;
        assert!(!thread.is_finished());
        *guard = 2;
        drop(guard);
        assert_eq!(thread.join().unwrap(), 2);
    }

    #[test]
    #[should_panic(expected = "taken twice")]
    fn owner_that_takes_it_twice_is_told() {
        let lock = BiasedLock::with_run(0_u64, 1);
        let _guard = lock.lock();
        if !is_owned(&lock) {
            panic!("taken twice: skipped, no membarrier here");
        }
        let _again = lock.lock();
    }

    #[test]
    fn lock_is_usable_after_panic() {
        let lock = BiasedLock::with_run(0_u64, 1);
        for round in 1..4 {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut guard = lock.lock();
                *guard = round;
                panic!("inside");
            }));
            assert!(caught.is_err());
            assert_eq!(*lock.lock(), round);
        }
    }
}
