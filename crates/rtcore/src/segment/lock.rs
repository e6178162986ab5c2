//! The lock of a table of segments: who writes it is alone, who reads it sees no half operation.
//!
//! It is the kernel's (`flock`), on a descriptor opened for one operation, so it ends with the
//! process that has it. A child forked meanwhile would have the descriptor, too, and so the lock
//! after its parent's death: therefore `fork` waits until no operation of this process is under
//! way. A raw `clone` does not; then others wait in vain until that child ends or executes, and are
//! told so.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hythe_sys::fork::ForksWait;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How long an operation waits for another's end: it takes far less than a millisecond, so a
/// process that has the lock that long is stopped.
pub(super) const BOUND: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(1);

/// What an operation may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Beside others that read.
    Read,
    /// Alone.
    Write,
}

/// The table is this operation's until this value goes.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) file: OwnedFd,
    /// Behind the file: a fork waits until its descriptor is closed.
    _operation: ForksWait,
}

/// Waits for the lock.
///
/// # Errors
/// How long was waited in vain, or what `flock` says.
pub(super) fn lock(
    open: impl FnOnce() -> Result<OwnedFd, super::SegmentError>,
    purpose: Purpose,
    board: &str,
) -> Result<Locked, super::SegmentError> {
    let operation = ForksWait::new();
    let file = open()?;
    let wanted = match purpose {
        Purpose::Read => FlockOperation::NonBlockingLockShared,
        Purpose::Write => FlockOperation::NonBlockingLockExclusive,
    };
    let begun = Instant::now();
    loop {
        match flock(&file, wanted) {
            Ok(()) => {
                return Ok(Locked {
                    file,
                    _operation: operation,
                });
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if begun.elapsed() < BOUND => std::thread::sleep(NAP),
            Err(Errno::WOULDBLOCK) => {
                return Err(super::SegmentError::Busy {
                    board: board.to_owned(),
                    waited_ms: BOUND.as_millis() as u64,
                });
            }
            Err(error) => {
                let locking = format!("locking the table of segments of core `{board}`");
                return Err(super::error::system(locking)(error.into()));
            }
        }
    }
}
