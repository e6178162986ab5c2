//! `pvm_catchout`: what spawned tasks print is written to a stream of C.

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::guard::call;

/// A stream of C.
struct Stream(*mut libc::FILE);

// SAFETY: the C library's streams are used by several threads.
unsafe impl Send for Stream {}

static STREAM: Mutex<Option<Stream>> = Mutex::new(None);

#[unsafe(no_mangle)]
extern "C" fn pvm_catchout(stream: *mut libc::FILE) -> c_int {
    call("pvm_catchout", |session| {
        let is_on = !stream.is_null();
        if is_on {
            let mut kept = STREAM.lock().unwrap_or_else(PoisonError::into_inner);
            *kept = Some(Stream(stream));
        }
        session.catch_output(is_on);
        Ok(0)
    })
}

/// Writes where the program wants it.
pub(crate) fn print(text: &[u8]) {
    let kept = STREAM.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Stream(stream)) = &*kept else { return };
    // SAFETY: the program said that the stream is open as long as tasks print; the bytes are ours.
    unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), *stream) };
    // SAFETY: as above.
    unsafe { libc::fflush(*stream) };
}
