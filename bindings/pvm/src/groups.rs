//! Groups: `pvm_joingroup`, `pvm_barrier`, `pvm_bcast` and their kind.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use hythe_pvm::code::Code;

use crate::guard::{Held, call, guarded, text};
use crate::sending::active_in_place;
use crate::waiting::{Waiting, ask_others, wait_on};

/// How often a wait at a barrier looks whether all can still come.
const LOOK: Duration = Duration::from_millis(250);

/// The name of a group.
///
/// # Safety
/// `name` is NULL or points to text that ends with a zero.
pub(crate) unsafe fn group(name: *const c_char) -> Result<String, Code> {
    // SAFETY: passed on.
    let name = unsafe { text(name) };
    name.filter(|name| !name.is_empty()).ok_or(Code::NULL_GROUP)
}

#[unsafe(no_mangle)]
extern "C" fn pvm_joingroup(name: *const c_char) -> c_int {
    call("pvm_joingroup", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        session.join_group(&unsafe { group(name) }?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_lvgroup(name: *const c_char) -> c_int {
    call("pvm_lvgroup", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        session.leave_group(&unsafe { group(name) }?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_gettid(name: *const c_char, instance: c_int) -> c_int {
    call("pvm_gettid", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        session.group_member(&unsafe { group(name) }?, instance)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_getinst(name: *const c_char, task: c_int) -> c_int {
    call("pvm_getinst", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        session.group_instance(&unsafe { group(name) }?, task)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_gsize(name: *const c_char) -> c_int {
    call("pvm_gsize", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        session.group_size(&unsafe { group(name) }?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_barrier(name: *const c_char, count: c_int) -> c_int {
    guarded("pvm_barrier", || {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let name = unsafe { group(name) }?;
        let mut held = Held::take()?;
        let session = held.session()?;
        let come = session.come(&name, count)?;
        drop(held);
        let mut waiting = Waiting::default();
        let Some(mut round) = come else {
            return ask_others(
                |session| session.begin_barrier(&name, count),
                |session, reply| session.end_barrier(reply),
            );
        };
        loop {
            let outcome = wait_on(&mut waiting, Some(LOOK), |session| {
                session.outcome(&mut round)
            })?;
            if let Some(outcome) = outcome {
                return outcome.map(|()| 0);
            }
            ask_others(
                |session| session.begin_look(&name),
                |session, reply| session.end_look(&mut round, reply),
            )?;
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_freezegroup(name: *const c_char, size: c_int) -> c_int {
    guarded("pvm_freezegroup", || {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let name = unsafe { group(name) }?;
        ask_others(
            |session| session.begin_freeze(&name, size),
            |session, reply| session.end_freeze(&name, size, reply),
        )
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_bcast(name: *const c_char, tag: c_int) -> c_int {
    call("pvm_bcast", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let name = unsafe { group(name) }?;
        let body = active_in_place(session)?;
        session.broadcast(&name, tag, body.as_deref())?;
        Ok(0)
    })
}
