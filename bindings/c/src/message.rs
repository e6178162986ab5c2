//! What the last refused call of each thread says. Written by `ffi_guard` only; never cleared by a
//! call that succeeds.

use core::ffi::c_char;
use std::cell::RefCell;
use std::ffi::CString;
use std::mem::ManuallyDrop;

thread_local! {
    /// Without a destructor, so that there is one also when the thread's others have run: in static
    /// destructors of a program, and functions that run at its exit.
    static LAST: ManuallyDrop<RefCell<CString>> = ManuallyDrop::default();
    static FREED_AT_END: FreedAtEnd = const { FreedAtEnd };
}

/// Frees the text of a thread that ends; that of the first thread stays, as the program ends then.
struct FreedAtEnd;

impl Drop for FreedAtEnd {
    fn drop(&mut self) {
        // SAFETY: takes nothing.
        let thread = unsafe { libc::gettid() };
        // SAFETY: takes nothing.
        let process = unsafe { libc::getpid() };
        if thread != process {
            LAST.with(|last| last.take());
        }
    }
}

/// Keeps a text for this thread. A zero byte in it, which names from outside may have, would end
/// it: it becomes a blank.
pub(crate) fn keep(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = text);
    // A thread that is ending frees no more: what it fails at now is kept.
    let _ = FREED_AT_END.try_with(|_| ());
}

/// The message of the last call of this thread that returned a negative code: what failed, with
/// which value, and what to do. Empty if none has failed. The text is valid until the thread's next
/// call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
