//! What PVM's library prints for programs, and small things that Fortran programs and the examples
//! call.

use std::ffi::{c_char, c_int};

use hythe_pvm::code::Code;

use crate::guard::{put, say, text};
use crate::hosts::now;
use crate::kept::{Text, keep_text};

/// A line on standard error: a function's name, and what a number means.
#[unsafe(no_mangle)]
extern "C" fn lpvmerr(name: *const c_char, number: c_int) -> c_int {
    // SAFETY: the caller passes NULL or text that ends with a zero.
    let name = unsafe { text(name) }.unwrap_or_default();
    crate::guard::keep_error(number);
    say(&format!("{name}(): {}", meaning(number)));
    number
}

/// A line on standard error.
#[unsafe(no_mangle)]
extern "C" fn pvmlogerror(line: *const c_char) -> c_int {
    // SAFETY: the caller passes NULL or text that ends with a zero.
    let line = unsafe { text(line) }.unwrap_or_default();
    say(line.trim_end_matches('\n'));
    0
}

/// A line on standard error, with what the system says of its last error.
#[unsafe(no_mangle)]
extern "C" fn pvmlogperror(line: *const c_char) -> c_int {
    let error = std::io::Error::last_os_error();
    // SAFETY: the caller passes NULL or text that ends with a zero.
    let line = unsafe { text(line) }.unwrap_or_default();
    say(&format!("{line}: {error}"));
    0
}

#[unsafe(no_mangle)]
extern "C" fn pvmsleep(seconds: c_int) -> c_int {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    std::thread::sleep(std::time::Duration::from_secs(seconds));
    0
}

#[unsafe(no_mangle)]
extern "C" fn pvmgetclock(place: *mut libc::timeval) -> c_int {
    // SAFETY: the caller passes NULL or a place for a result.
    unsafe { put(place, now()) };
    0
}

/// The name of a reserved tag; here all are numbers.
#[unsafe(no_mangle)]
extern "C" fn pvmnametag(tag: c_int, is_known: *mut c_int) -> *mut c_char {
    // SAFETY: the caller passes NULL or a place for a result.
    unsafe { put(is_known, 0) };
    keep_text(Text::TagName, &tag.to_string())
}

/// What a number means, also one that is none of PVM's.
pub(crate) fn meaning(number: c_int) -> String {
    match Code::from_number(number) {
        Some(code) => code.text().to_owned(),
        None => format!("Error {}", number.unsigned_abs()),
    }
}

/// On standard output, as C programs see it: through the C library's buffer.
pub(crate) fn print_out(text: &str) {
    for byte in text.bytes() {
        // SAFETY: it writes one byte to a stream that is always there.
        unsafe { libc::putchar(c_int::from(byte)) };
    }
}
