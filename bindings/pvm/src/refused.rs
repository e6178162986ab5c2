//! What there is not: other programs in the place of parts of PVM, and tracing.

use std::ffi::{c_char, c_int, c_void};

use hythe_pvm::code::Code;

use crate::guard::{guarded, put};

fn refuse(name: &str) -> c_int {
    guarded(name, || Err(Code::NOT_IMPLEMENTED))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_reg_hoster() -> c_int {
    refuse("pvm_reg_hoster")
}

#[unsafe(no_mangle)]
extern "C" fn pvm_reg_tasker() -> c_int {
    refuse("pvm_reg_tasker")
}

#[unsafe(no_mangle)]
extern "C" fn pvm_reg_rm(_hosts: *mut *mut c_void) -> c_int {
    refuse("pvm_reg_rm")
}

#[unsafe(no_mangle)]
extern "C" fn pvm_reg_tracer(
    _trace_context: c_int,
    _trace_tag: c_int,
    _output_context: c_int,
    _output_tag: c_int,
    _mask: *const c_char,
    _buffer: c_int,
    _options: c_int,
) -> c_int {
    refuse("pvm_reg_tracer")
}

/// Of tasks that a reset spares: there are none.
#[unsafe(no_mangle)]
extern "C" fn pvm_getnoresets(tasks: *mut *mut c_int, count: *mut c_int) -> c_int {
    // SAFETY: the caller passes NULL or a place for a result.
    unsafe { put(tasks, std::ptr::null_mut()) };
    // SAFETY: as above.
    unsafe { put(count, 0) };
    0
}
