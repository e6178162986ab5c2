//! Tasks: `pvm_mytid`, `pvm_tasks`, `pvm_kill`, `pvm_notify` and their kind.

use std::ffi::c_int;
use std::time::Duration;

use hythe_pvm::code::Code;

use crate::guard::{Held, call, guarded, put, say};
use crate::kept::{KEPT, Tasks};
use crate::sending::integers;
use crate::structures::TaskInfo;
use crate::waiting::{SLICE, Waiting, react};

#[unsafe(no_mangle)]
extern "C" fn pvm_mytid() -> c_int {
    call("pvm_mytid", |session| Ok(session.task().number()))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_parent() -> c_int {
    call("pvm_parent", |session| {
        // That there is none is no error, and not printed.
        Ok(session.parent().unwrap_or_else(Code::number))
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_siblings(tasks: *mut *mut c_int) -> c_int {
    call("pvm_siblings", |session| {
        let siblings = session.siblings().iter();
        let mut kept = KEPT.lock();
        kept.siblings = siblings.map(|task| task.number()).collect();
        // SAFETY: the caller passes NULL or a place for a result.
        unsafe { put(tasks, kept.siblings.as_mut_ptr()) };
        Ok(kept.siblings.len() as c_int)
    })
}

/// Leaves the machine, once all that others print was printed, and all that was sent is with its
/// receivers, or those have ended.
#[unsafe(no_mangle)]
extern "C" fn pvm_exit() -> c_int {
    guarded("pvm_exit", || {
        let mut is_said = false;
        loop {
            let mut held = Held::take()?;
            let Some(session) = held.existing() else {
                return Ok(0);
            };
            let is_open = session.is_output_open()?;
            if is_open && !is_said {
                is_said = true;
                drop(held);
                say("child task(s) still running.  waiting...");
                continue;
            }
            let wait = match is_open {
                true => SLICE,
                false => Duration::ZERO,
            };
            match session.pull(wait) {
                Ok(Some(event)) => {
                    drop(held);
                    react(event, &Waiting::default())?;
                }
                Ok(None) if is_open => {}
                Ok(None) => {
                    held.end();
                    return Ok(0);
                }
                // Nobody receives them any more, and behind them is output to print.
                Err(Code::OUT_OF_RESOURCES) => session.drop_messages(),
                Err(code) => return Err(code),
            }
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_tasks(of: c_int, count: *mut c_int, tasks: *mut *mut TaskInfo) -> c_int {
    call("pvm_tasks", |session| {
        let rows = session.rows(of)?;
        let mut kept = KEPT.lock();
        kept.tasks = Tasks::new(&rows);
        // SAFETY: the caller passes NULL or a place for a result.
        unsafe { put(count, rows.len() as c_int) };
        // SAFETY: as above.
        unsafe { put(tasks, kept.tasks.pointer()) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_pstat(task: c_int) -> c_int {
    call("pvm_pstat", |session| match session.status(task) {
        // PVM prints nothing of it.
        Err(Code::NO_TASK) => Ok(Code::NO_TASK.number()),
        other => other,
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_kill(task: c_int) -> c_int {
    call("pvm_kill", |session| session.signal(task, libc::SIGTERM))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_sendsig(task: c_int, signal: c_int) -> c_int {
    call("pvm_sendsig", |session| session.signal(task, signal))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_notify(what: c_int, tag: c_int, count: c_int, of: *const c_int) -> c_int {
    call("pvm_notify", |session| {
        // Of other kinds the count is not that of tasks.
        let of = match what & 0xff {
            // Of none nothing is to be told.
            1 | 2 | 5 if count <= 0 => return Err(Code::BAD_PARAMETER),
            // SAFETY: the caller says that so many numbers lie there.
            1 | 2 => unsafe { integers(of, count) }?,
            // So many times.
            3 => &[count],
            _ => &[],
        };
        session.notify(what, tag, of)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_getfds(descriptors: *mut *mut c_int) -> c_int {
    call("pvm_getfds", |session| {
        let found = session.descriptors()?;
        let mut kept = KEPT.lock();
        kept.descriptors = found;
        // SAFETY: the caller passes NULL or a place for a result.
        unsafe { put(descriptors, kept.descriptors.as_mut_ptr()) };
        Ok(kept.descriptors.len() as c_int)
    })
}
