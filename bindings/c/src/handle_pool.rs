//! Places of handles that come and go with each message, kept for the next: after start-up nothing
//! is allocated.
//!
//! A handle is an address inside its place, another one each time the place is used: so a handle
//! that was given up is told from the next one of the same place ([`GENERATIONS`]), and giving it
//! up once more is refused. One pool of empty places for each thread and type; what is more, and
//! what a thread leaves behind, is for any thread. No place goes back to the allocator while the
//! process runs, so that a handle that was given up still points to one.

use std::cell::{RefCell, UnsafeCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::LocalKey;

use crate::ffi_guard::{Handle, Refusal, missing, open};

/// Places that a pool keeps for its thread.
const PLACES: usize = 64;

/// How many handles of one place are told apart: one that was given up is refused for so many uses
/// of its place.
const GENERATIONS: usize = 256;
const PLACE_BYTES: usize = 512;

/// Where a handle leads.
#[repr(C, align(512))]
#[derive(Debug)]
pub(crate) struct Place<T> {
    /// A handle is the address of one of these bytes: that of its generation. What is in them means
    /// nothing.
    generations: [u8; GENERATIONS],
    /// The one that is, or will be, in use. Atomic, since who gives up an old handle looks at it
    /// while another thread uses the place.
    current: AtomicU8,
    held: UnsafeCell<Option<T>>,
}

impl<T> Place<T> {
    const fn new() -> Self {
        assert!(align_of::<Self>() == PLACE_BYTES && GENERATIONS == 1 << u8::BITS);
        Self {
            generations: [0; GENERATIONS],
            current: AtomicU8::new(0),
            held: UnsafeCell::new(None),
        }
    }
}

/// Empty places of one thread and type.
#[derive(Debug)]
pub(crate) struct HandlePool<H: PooledHandle>(RefCell<Vec<Box<Place<H::Held>>>>);

/// Empty places of one type that no thread has in its pool.
#[derive(Debug)]
pub(crate) struct Spare<H: PooledHandle>(Mutex<Vec<Box<Place<H::Held>>>>);

impl<H: PooledHandle> HandlePool<H> {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }
}

impl<H: PooledHandle> Drop for HandlePool<H> {
    fn drop(&mut self) {
        self.0
            .get_mut()
            .drain(..)
            .for_each(|place| H::spare().keep(place));
    }
}

impl<H: PooledHandle> Spare<H> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn keep(&self, place: Box<Place<H::Held>>) {
        // Never waits: after a fork, the thread that had the lock may not be there.
        match self.0.try_lock() {
            Ok(mut places) => places.push(place),
            Err(_) => std::mem::forget(place),
        }
    }

    fn take(&self) -> Option<Box<Place<H::Held>>> {
        self.0.try_lock().ok()?.pop()
    }
}

/// A handle that leads to a place.
pub(crate) trait PooledHandle: Handle + Sized + 'static {
    /// What is in it.
    type Held: Send + 'static;

    fn handle_pool() -> &'static LocalKey<HandlePool<Self>>;

    fn spare() -> &'static Spare<Self>;
}

/// The place of a handle. `None`: the handle was given up.
fn place_of<H: PooledHandle>(handle: &H) -> Option<*mut Place<H::Held>> {
    let address = std::ptr::from_ref(handle).addr();
    let place: *mut Place<H::Held> =
        std::ptr::with_exposed_provenance_mut(address & !(PLACE_BYTES - 1));
    // SAFETY: a handle points into a place, whose provenance was exposed when it was given out, and
    // which is never freed.
    let current = unsafe { &(*place).current };
    let generation = address % PLACE_BYTES;
    (generation == usize::from(current.load(Ordering::Relaxed))).then_some(place)
}

/// What is in a handle; `None` in one that was given up.
pub(crate) fn held<H: PooledHandle>(handle: &H) -> Option<&H::Held> {
    let place = place_of(handle)?;
    // SAFETY: it is a place, and places are never freed.
    let held = unsafe { &raw const (*place).held };
    // SAFETY: it is the place of this handle, which the caller uses as its type allows: nobody
    // changes it meanwhile.
    let held = unsafe { &*UnsafeCell::raw_get(held) };
    held.as_ref()
}

/// As [`held`], to change it.
pub(crate) fn held_mut<H: PooledHandle>(handle: &mut H) -> Option<&mut H::Held> {
    let place = place_of(handle)?;
    // SAFETY: it is a place, and places are never freed.
    let held = unsafe { &raw const (*place).held };
    // SAFETY: it is the place of this handle, which one thread at a time uses.
    let held = unsafe { &mut *UnsafeCell::raw_get(held) };
    held.as_mut()
}

/// A handle with this in it.
pub(crate) fn pack<H: PooledHandle>(held: H::Held) -> *mut H {
    // A thread that is ending has no pool.
    let empty = H::handle_pool().try_with(|pool| pool.0.borrow_mut().pop());
    let empty = empty.ok().flatten().or_else(|| H::spare().take());
    let mut place = empty.unwrap_or_else(|| Box::new(Place::new()));
    *place.held.get_mut() = Some(held);
    let generation = usize::from(*place.current.get_mut());
    let address = Box::into_raw(place).expose_provenance();
    std::ptr::with_exposed_provenance_mut(address + generation)
}

/// What is in a handle that the caller gives up; its place goes back into the pool. A refused one
/// is left as it is, for good: it may be another process's, or given up already.
pub(crate) fn unpack<H: PooledHandle>(handle: Option<&mut H>) -> Result<H::Held, Refusal> {
    let handle = handle.ok_or_else(|| missing(H::NOUN))?;
    open(Some(&*handle))?;
    let place = place_of(handle).ok_or_else(|| missing(H::NOUN))?;
    // SAFETY: the handle was its last, made by `pack` out of a box, and is refused from here on.
    let mut place = unsafe { Box::from_raw(place) };
    let held = place.held.get_mut().take();
    let current = place.current.get_mut();
    *current = current.wrapping_add(1);
    let mut left = Some(place);
    let _ = H::handle_pool().try_with(|pool| {
        let mut empty = pool.0.borrow_mut();
        if empty.capacity() == 0 {
            empty.reserve_exact(PLACES);
        }
        if empty.len() < PLACES {
            empty.extend(left.take());
        }
    });
    if let Some(place) = left {
        H::spare().keep(place);
    }
    held.ok_or_else(|| missing(H::NOUN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi_guard::Process;

    struct Number(#[allow(dead_code, reason = "as in a handle: only its address counts")] u8);

    thread_local! {
        static NUMBERS: HandlePool<Number> = const { HandlePool::new() };
    }
    static SPARE: Spare<Number> = Spare::new();

    impl Handle for Number {
        const NOUN: &'static str = "number";

        fn process(&self) -> Option<Process> {
            held(self).map(|_| Process::own())
        }
    }

    impl PooledHandle for Number {
        type Held = u32;

        fn handle_pool() -> &'static LocalKey<HandlePool<Self>> {
            &NUMBERS
        }

        fn spare() -> &'static Spare<Self> {
            &SPARE
        }
    }

    /// As C passes it.
    fn passed(handle: *mut Number) -> Option<&'static mut Number> {
        // SAFETY: places are never freed.
        unsafe { handle.as_mut() }
    }

    fn place(handle: *mut Number) -> usize {
        handle.addr() & !(PLACE_BYTES - 1)
    }

    #[test]
    fn places_come_back_and_not_without_end() {
        let first = pack::<Number>(1);
        assert_eq!(unpack(passed(first)).ok(), Some(1));
        let second = pack::<Number>(2);
        assert_eq!(place(second), place(first));
        let many: Vec<_> = (0..2 * PLACES as u32).map(pack::<Number>).collect();
        for &handle in &many {
            assert!(unpack(passed(handle)).is_ok());
        }
        assert_eq!(NUMBERS.with(|pool| pool.0.borrow().len()), PLACES);
        assert_eq!(unpack(passed(second)).ok(), Some(2));
    }

    #[test]
    fn handle_pool_refuses_handles_of_other_generations() {
        let stale = pack::<Number>(0);
        assert_eq!(unpack(passed(stale)).ok(), Some(0));
        for number in 1..GENERATIONS as u32 {
            let next = pack::<Number>(number);
            assert_eq!(place(next), place(stale));
            assert!(unpack(passed(stale)).is_err(), "use {number}");
            assert!(passed(stale).is_some_and(|stale| held(stale).is_none()));
            assert_eq!(unpack(passed(next)).ok(), Some(number), "it is untouched");
        }
    }

    #[test]
    fn what_a_thread_leaves_behind_is_for_others() {
        let handle = std::thread::spawn(|| {
            let handle = pack::<Number>(7);
            assert!(unpack(passed(handle)).is_ok());
            handle.addr()
        });
        let handle = handle.join().expect("no panic");
        let stale = std::ptr::with_exposed_provenance_mut(handle);
        assert!(unpack(passed(stale)).is_err());
        assert!(unpack::<Number>(None).is_err());
    }
}
