//! Options: `pvm_setopt`, `pvm_getopt`, `pvm_export`, `pvm_unexport`.

use std::ffi::{CString, c_char, c_int};

use hythe_pvm::code::Code;
use hythe_pvm::session::variables;

use crate::guard::{call, guarded, note_auto_error, text};

#[unsafe(no_mangle)]
extern "C" fn pvm_setopt(option: c_int, value: c_int) -> c_int {
    call("pvm_setopt", |session| {
        let before = session.options.set(option, value);
        note_auto_error(session);
        before
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_getopt(option: c_int) -> c_int {
    call("pvm_getopt", |session| session.options.get(option))
}

/// Older programs know it by this name.
#[unsafe(no_mangle)]
extern "C" fn pvm_advise(route: c_int) -> c_int {
    call("pvm_advise", |session| {
        session.options.set(1, route).map(|_| 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_export(name: *const c_char) -> c_int {
    guarded("pvm_export", || {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let name = unsafe { text(name) }.ok_or(Code::BAD_PARAMETER)?;
        let mut names = exported();
        if !names.contains(&name) {
            names.push(name);
        }
        set_exported(&names)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_unexport(name: *const c_char) -> c_int {
    guarded("pvm_unexport", || {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let name = unsafe { text(name) }.ok_or(Code::BAD_PARAMETER)?;
        let mut names = exported();
        names.retain(|one| *one != name);
        set_exported(&names)
    })
}

fn exported() -> Vec<String> {
    let names = std::env::var(variables::EXPORT).unwrap_or_default();
    let names = names.split(':').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn set_exported(names: &[String]) -> Result<c_int, Code> {
    let name = CString::new(variables::EXPORT).map_err(|_| Code::BAD_PARAMETER)?;
    let value = CString::new(names.join(":")).map_err(|_| Code::BAD_PARAMETER)?;
    // SAFETY: both are text that ends with a zero; as with PVM, no other thread reads the
    // environment meanwhile.
    match unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) } {
        0 => Ok(0),
        _ => Err(Code::NO_MEMORY),
    }
}
