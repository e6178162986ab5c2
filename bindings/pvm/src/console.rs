//! What only PVM's console calls.

use std::ffi::{c_char, c_int, c_void};

use hythe_pvm::code::Code;

use crate::guard::{Held, call, guarded, put, text};
use crate::kept::{Text, keep_text};

/// Bytes of a trace mask, with the zero at its end (`TEV_MASK_LENGTH`).
const MASK_LENGTH: usize = 36;
/// One with nothing in it.
const EMPTY_MASK: u8 = b'@';

/// Nothing is traced.
#[unsafe(no_mangle)]
extern "C" fn pvm_gettmask(who: c_int, mask: *mut c_char) -> c_int {
    guarded("pvm_gettmask", || {
        if mask.is_null() || !(0..=1).contains(&who) {
            return Err(Code::BAD_PARAMETER);
        }
        // SAFETY: the caller passes a place for a mask, whose length `pvmtev.h` says.
        let mask = unsafe { std::slice::from_raw_parts_mut(mask.cast::<u8>(), MASK_LENGTH) };
        mask.fill(EMPTY_MASK);
        mask[MASK_LENGTH - 1] = 0;
        Ok(0)
    })
}

/// What is to be traced is taken and not traced, as the guide says.
#[unsafe(no_mangle)]
extern "C" fn pvm_settmask(who: c_int, mask: *const c_char) -> c_int {
    guarded("pvm_settmask", || {
        match mask.is_null() || !(0..=1).contains(&who) {
            true => Err(Code::BAD_PARAMETER),
            false => Ok(0),
        }
    })
}

/// There is no daemon whose inside could be looked at.
#[unsafe(no_mangle)]
extern "C" fn pvm_tickle(
    _count: c_int,
    _arguments: *const c_int,
    replies: *mut c_int,
    _reply: *mut c_int,
) -> c_int {
    guarded("pvm_tickle", || {
        // SAFETY: the caller passes NULL or a place for a result.
        unsafe { put(replies, 0) };
        Err(Code::NOT_IMPLEMENTED)
    })
}

/// Leaves the machine at once.
#[unsafe(no_mangle)]
extern "C" fn pvmendtask() -> c_int {
    guarded("pvmendtask", || {
        Held::take()?.end();
        Ok(0)
    })
}

/// Ends all tasks but this one.
#[unsafe(no_mangle)]
extern "C" fn pvmreset(
    _own: c_int,
    kills_tasks: c_int,
    _class: *const c_char,
    _index: c_int,
) -> c_int {
    call("pvmreset", |session| {
        if kills_tasks == 0 {
            return Ok(0);
        }
        let own = session.task().number();
        let others = session.rows(0)?.into_iter().map(|row| row.task);
        for task in others.filter(|task| *task != own).collect::<Vec<_>>() {
            session.signal(task, libc::SIGKILL)?;
        }
        Ok(0)
    })
}

/// What starts programs on other hosts.
#[unsafe(no_mangle)]
extern "C" fn pvmgetrsh() -> *mut c_char {
    let shell = std::env::var("PVM_RSH").unwrap_or_else(|_| "/usr/bin/rsh".to_owned());
    keep_text(Text::RemoteShell, &shell)
}

/// Where PVM's files are.
#[unsafe(no_mangle)]
extern "C" fn pvmgettmp() -> *mut c_char {
    let folder = std::env::var("PVM_TMP").unwrap_or_else(|_| "/tmp".to_owned());
    keep_text(Text::Folder, &folder)
}

/// Sets `NAME=VALUE`, which becomes part of the environment itself.
#[unsafe(no_mangle)]
extern "C" fn pvmputenv(assignment: *mut c_char) -> c_int {
    if assignment.is_null() {
        return Code::BAD_PARAMETER.number();
    }
    // SAFETY: the caller passes text that ends with a zero, and stays; as with PVM, no other thread
    // reads the environment meanwhile.
    unsafe { libc::putenv(assignment) }
}

/// A number, also with 0 or 0x in front.
#[unsafe(no_mangle)]
extern "C" fn pvmstrtoi(number: *const c_char) -> c_int {
    // SAFETY: the caller passes NULL or text that ends with a zero.
    let number = unsafe { text(number) }.unwrap_or_default();
    let number = number.trim();
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, number),
    };
    let parsed = match (digits.strip_prefix("0x"), digits.strip_prefix('0')) {
        (Some(hexadecimal), _) => i64::from_str_radix(hexadecimal, 16),
        (None, Some(octal)) if !octal.is_empty() => i64::from_str_radix(octal, 8),
        _ => digits.parse(),
    };
    // What does not fit wraps, as `atoi` does.
    parsed.map_or(0, |parsed| (parsed as c_int).wrapping_mul(sign))
}

/// PVM's own memory is not shown.
#[unsafe(no_mangle)]
extern "C" fn i_dump(_level: c_int) -> *mut c_void {
    std::ptr::null_mut()
}

/// The name of a file that there is not, in a place for 128 characters.
#[unsafe(no_mangle)]
extern "C" fn pvmtmpnam(place: *mut c_char) -> *mut c_char {
    const TEMPLATE: &[u8] = b"/tmp/pvmXXXXXX\0";
    if place.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller passes a place for 128 characters, and the template is shorter.
    let name = unsafe { std::slice::from_raw_parts_mut(place.cast::<u8>(), TEMPLATE.len()) };
    name.copy_from_slice(TEMPLATE);
    // SAFETY: it is text with a zero at its end, whose last six characters it may change.
    let file = unsafe { libc::mkstemp(place) };
    if file < 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(file) };
    // SAFETY: the name ends with a zero still.
    unsafe { libc::unlink(place) };
    place
}
