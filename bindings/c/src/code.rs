//! The codes that calls return, and what each means in a few words. Never decides which error it
//! was: `of` translates.

use core::ffi::{c_char, c_int};

use hythe::{NodeError, PoolError};

/// An argument is NULL or out of range, belongs to another node, or is a closed handle.
pub const HYTHE_EARGUMENT: c_int = -1;
/// A defect of the library was detected, and the call was stopped. The handle can still be closed.
pub const HYTHE_EPANIC: c_int = -2;
/// A child made by fork used a handle of its parent.
pub const HYTHE_EFORKED: c_int = -3;
/// A payload is wanted in place, and the pool was not opened with `trust_peers`.
pub const HYTHE_ETRUST: c_int = -4;
/// The system refused something about a file.
pub const HYTHE_EFILE: c_int = -5;
/// No permission.
pub const HYTHE_EPERMISSION: c_int = -6;
/// The pool's directory is not safe to use.
pub const HYTHE_EUNSAFE: c_int = -7;
/// There is no such pool.
pub const HYTHE_ENOPOOL: c_int = -8;
/// The pool is in use.
pub const HYTHE_EINUSE: c_int = -9;
/// The system has not enough memory for the pool.
pub const HYTHE_ENOROOM: c_int = -10;
/// The file is not a pool, or a pool of another version.
pub const HYTHE_ENOTPOOL: c_int = -11;
/// A pool of this size or with these limits does not work.
pub const HYTHE_EGEOMETRY: c_int = -12;
/// A table of the pool is full.
pub const HYTHE_ETABLEFULL: c_int = -13;
/// No buffer of this size is free.
pub const HYTHE_EPOOLFULL: c_int = -14;
/// The payload is larger than any buffer.
pub const HYTHE_ETOOLARGE: c_int = -15;
/// A buffer has as many references as can be counted.
pub const HYTHE_EREFERENCES: c_int = -16;
/// Shared words contradict each other: some participant is broken.
pub const HYTHE_EDAMAGED: c_int = -17;
/// Another participant is changing the same object; try again a little later.
pub const HYTHE_EBUSY: c_int = -18;
/// The channel carries another type, or is of another kind.
pub const HYTHE_EMISMATCH: c_int = -19;
/// A name is not usable.
pub const HYTHE_ENAME: c_int = -20;
/// The queue of a subscriber with HYTHE_BLOCK stayed full for as long as the publisher waits.
pub const HYTHE_EBLOCKED: c_int = -21;
/// A subscriber that was waited for left or died.
pub const HYTHE_EGONE: c_int = -22;
/// Nobody serves the channel.
pub const HYTHE_ENOSERVER: c_int = -23;
/// The queues of all servers stayed full for as long as the client waits.
pub const HYTHE_ESERVERSFULL: c_int = -24;
/// The client has as many requests open as it may.
pub const HYTHE_EREQUESTS: c_int = -25;
/// The server closed or died before it replied.
pub const HYTHE_ESERVERLOST: c_int = -26;
/// The server gave the request up without a reply.
pub const HYTHE_EUNANSWERED: c_int = -27;
/// No reply came in time; the request is abandoned.
pub const HYTHE_ENOREPLY: c_int = -28;
/// The client has no such request open.
pub const HYTHE_ENOTPENDING: c_int = -29;
/// A buffer that others hold as well cannot carry a request or a reply.
pub const HYTHE_ESHARED: c_int = -30;
/// The RTOS core behind the channel cannot be used for this: the buffer is not in its memory or too
/// large for it, or all of its ports are in use.
pub const HYTHE_ECORE: c_int = -31;
/// A wait set has the port already.
pub const HYTHE_EATTACHED: c_int = -32;
/// The system refused something that a wait set needs.
pub const HYTHE_EWAITSET: c_int = -33;
/// The pool cannot be locked into memory.
pub const HYTHE_ENOTLOCKED: c_int = -34;
/// The pool's files were truncated, or their file system has no page left. This process can no
/// longer use the pool.
pub const HYTHE_EPOOLLOST: c_int = -35;
/// The queue to the RTOS core behind the channel stayed full: it gave nothing back in time.
pub const HYTHE_ECOREFULL: c_int = -36;
/// The link to the RTOS core behind the channel is down, was lost meanwhile, or has words that are
/// impossible.
pub const HYTHE_ECORELOST: c_int = -37;
/// The server has no such method.
pub const HYTHE_ENOMETHOD: c_int = -38;
/// The result of a call is larger than its caller takes.
pub const HYTHE_ERESULT: c_int = -39;
/// The method that was called failed, with a number of its own.
pub const HYTHE_EFAILED: c_int = -40;
/// What came is no reply to a call.
pub const HYTHE_ENOTREPLY: c_int = -41;
/// The caller of a method is gone: nobody has got the result.
pub const HYTHE_ECALLERLOST: c_int = -42;
/// There is no such task, or no such place for one.
pub const HYTHE_ENOTASK: c_int = -43;
/// This process is no task, or no job takes it in.
pub const HYTHE_ENOJOB: c_int = -44;
/// A task has ended: nothing more comes from it, or reaches it.
pub const HYTHE_EENDED: c_int = -45;
/// Too much is kept in this process's memory: for tasks that do not receive, or of messages that
/// this one has not received yet.
pub const HYTHE_EKEPT: c_int = -46;
/// The task is not in the group, or what members give does not fit together.
pub const HYTHE_EGROUP: c_int = -47;
/// The members of a group did not come together in time.
pub const HYTHE_ELATE: c_int = -48;
/// The runner of a job refuses, or is gone.
pub const HYTHE_ERUNNER: c_int = -49;
/// A program cannot be started.
pub const HYTHE_ENOPROGRAM: c_int = -50;
/// The program has ended the wait, by hythe_node_interrupt().
pub const HYTHE_EINTERRUPTED: c_int = -51;
/// An error that has no code of its own yet.
pub const HYTHE_EOTHER: c_int = -99;

/// The code of an error.
pub(crate) fn of(error: &NodeError) -> c_int {
    match error {
        NodeError::File { .. } => HYTHE_EFILE,
        NodeError::Permission { .. } | NodeError::NotInGroup { .. } => HYTHE_EPERMISSION,
        NodeError::Unsafe { .. } => HYTHE_EUNSAFE,
        NodeError::NoSuchPool { .. } | NodeError::NoPoolOfUser { .. } => HYTHE_ENOPOOL,
        NodeError::NoSuchUser { .. } => HYTHE_ENAME,
        NodeError::OtherVersion { .. } => HYTHE_ENOTPOOL,
        NodeError::Interrupted => HYTHE_EINTERRUPTED,
        NodeError::InUse { .. } => HYTHE_EINUSE,
        NodeError::NoRoom { .. } | NodeError::TooLarge { .. } | NodeError::NoHugePages { .. } => {
            HYTHE_ENOROOM
        }
        NodeError::NotLocked { .. } => HYTHE_ENOTLOCKED,
        NodeError::ForkedCopy { .. } => HYTHE_EFORKED,
        NodeError::PoolLost { .. } => HYTHE_EPOOLLOST,
        NodeError::Attached { .. } => HYTHE_EATTACHED,
        NodeError::ForeignPort { .. } => HYTHE_EARGUMENT,
        NodeError::WaitSet { .. } => HYTHE_EWAITSET,
        NodeError::Pool(error) => of_pool(error),
        NodeError::Exhausted(_) => error.refusal().map_or(HYTHE_EOTHER, of_pool),
        NodeError::HistoryTooLong { .. } => HYTHE_EARGUMENT,
        NodeError::ReceiverGone { .. } => HYTHE_EGONE,
        NodeError::Blocked { .. } => HYTHE_EBLOCKED,
        NodeError::NoServer { .. } => HYTHE_ENOSERVER,
        NodeError::ServersFull { .. } => HYTHE_ESERVERSFULL,
        NodeError::TooManyRequests { .. } => HYTHE_EREQUESTS,
        NodeError::ServerLost { .. } => HYTHE_ESERVERLOST,
        NodeError::Unanswered { .. } => HYTHE_EUNANSWERED,
        NodeError::NoReply { .. } => HYTHE_ENOREPLY,
        NodeError::NotPending { .. } => HYTHE_ENOTPENDING,
        NodeError::SharedBuffer { .. } => HYTHE_ESHARED,
        NodeError::NoSuchMethod { .. } => HYTHE_ENOMETHOD,
        NodeError::ResultTooLarge { .. } => HYTHE_ERESULT,
        NodeError::MethodFailed { .. } => HYTHE_EFAILED,
        NodeError::MalformedReply { .. } => HYTHE_ENOTREPLY,
        NodeError::RegionNotVisible { .. }
        | NodeError::TooLargeForCore { .. }
        | NodeError::EndpointTaken { .. } => HYTHE_ECORE,
        NodeError::CoreFull { .. } | NodeError::CoreBlocked { .. } => HYTHE_ECOREFULL,
        NodeError::CoreSilent { .. }
        | NodeError::CoreViolation { .. }
        | NodeError::BadLink { .. } => HYTHE_ECORELOST,
        _ => HYTHE_EOTHER,
    }
}

fn of_pool(error: &PoolError) -> c_int {
    match error {
        PoolError::NotAPool(_) | PoolError::OtherVersion { .. } => HYTHE_ENOTPOOL,
        PoolError::BadGeometry(_) | PoolError::TooSmall { .. } | PoolError::QueueTooDeep { .. } => {
            HYTHE_EGEOMETRY
        }
        PoolError::TableFull { .. }
        | PoolError::LedgerFull { .. }
        | PoolError::TooManyRegions { .. } => HYTHE_ETABLEFULL,
        PoolError::PoolFull { .. } => HYTHE_EPOOLFULL,
        PoolError::TooLarge { .. } => HYTHE_ETOOLARGE,
        PoolError::TooManyReferences { .. } => HYTHE_EREFERENCES,
        PoolError::BadDescriptor { .. } | PoolError::Damaged(_) => HYTHE_EDAMAGED,
        PoolError::Busy(_) => HYTHE_EBUSY,
        PoolError::TypeMismatch(_) | PoolError::KindMismatch(_) => HYTHE_EMISMATCH,
        PoolError::BadName { .. } => HYTHE_ENAME,
        PoolError::EndpointTaken { .. } => HYTHE_ECORE,
        _ => HYTHE_EOTHER,
    }
}

/// A short description of a code. hythe_last_error() has the message of the last error. `code` may
/// be any number. Any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_strerror(code: c_int) -> *const c_char {
    let text = match code {
        0.. => c"no error",
        HYTHE_EARGUMENT => c"wrong argument",
        HYTHE_EPANIC => c"an error in the library itself",
        HYTHE_EFORKED => c"a handle of the parent, used in a forked child",
        HYTHE_ETRUST => c"the pool was not opened with trust_peers",
        HYTHE_EFILE => c"the system refused something about a file",
        HYTHE_EPERMISSION => c"permission denied",
        HYTHE_EUNSAFE => c"the pool's directory is not safe to use",
        HYTHE_ENOPOOL => c"no such pool",
        HYTHE_EINUSE => c"the pool is in use",
        HYTHE_ENOROOM => c"not enough memory for the pool",
        HYTHE_ENOTPOOL => c"not a pool, or one of another version",
        HYTHE_EGEOMETRY => c"this geometry does not work",
        HYTHE_ETABLEFULL => c"a table of the pool is full",
        HYTHE_EPOOLFULL => c"no buffer of this size is free",
        HYTHE_ETOOLARGE => c"larger than any buffer",
        HYTHE_EREFERENCES => c"too many references to one buffer",
        HYTHE_EDAMAGED => c"the pool is damaged",
        HYTHE_EBUSY => c"busy, try again",
        HYTHE_EMISMATCH => c"the channel carries another type, or is of another kind",
        HYTHE_ENAME => c"the name is not usable",
        HYTHE_EBLOCKED => c"a subscriber's queue stayed full",
        HYTHE_EGONE => c"a subscriber that was waited for is gone",
        HYTHE_ENOSERVER => c"nobody serves the channel",
        HYTHE_ESERVERSFULL => c"the queues of all servers are full",
        HYTHE_EREQUESTS => c"too many open requests",
        HYTHE_ESERVERLOST => c"the server is gone, whether it acted is not known",
        HYTHE_EUNANSWERED => c"the server gave no reply",
        HYTHE_ENOREPLY => c"no reply in time",
        HYTHE_ENOTPENDING => c"no such request is open",
        HYTHE_ESHARED => c"the buffer has other holders",
        HYTHE_ECORE => c"the core behind the channel cannot take this",
        HYTHE_ECOREFULL => c"the queue to the core stayed full",
        HYTHE_ECORELOST => c"the link to the core is down or broken",
        HYTHE_ENOMETHOD => c"the server has no such method",
        HYTHE_ERESULT => c"the result is larger than its caller takes",
        HYTHE_EFAILED => c"the method failed",
        HYTHE_ENOTREPLY => c"what came is no reply to a call",
        HYTHE_ECALLERLOST => c"the caller is gone",
        HYTHE_ENOTASK => c"no such task, or no such place for one",
        HYTHE_ENOJOB => c"this process is no task",
        HYTHE_EENDED => c"the task has ended",
        HYTHE_EKEPT => c"too much is kept of messages that were not received yet",
        HYTHE_EGROUP => c"the group does not fit",
        HYTHE_ELATE => c"the members of the group did not come in time",
        HYTHE_ERUNNER => c"the runner of the job refuses, or is gone",
        HYTHE_ENOPROGRAM => c"the program cannot be started",
        HYTHE_EINTERRUPTED => c"the program has ended the wait",
        HYTHE_EATTACHED => c"a wait set has this port already",
        HYTHE_EWAITSET => c"the system refuses something that a wait set needs",
        HYTHE_ENOTLOCKED => c"the pool cannot be locked into memory",
        HYTHE_EPOOLLOST => c"the pool is lost",
        HYTHE_EOTHER => c"another error, see hythe_last_error()",
        _ => c"unknown code",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe::RegionIndex;

    #[test]
    fn what_a_core_refuses_and_its_lost_link_are_told_apart() {
        let channel = || "ping".to_owned();
        let full = NodeError::CoreFull {
            channel: channel(),
            places: 64,
            waited_ms: 5,
        };
        let none = NodeError::Pool(PoolError::PoolFull {
            region: RegionIndex(1),
            bytes: 100,
            slots: 4,
        });
        let lost = NodeError::CoreSilent {
            channel: channel(),
            reason: "its link is down".to_owned(),
        };
        let broken = NodeError::CoreViolation {
            channel: channel(),
            seen: "a word".to_owned(),
        };
        let large = NodeError::TooLargeForCore {
            channel: channel(),
            bytes: 2,
            largest: 1,
        };
        let codes = [full, none, lost, broken, large].map(|error| of(&error));
        let expected = [
            HYTHE_ECOREFULL,
            HYTHE_EPOOLFULL,
            HYTHE_ECORELOST,
            HYTHE_ECORELOST,
            HYTHE_ECORE,
        ];
        assert_eq!(codes, expected);
    }
}
