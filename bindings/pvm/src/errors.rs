//! Errors: `pvm_perror`, `pvm_strerror`.

use std::ffi::{c_char, c_int};

use crate::guard::{last_error, say, text};
use crate::kept::{Text, keep_text};
use crate::logging::meaning;

/// Prints what the last error means.
#[unsafe(no_mangle)]
extern "C" fn pvm_perror(message: *const c_char) -> c_int {
    // SAFETY: the caller passes NULL or text that ends with a zero.
    let message = unsafe { text(message) }.unwrap_or_default();
    say(&format!("{message}: {}", meaning(last_error())));
    0
}

/// What the last error means.
#[unsafe(no_mangle)]
extern "C" fn pvm_strerror() -> *mut c_char {
    keep_text(Text::Error, &meaning(last_error()))
}

/// PVM's release, whose interface this is.
#[unsafe(no_mangle)]
extern "C" fn pvm_version() -> *mut c_char {
    c"3.4.6".as_ptr().cast_mut()
}
