//! Boxes of handles that come and go with each message, kept for the next: after start-up nothing is allocated.
//!
//! One shelf for each thread and type, of bounded length. Never keeps what a handle names, only its empty box.

use std::cell::RefCell;
use std::thread::LocalKey;

use crate::border::{Handle, Refusal, missing, open};

/// Boxes that a shelf keeps; what is more goes back to the allocator.
const PLACES: usize = 64;

/// Empty boxes of one type.
#[derive(Debug)]
pub(crate) struct Shelf<H>(RefCell<Vec<Box<H>>>);

impl<H> Shelf<H> {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }
}

/// A handle that can be empty.
pub(crate) trait Shelved: Handle + Default + 'static {
    /// What is in it.
    type Held;

    fn shelf() -> &'static LocalKey<Shelf<Self>>;

    fn held(&mut self) -> &mut Option<Self::Held>;
}

/// A box with this in it. A thread that is ending has no shelf.
pub(crate) fn pack<H: Shelved>(held: H::Held) -> Box<H> {
    let empty = H::shelf().try_with(|shelf| shelf.0.borrow_mut().pop());
    let mut handle = empty.ok().flatten().unwrap_or_default();
    *handle.held() = Some(held);
    handle
}

/// What is in a handle that the caller gives up; its box goes back on the shelf. A refused one is left as it is, for good: it
/// may be another process's, or on the shelf already.
pub(crate) fn unpack<H: Shelved>(handle: Option<Box<H>>) -> Result<H::Held, Refusal> {
    let mut handle = handle.ok_or_else(|| missing(H::NOUN))?;
    if let Err(refusal) = open(Some(&*handle)) {
        std::mem::forget(handle);
        return Err(refusal);
    }
    let held = handle.held().take();
    let _ = H::shelf().try_with(|shelf| {
        let mut empty = shelf.0.borrow_mut();
        if empty.capacity() == 0 {
            empty.reserve_exact(PLACES);
        }
        if empty.len() < PLACES {
            empty.push(handle);
        }
    });
    held.ok_or_else(|| missing(H::NOUN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::border::Process;

    #[derive(Debug, Default)]
    struct Number(Option<u32>);

    thread_local! {
        static NUMBERS: Shelf<Number> = const { Shelf::new() };
    }

    impl Handle for Number {
        const NOUN: &'static str = "number";

        fn process(&self) -> Option<Process> {
            self.0.map(|_| Process::own())
        }
    }

    impl Shelved for Number {
        type Held = u32;

        fn shelf() -> &'static LocalKey<Shelf<Self>> {
            &NUMBERS
        }

        fn held(&mut self) -> &mut Option<u32> {
            &mut self.0
        }
    }

    #[test]
    fn boxes_come_back_empty_and_not_without_end() {
        let first = pack::<Number>(1);
        let place = std::ptr::from_ref(&*first);
        assert_eq!(unpack(Some(first)).ok(), Some(1));
        let second = pack::<Number>(2);
        assert_eq!(std::ptr::from_ref(&*second), place);
        let many: Vec<_> = (0..2 * PLACES as u32).map(pack::<Number>).collect();
        for handle in many {
            assert!(unpack(Some(handle)).is_ok());
        }
        assert_eq!(NUMBERS.with(|shelf| shelf.0.borrow().len()), PLACES);
        drop(second);
    }

    #[test]
    fn an_empty_one_is_refused() {
        assert!(unpack::<Number>(None).is_err());
        assert!(unpack(Some(Box::new(Number(None)))).is_err());
    }
}
