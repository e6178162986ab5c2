//! Mailboxes: `pvm_putinfo` and its kind, and what programs for older PVM call.

use std::ffi::{CString, c_char, c_int};

use hythe_pvm::buffer::Encoding;
use hythe_pvm::code::Code;

use crate::guard::{Session, call, guarded, put, text};
use crate::kept::{Classes, KEPT};
use crate::sending::in_place;
use crate::structures::MailboxInfo;
use crate::waiting::ask_others;

/// Entries of PVM 3.3 have one number each, and stay when their task is gone.
const ENTRY_FLAGS: c_int = 1 | 2;

#[unsafe(no_mangle)]
extern "C" fn pvm_putinfo(name: *const c_char, buffer: c_int, flags: c_int) -> c_int {
    call("pvm_putinfo", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let name = unsafe { class(name) }?;
        let body = in_place(session.buffers.find(buffer)?);
        session.put(&name, buffer, flags, body.as_deref())
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_recvinfo(name: *const c_char, index: c_int, flags: c_int) -> c_int {
    // That there is nothing is no error, and not printed.
    quietly(|| {
        guarded("pvm_recvinfo", || {
            // SAFETY: the caller passes NULL or text that ends with a zero.
            let name = unsafe { class(name) }?;
            quiet(ask_others(
                |session| session.begin_read(&name, index, flags),
                |session, reply| session.end_read(reply),
            ))
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_delinfo(name: *const c_char, index: c_int, _flags: c_int) -> c_int {
    quietly(|| {
        call("pvm_delinfo", |session| {
            // SAFETY: the caller passes NULL or text that ends with a zero.
            let name = unsafe { class(name) }?;
            quiet(session.delete(&name, index))
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_getmboxinfo(
    pattern: *const c_char,
    count: *mut c_int,
    classes: *mut *mut MailboxInfo,
) -> c_int {
    call("pvm_getmboxinfo", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let pattern = unsafe { text(pattern) }.unwrap_or_default();
        let found = session.classes(&pattern)?;
        let mut kept = KEPT.lock();
        kept.classes = Classes::new(&found);
        // SAFETY: the caller passes NULL or a place for a result.
        unsafe { put(count, kept.classes.count()) };
        // SAFETY: as above.
        unsafe { put(classes, kept.classes.pointer()) };
        Ok(0)
    })
}

/// PVM 3.3: keeps a number under a name.
#[unsafe(no_mangle)]
extern "C" fn pvm_insert(name: *const c_char, index: c_int, value: c_int) -> c_int {
    call("pvm_insert", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let name = unsafe { class(name) }?;
        let buffer = session.new_buffer(Encoding::Xdr);
        let packed = session.buffers.find(buffer)?.pack_int(value);
        let flags = match index {
            1.. => ENTRY_FLAGS | index << 10,
            0 | -1 => ENTRY_FLAGS,
            _ => return Err(Code::BAD_PARAMETER),
        };
        let done = packed.and_then(|()| session.put(&name, buffer, flags, None));
        session.buffers.remove(buffer)?;
        match done? {
            // That number is another entry's.
            other if index >= 0 && other != index => {
                session.delete(&name, other)?;
                Err(Code::DENIED)
            }
            number => Ok(number),
        }
    })
}

/// PVM 3.3: finds it, and returns its number: -1 stands for the least there is. The active buffer
/// stays as it is.
#[unsafe(no_mangle)]
extern "C" fn pvm_lookup(name: *const c_char, index: c_int, place: *mut c_int) -> c_int {
    quietly(|| {
        call("pvm_lookup", |session| {
            // SAFETY: the caller passes NULL or text that ends with a zero.
            let name = unsafe { class(name) }?;
            let index = match index {
                -1 => first_index(session, &name)?,
                _ => Some(index),
            };
            let Some(index) = index else {
                return quiet(Err(Code::NOT_FOUND));
            };
            let before = session.buffers.set_receive(0)?;
            let found = session.read(&name, index, 0).and_then(|buffer| {
                let value = session.buffers.receiving()?.unpack_int();
                session.buffers.remove(buffer)?;
                value
            });
            session.buffers.set_receive(before)?;
            match found {
                Ok(value) => {
                    // SAFETY: the caller passes NULL or a place for a result.
                    unsafe { put(place, value) };
                    Ok(index)
                }
                Err(code) => quiet(Err(code)),
            }
        })
    })
}

fn first_index(session: &mut Session, name: &str) -> Result<Option<c_int>, Code> {
    // Others that the name finds as a pattern are among them.
    let found = session.classes(name)?;
    let class = found.iter().find(|class| class.name == name);
    Ok(class.and_then(|class| class.entries.first().map(|(index, _, _)| *index)))
}

/// PVM 3.3: takes it away.
#[unsafe(no_mangle)]
extern "C" fn pvm_delete(name: *const c_char, index: c_int) -> c_int {
    pvm_delinfo(name, index, 0)
}

/// # Safety
/// `name` is NULL or points to text that ends with a zero.
unsafe fn class(name: *const c_char) -> Result<String, Code> {
    // SAFETY: passed on.
    let name = unsafe { text(name) };
    let name = name.filter(|name| CString::new(name.as_str()).is_ok());
    name.ok_or(Code::BAD_PARAMETER)
}

/// An outcome that is no error of the program's passes as its number.
fn quiet(outcome: Result<c_int, Code>) -> Result<c_int, Code> {
    match outcome {
        Err(code @ (Code::NOT_FOUND | Code::DENIED)) => Ok(code.number()),
        other => other,
    }
}

fn quietly(inside: impl FnOnce() -> c_int) -> c_int {
    let outcome = inside();
    if outcome < 0 {
        crate::guard::keep_error(outcome);
    }
    outcome
}
