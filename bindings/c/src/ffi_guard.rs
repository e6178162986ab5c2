//! The guard that every call passes: refusals become codes and messages, panics stop, copies in
//! forked children are refused.
//!
//! Called by each public function, first thing. Never touches a pool.

use core::any::Any;
use core::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use hythe::NodeError;

use crate::code;
use crate::message;

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: c_int,
    text: String,
}

impl Refusal {
    pub(crate) fn new(code: c_int, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(code::HYTHE_EARGUMENT, text)
    }
}

impl From<NodeError> for Refusal {
    fn from(error: NodeError) -> Self {
        Self::new(code::of(&error), error.to_string())
    }
}

/// Runs the inside of a public function.
///
/// Unwind safety: after a panic a handle is as its last completed step left it, which is what the
/// crates inside promise for their own panics, too.
pub(crate) fn cross(inside: impl FnOnce() -> Result<c_int, Refusal>) -> c_int {
    let refusal = match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(done)) => return done,
        Ok(Err(refusal)) => refusal,
        Err(panic) => Refusal::new(code::HYTHE_EPANIC, text_of(panic.as_ref())),
    };
    message::keep(&refusal.text);
    refusal.code
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!(
        "this is an error of the library, please report it: {}",
        text.unwrap_or("no message")
    )
}

/// How many forks lie between the start of the program and this process.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Which process a handle belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This one. From now on forks are counted.
    pub(crate) fn own() -> Self {
        static COUNTING: Once = Once::new();
        COUNTING.call_once(|| {
            // SAFETY: the function is one for a child: it touches an atomic word and nothing else.
            let refused = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
            // No memory for the entry: then children are not told from their parents, as the
            // documentation demands of them.
            let _ = refused;
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    pub(crate) fn is_own(self) -> bool {
        // Nobody writes it but the only thread of a new child.
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// An open handle.
pub(crate) trait Handle {
    /// What it is called in messages.
    const NOUN: &'static str;

    /// Whose it is; none if it was given up already.
    fn process(&self) -> Option<Process>;
}

/// A handle that the caller passed: there, and this process's own.
pub(crate) fn open<H: Handle>(handle: Option<&H>) -> Result<&H, Refusal> {
    let handle = handle.ok_or_else(|| missing(H::NOUN))?;
    check_process(handle).map(|()| handle)
}

/// As [`open`], for one thread at a time.
pub(crate) fn open_mut<H: Handle>(handle: Option<&mut H>) -> Result<&mut H, Refusal> {
    let handle = handle.ok_or_else(|| missing(H::NOUN))?;
    check_process(handle).map(|()| handle)
}

fn check_process<H: Handle>(handle: &H) -> Result<(), Refusal> {
    let process = handle
        .process()
        .ok_or_else(|| Refusal::argument(format!("this {} was given up already", H::NOUN)))?;
    if process.is_own() {
        return Ok(());
    }
    let text = format!(
        "this {} is the parent's: a child made by fork alone opens the pool and joins by itself",
        H::NOUN
    );
    Err(Refusal::new(code::HYTHE_EFORKED, text))
}

pub(crate) fn missing(what: &str) -> Refusal {
    Refusal::argument(format!("the {what} is NULL"))
}

/// A place for a result: there.
pub(crate) fn place<'a, T>(place: Option<&'a mut T>, what: &str) -> Result<&'a mut T, Refusal> {
    place.ok_or_else(|| missing(what))
}

/// A place for a handle: there, and NULL until there is one.
pub(crate) fn empty_place<H: Handle>(
    place: Option<&mut MaybeUninit<*mut H>>,
) -> Result<&mut MaybeUninit<*mut H>, Refusal> {
    let place = place.ok_or_else(|| missing(&format!("place for the {}", H::NOUN)))?;
    place.write(std::ptr::null_mut());
    Ok(place)
}

/// A handle that the caller gives up. A copy in a forked child is forgotten: its end is not that of
/// what it names.
pub(crate) fn end<H: Handle>(handle: Option<Box<H>>) {
    let Some(handle) = handle else { return };
    if check_process(&*handle).is_err() {
        std::mem::forget(handle);
        return;
    }
    cross(|| {
        drop(handle);
        Ok(0)
    });
}

/// A name that C passes.
///
/// # Safety
/// `name` is NULL or points to text that ends with a zero and stands still for `'a`.
pub(crate) unsafe fn name<'a>(name: *const c_char, what: &str) -> Result<&'a str, Refusal> {
    // SAFETY: passed on.
    let name = unsafe { optional_name(name, what) }?;
    name.ok_or_else(|| missing(what))
}

/// As [`name`]; NULL is none.
///
/// # Safety
/// As [`name`].
pub(crate) unsafe fn optional_name<'a>(
    name: *const c_char,
    what: &str,
) -> Result<Option<&'a str>, Refusal> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not NULL; the rest is the caller's word.
    let text = unsafe { CStr::from_ptr(name) };
    let refuse = |_| Refusal::argument(format!("the {what} is not UTF-8: {text:?}"));
    text.to_str().map(Some).map_err(refuse)
}

/// A number of things as a result; whatever does not fit stands for "very many".
pub(crate) fn count(number: usize) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::hythe_last_error;

    fn said() -> String {
        // SAFETY: the text is this thread's, which reads it at once.
        let text = unsafe { CStr::from_ptr(hythe_last_error()) };
        text.to_string_lossy().into_owned()
    }

    #[test]
    fn panics_become_a_code_and_a_message() {
        assert_eq!(cross(|| panic!("slot {}", 7)), code::HYTHE_EPANIC);
        assert!(said().ends_with("slot 7"), "{}", said());
        assert_eq!(cross(|| Ok(3)), 3);
        assert!(said().ends_with("slot 7"), "success leaves the message");
    }

    #[test]
    fn names_are_text() {
        // SAFETY: all are static, or NULL.
        let read = |pointer| unsafe { name(pointer, "channel") }.map_err(|refusal| refusal.text);
        assert_eq!(read(c"mp3".as_ptr()), Ok("mp3"));
        assert_eq!(
            read(std::ptr::null()),
            Err("the channel is NULL".to_owned())
        );
        assert!(read(c"\xff".as_ptr()).is_err());
    }
}
