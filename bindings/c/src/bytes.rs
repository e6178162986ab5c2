//! Buffers of the caller, as slices for the length of a call. Never keeps one.

use core::ffi::c_void;
use core::ops::Range;

use crate::ffi_guard::{Refusal, missing};

/// Bytes to be read. NULL is allowed where there are none.
///
/// # Safety
/// `count` bytes from `bytes` on may be read and stand still for `'a`.
pub(crate) unsafe fn readable<'a>(bytes: *const c_void, count: usize) -> Result<&'a [u8], Refusal> {
    check(bytes, count)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: not NULL and not longer than an object can be; the rest is the caller's word.
    Ok(unsafe { core::slice::from_raw_parts(bytes.cast(), count) })
}

/// Bytes to be written.
///
/// # Safety
/// `count` bytes from `bytes` on may be written, and nobody else uses them for `'a`.
pub(crate) unsafe fn writable<'a>(
    bytes: *mut c_void,
    count: usize,
) -> Result<&'a mut [u8], Refusal> {
    check(bytes, count)?;
    if count == 0 {
        return Ok(&mut []);
    }
    // SAFETY: not NULL and not longer than an object can be. They may be uninitialised, which no
    // instruction that copies into them notices; the rest is the caller's word.
    Ok(unsafe { core::slice::from_raw_parts_mut(bytes.cast(), count) })
}

fn check(bytes: *const c_void, count: usize) -> Result<(), Refusal> {
    if bytes.is_null() && count > 0 {
        return Err(missing("buffer"));
    }
    if isize::try_from(count).is_err() {
        return Err(Refusal::argument(format!(
            "{count} bytes are more than there can be"
        )));
    }
    Ok(())
}

/// `count` bytes at `at` of something that has `all`.
pub(crate) fn inside(
    at: usize,
    count: usize,
    all: usize,
    what: &str,
) -> Result<Range<usize>, Refusal> {
    let end = at.checked_add(count).filter(|end| *end <= all);
    let refuse = || {
        Refusal::argument(format!(
            "{count} bytes at {at} are not inside {what} of {all}"
        ))
    };
    end.map(|end| at..end).ok_or_else(refuse)
}
