//! What fails with semaphores and message queues, and the error number that POSIX has for it.

use hythe_pool::ObjectError;
use hythe_terminal::escaped;
use rustix::io::Errno;

use crate::NodeError;

/// A failure of a call about a semaphore or message queue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// There is none of that name.
    #[error("there is no {what} `{name}`; make it first (O_CREAT)", name = escaped(name))]
    NoSuch {
        /// Semaphore or message queue.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// There is one of that name, and it was to be made.
    #[error("there is a {what} `{name}` already; leave out O_EXCL to use it", name = escaped(name))]
    Exists {
        /// Semaphore or message queue.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Its mode does not let this user.
    #[error(
        "permission denied: `{name}` has mode {mode:04o}, owner {owner}; you are user {user}",
        name = escaped(name)
    )]
    Permission {
        /// The name.
        name: String,
        /// Its mode.
        mode: u32,
        /// Its owner's user id.
        owner: u32,
        /// Who asked: the effective user id.
        user: u32,
    },
    /// No name of an object.
    #[error("`{name}` is no name: {reason}", name = escaped(name))]
    BadName {
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A name has 63 bytes at most.
    #[error("a name of {bytes} bytes; it has {limit} at most, with its slash")]
    NameTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A number is out of range.
    #[error("{what} is {found}; it is {least} to {most}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// As it was given.
        found: u64,
        /// The least.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// It would have to wait, and may not.
    #[error("{0}")]
    WouldBlock(&'static str),
    /// The time is over.
    #[error("timed out")]
    TimedOut,
    /// A signal handler ran.
    #[error("interrupted by a signal")]
    Interrupted,
    /// A holder of the semaphore died. Nothing was taken. Reported once.
    #[error("a holder of the semaphore died; recover what it held, or wait again")]
    OwnerDead,
    /// A message is longer than the queue's, or a buffer shorter.
    #[error("{bytes} bytes, and the queue's messages have {limit} at most")]
    MessageSize {
        /// Bytes of the message, or of the buffer for it.
        bytes: usize,
        /// Most bytes of a message of this queue.
        limit: usize,
    },
    /// Opened for the other direction only.
    #[error("the queue was not opened for {0}")]
    NotOpenFor(&'static str),
    /// The buffer was leased from another node.
    #[error("the buffer belongs to another node; lease it from the node of the queue")]
    OtherNode,
    /// Somebody else is to be notified.
    #[error("participant {member} is to be notified of messages already")]
    AlreadyNotified {
        /// Its number.
        member: u8,
    },
    /// Another has the object, for longer than any operation takes.
    #[error(
        "the object was not free for {waited_ms} ms: participant {member} works on it and is \
         stopped; try again"
    )]
    Busy {
        /// Whose process is stopped.
        member: u8,
        /// How long was waited.
        waited_ms: u64,
    },
    /// The object refuses, or is damaged.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The pool refuses.
    #[error(transparent)]
    Pool(#[from] NodeError),
    /// The kernel refuses.
    #[error("{action} failed: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl SyncError {
    /// The number for `errno`.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let known = match self {
            Self::NoSuch { .. } => Errno::NOENT,
            Self::Exists { .. } => Errno::EXIST,
            Self::Permission { .. } | Self::Pool(NodeError::Permission { .. }) => Errno::ACCESS,
            Self::OtherNode | Self::BadName { .. } | Self::OutOfRange { .. } => Errno::INVAL,
            Self::NameTooLong { .. } => Errno::NAMETOOLONG,
            Self::WouldBlock(_) => Errno::AGAIN,
            Self::TimedOut | Self::Busy { .. } => Errno::TIMEDOUT,
            Self::Interrupted => Errno::INTR,
            Self::OwnerDead => Errno::OWNERDEAD,
            Self::MessageSize { .. } => Errno::MSGSIZE,
            Self::NotOpenFor(_) => Errno::BADF,
            Self::AlreadyNotified { .. } => Errno::BUSY,
            Self::Object(ObjectError::Overflow { .. }) => Errno::OVERFLOW,
            Self::Object(ObjectError::TableFull { .. }) => Errno::NFILE,
            Self::Object(ObjectError::Gone) => Errno::INVAL,
            Self::Object(_) => Errno::IO,
            Self::Pool(NodeError::Exhausted(_)) => Errno::NOSPC,
            Self::Pool(NodeError::NoSuchPool { .. }) => Errno::NOENT,
            Self::Pool(_) => Errno::IO,
            Self::System { source, .. } => {
                return source.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            }
        };
        known.raw_os_error()
    }
}
