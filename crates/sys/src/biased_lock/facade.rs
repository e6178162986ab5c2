//! What the lock is made of, and what loom puts in its place.
//!
//! In a model, the fence of the owner and the call that orders the accesses of all threads are two
//! sequentially consistent fences: that is what the call makes of a place in the owner's program
//! behind which the compiler moves nothing.

#[cfg(loom)]
pub(super) use self::modelled::*;
#[cfg(not(loom))]
pub(super) use self::real::*;
pub(super) use std::sync::atomic::Ordering;

/// The number of a thread that has none.
pub(super) const NO_THREAD: u32 = 0;

#[cfg(not(loom))]
mod real {
    use std::cell::{Cell, UnsafeCell};
    use std::sync::atomic::{Ordering, compiler_fence};
    use std::time::Duration;

    use rustix::thread::{MembarrierCommand, membarrier};

    pub(in super::super) use std::sync::atomic::{AtomicU32, AtomicU64};
    pub(in super::super) use std::sync::{Mutex, MutexGuard};

    /// While the owner does not leave.
    const NAP: Duration = Duration::from_micros(50);
    /// Where the kernel has been forbidden since to order the accesses of all threads: a store that
    /// waits in a processor comes out within microseconds.
    const STORES_ARE_OUT: Duration = Duration::from_millis(10);

    /// A value that one thread at a time reaches.
    pub(in super::super) struct Place<T>(UnsafeCell<T>);

    /// To a value, for whoever may reach it.
    pub(in super::super) struct Access<T>(*mut T);

    impl<T> Place<T> {
        pub(in super::super) const fn new(value: T) -> Self {
            Self(UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(in super::super) const fn access(&self) -> Access<T> {
            Access(self.0.get())
        }

        pub(in super::super) const fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }
    }

    impl<T> Access<T> {
        /// # Safety
        /// Nobody writes the value meanwhile.
        #[inline(always)]
        pub(in super::super) const unsafe fn as_ref(&self) -> &T {
            // SAFETY: the pointer is that of a cell which outlives the guard; the rest is the
            // caller's.
            unsafe { &*self.0 }
        }

        /// # Safety
        /// Nobody else reaches the value meanwhile.
        #[inline(always)]
        pub(in super::super) const unsafe fn as_mut(&mut self) -> &mut T {
            // SAFETY: as above.
            unsafe { &mut *self.0 }
        }
    }

    /// Number of this thread: no other thread of the process has had it. [`super::NO_THREAD`] if
    /// there are no more.
    #[inline(always)]
    pub(in super::super) fn this_thread() -> u32 {
        thread_local! {
            static NUMBER: Cell<u32> = const { Cell::new(super::NO_THREAD) };
        }
        NUMBER.with(|number| {
            if number.get() == super::NO_THREAD {
                number.set(next_thread());
            }
            number.get()
        })
    }

    #[cold]
    fn next_thread() -> u32 {
        static GIVEN: AtomicU32 = AtomicU32::new(super::NO_THREAD);
        // The largest is nobody's.
        let next = |given: u32| given.checked_add(1).filter(|next| *next < u32::MAX);
        let before = GIVEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        before.map_or(super::NO_THREAD, |before| before + 1)
    }

    /// From now on this process may call [`order_all_threads`].
    pub(in super::super) fn can_order_all_threads() -> bool {
        !cfg!(miri) && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    /// Each thread of the process has made visible what it stored before some moment of this call,
    /// and loads anew what it loads behind it.
    pub(in super::super) fn order_all_threads() {
        if membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            std::thread::sleep(STORES_ARE_OUT);
        }
    }

    /// The compiler moves no access across; the rest is [`order_all_threads`].
    #[inline(always)]
    pub(in super::super) fn order_this_thread() {
        compiler_fence(Ordering::SeqCst);
    }

    pub(in super::super) fn wait(is_long: bool) {
        if is_long {
            std::thread::sleep(NAP);
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(loom)]
mod modelled {
    use loom::cell::{MutPtr, UnsafeCell};
    pub(in super::super) use loom::sync::atomic::{AtomicU32, AtomicU64};
    pub(in super::super) use loom::sync::{Mutex, MutexGuard};

    use super::Ordering;

    pub(in super::super) struct Place<T>(UnsafeCell<T>);

    /// Counts as one write for as long as it lives.
    pub(in super::super) struct Access<T>(MutPtr<T>);

    impl<T> Place<T> {
        pub(in super::super) fn new(value: T) -> Self {
            Self(UnsafeCell::new(value))
        }

        pub(in super::super) fn access(&self) -> Access<T> {
            Access(self.0.get_mut())
        }

        pub(in super::super) fn get_mut(&mut self) -> &mut T {
            // SAFETY: `self` is borrowed alone, and so is what this returns.
            unsafe { &mut *self.0.with_mut(|value| value) }
        }
    }

    impl<T> Access<T> {
        /// # Safety
        /// Nobody writes the value meanwhile.
        pub(in super::super) unsafe fn as_ref(&self) -> &T {
            // SAFETY: the caller's; loom looks whether it is true.
            unsafe { &*self.0.with(|value| value) }
        }

        /// # Safety
        /// Nobody else reaches the value meanwhile.
        pub(in super::super) unsafe fn as_mut(&mut self) -> &mut T {
            // SAFETY: as above.
            unsafe { self.0.deref() }
        }
    }

    /// Models say who takes the lock.
    pub(in super::super) fn this_thread() -> u32 {
        super::NO_THREAD
    }

    pub(in super::super) fn can_order_all_threads() -> bool {
        true
    }

    pub(in super::super) fn order_all_threads() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub(in super::super) fn order_this_thread() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub(in super::super) fn wait(_is_long: bool) {
        loom::thread::yield_now();
    }
}
