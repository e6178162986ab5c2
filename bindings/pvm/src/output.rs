//! `pvm_catchout`: what spawned tasks print is written to a stream of C.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::guard::call;

/// A stream of C; NULL: none was named.
static STREAM: AtomicPtr<libc::FILE> = AtomicPtr::new(null_mut());

#[unsafe(no_mangle)]
extern "C" fn pvm_catchout(stream: *mut libc::FILE) -> c_int {
    call("pvm_catchout", |session| {
        let is_on = !stream.is_null();
        if is_on {
            STREAM.store(stream, Ordering::Relaxed);
        }
        session.catch_output(is_on);
        Ok(0)
    })
}

/// Writes where the program wants it.
pub(crate) fn print(text: &[u8]) {
    let stream = STREAM.load(Ordering::Relaxed);
    if stream.is_null() {
        return;
    }
    // SAFETY: the program said that the stream is open as long as tasks print; the bytes are ours.
    unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stream) };
    // SAFETY: as above.
    unsafe { libc::fflush(stream) };
}
