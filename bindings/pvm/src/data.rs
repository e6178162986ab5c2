//! PVM's data symbols, as large as in PVM: programs may have copies of them, or of what they were
//! when the program was loaded.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering};

/// Text that is there as long as the library.
#[repr(transparent)]
struct Text(*const c_char);

// SAFETY: it leads to text that nobody writes.
unsafe impl Sync for Text {}

macro_rules! texts {
    ($($text:literal)*) => { [$(Text($text.as_ptr())),*] };
}

/// What errors mean, by their numbers without the sign.
#[unsafe(no_mangle)]
static pvm_errlist: [Text; 37] = texts! {
    c"Error 0" c"Error 1" c"Bad parameter" c"Parameter mismatch" c"Value too large"
    c"End of buffer" c"No such host" c"No such file" c"Permission denied" c"Error 9"
    c"Malloc failed" c"Error 11" c"Can't decode message" c"Error 13"
    c"Can't contact local daemon" c"No current buffer" c"No such buffer" c"Null group name"
    c"Already in group" c"No such group" c"Not in group" c"No such instance" c"Host failed"
    c"No parent task" c"Not implemented" c"Pvmd system error" c"Version mismatch"
    c"Out of resources" c"Duplicate host" c"Can't start pvmd" c"Already in progress"
    c"No such task" c"Not Found" c"Already Exists" c"Hoster must run on master host"
    c"Spawning parent set PvmNoParent" c"Master Host IP Address is Loopback! (See pvm3/Readme)"
};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            static $name: AtomicI32 = AtomicI32::new($value);
        )*
    };
}

numbers! {
    /// How many errors have a text.
    pvm_nerr = 37;
    /// The last error.
    pvm_errno = 0;
    /// The context that is active.
    pvmmyctx = 0;
    /// This task.
    pvmmytid = -1;
    /// Who spawned it.
    pvmmyptid = 0;
    /// The process's number.
    pvmmyupid = -1;
    /// Data format of this machine.
    pvmmydsig = 0;
    /// Whose machine it is.
    pvm_useruid = -1;
    /// Inside a call of the program's, not of the library's.
    pvmtoplvl = 1;
    /// The task's answer where others schedule.
    pvmschedtid = 0;
    /// What is logged.
    pvmdebmask = 0;
}

/// `struct Pvmtracer`, and a mask: nothing is traced.
#[unsafe(no_mangle)]
static pvmctrc: [AtomicI32; 17] = [const { AtomicI32::new(0) }; 17];
/// The same of the task itself.
#[unsafe(no_mangle)]
static pvmtrc: [AtomicI32; 17] = [const { AtomicI32::new(0) }; 17];

/// `struct Pvmtevdid` of `pvmtev.h`.
#[repr(C)]
struct TraceData {
    name: Text,
    description: Text,
}

/// `struct Pvmtevinfo` of `pvmtev.h`.
#[repr(C)]
struct TraceEvent {
    name: Text,
    status: c_int,
    times: [libc::time_t; 4],
    count: c_int,
}

/// Kinds of data of a trace, and events, as many as PVM has.
const TRACE_DATA: usize = 123;
const TRACE_EVENTS: usize = 109;

/// Names of what is never traced: PVM's console wants each to have one.
static TRACE_NAMES: [[u8; 10]; TRACE_DATA] = {
    let mut names = [*b"untraced\0\0"; TRACE_DATA];
    let mut index = 0;
    while index < TRACE_DATA {
        // Two characters of 16 make a number.
        names[index][7] = b'a' + (index / 16) as u8;
        names[index][8] = b'a' + (index % 16) as u8;
        index += 1;
    }
    names
};

/// Names of what a trace has.
#[unsafe(no_mangle)]
static pvmtevdidlist: [TraceData; TRACE_DATA] = {
    let mut list = [const {
        TraceData {
            name: Text(c"".as_ptr()),
            description: Text(c"".as_ptr()),
        }
    }; TRACE_DATA];
    let mut index = 0;
    while index < TRACE_DATA {
        list[index].name = Text(TRACE_NAMES[index].as_ptr().cast());
        index += 1;
    }
    list
};

/// Names of what can be traced.
#[unsafe(no_mangle)]
static pvmtevinfo: [TraceEvent; TRACE_EVENTS] = {
    let mut list = [const {
        TraceEvent {
            name: Text(c"".as_ptr()),
            status: 0,
            times: [0; 4],
            count: 0,
        }
    }; TRACE_EVENTS];
    let mut index = 0;
    while index < TRACE_EVENTS {
        list[index].name = Text(TRACE_NAMES[index].as_ptr().cast());
        index += 1;
    }
    list
};

/// What is known of a task that has begun.
pub(crate) struct Begun {
    pub(crate) task: c_int,
    pub(crate) parent: c_int,
    pub(crate) context: c_int,
    pub(crate) format: c_int,
}

/// A task has begun.
pub(crate) fn begin(begun: &Begun) {
    for (place, value) in [
        (&pvmmytid, begun.task),
        (&pvmmyptid, begun.parent),
        (&pvmmyctx, begun.context),
        (&pvmmydsig, begun.format),
        (&pvmmyupid, i32::try_from(std::process::id()).unwrap_or(-1)),
    ] {
        place.store(value, Ordering::Relaxed);
    }
}

pub(crate) fn keep_context(context: c_int) {
    pvmmyctx.store(context, Ordering::Relaxed);
}

pub(crate) fn keep_error(number: c_int) {
    pvm_errno.store(number, Ordering::Relaxed);
}
