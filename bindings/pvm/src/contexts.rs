//! Contexts: `pvm_newcontext` and its kind.

use std::ffi::c_int;

use crate::data;
use crate::guard::call;

#[unsafe(no_mangle)]
extern "C" fn pvm_newcontext() -> c_int {
    call("pvm_newcontext", |session| session.new_context())
}

#[unsafe(no_mangle)]
extern "C" fn pvm_freecontext(context: c_int) -> c_int {
    call("pvm_freecontext", |session| session.free_context(context))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_getcontext() -> c_int {
    call("pvm_getcontext", |session| Ok(session.context()))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_setcontext(context: c_int) -> c_int {
    call("pvm_setcontext", |session| {
        let before = session.set_context(context);
        data::keep_context(context);
        Ok(before)
    })
}
