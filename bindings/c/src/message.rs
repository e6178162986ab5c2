//! What the last refused call of each thread says. Written by `ffi_guard` only; never cleared by a
//! call that succeeds.

use core::ffi::c_char;
use std::cell::RefCell;
use std::ffi::CString;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps a text for this thread. A zero byte in it, which names from outside may have, would end
/// it: it becomes a blank.
pub(crate) fn keep(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending keeps nothing.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// The message of the last call of this thread that returned a negative code: what failed, with
/// which value, and what to do. Empty if none has failed. The text is valid until the thread's next
/// call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}
