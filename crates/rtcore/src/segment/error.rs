//! What fails with segments, and the error number that shmget(2), shmop(2) and shmctl(2) have for
//! it.

use std::io;

use hythe_node::NodeError;
use hythe_terminal::escaped;
use rustix::io::Errno;

use crate::CoreError;
use crate::tasks::TaskError;

const ENOSYS: i32 = Errno::NOSYS.raw_os_error();

/// A failure of a call about segments.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// No core's region in the pool has an area of segments, or the named one has none.
    #[error(
        "pool `{pool}` has no segments that a core sees{}; run a core whose board has \
         [run.segments] (`hythe core boards`)",
        of_board(board)
    )]
    NoArea {
        /// The pool.
        pool: String,
        /// The core that was asked for.
        board: Option<String>,
    },
    /// There is none of that key.
    #[error("no segment has the key {key:#010x}; make it first (IPC_CREAT)")]
    NoSuchKey {
        /// The key.
        key: i32,
    },
    /// There is one of that key, and it was to be made.
    #[error("a segment has the key {key:#010x} already; leave out IPC_EXCL to use it")]
    Exists {
        /// The key.
        key: i32,
    },
    /// There is one of that key, which no core sees.
    #[error(
        "key {key:#010x} belongs to a segment of the kernel (id {id}), which no core sees; use \
         another key, or remove it (`ipcrm -m {id}`)"
    )]
    PlainKey {
        /// The key.
        key: i32,
        /// The segment.
        id: i32,
    },
    /// A segment of no bytes, or of more than there can be.
    #[error(
        "a segment of {asked} bytes; core `{board}` has an area of {area}",
        board = escaped(board)
    )]
    BadSize {
        /// How many were asked for.
        asked: usize,
        /// Bytes of the whole area.
        area: u64,
        /// The core.
        board: String,
    },
    /// No place in the area.
    #[error(
        "no place for a segment of {asked} bytes: core `{board}` has {free} bytes free, the \
         largest piece {largest}; remove segments (`hythe core segments`)",
        board = escaped(board)
    )]
    Full {
        /// How many were asked for.
        asked: usize,
        /// All free bytes together.
        free: u64,
        /// The largest free piece.
        largest: u64,
        /// The core.
        board: String,
    },
    /// The table has no free record.
    #[error(
        "core `{board}` has {limit} segments, which is the limit; remove one",
        board = escaped(board)
    )]
    TooMany {
        /// How many there can be.
        limit: usize,
        /// The core.
        board: String,
    },
    /// The core has as many attached as it may.
    #[error(
        "core `{board}` has {limit} attachments, which is the limit; let it detach segments",
        board = escaped(board)
    )]
    TooManyAttached {
        /// How many there can be.
        limit: usize,
        /// The core.
        board: String,
    },
    /// A new segment on huge pages.
    #[error(
        "no segment on huge pages (SHM_HUGETLB) that a core sees: {source}; leave out SHM_HUGETLB"
    )]
    NoHugePages {
        /// What the kernel says of one, or that there is no memory of that kind.
        source: io::Error,
    },
    /// No segment that a core sees has the id.
    #[error("no segment that a core sees has the id {id}; `hythe core segments` lists them")]
    NoSuchId {
        /// The id.
        id: i32,
    },
    /// The address is no page's, or its page is in use.
    #[error("a segment cannot be attached at {address:#x}: {reason}")]
    BadAddress {
        /// The address asked for.
        address: usize,
        /// Why not.
        reason: &'static str,
    },
    /// Not all of the bytes are in a segment that this process attached.
    #[error("{bytes} bytes from {address:#x} on are not in one segment that is attached")]
    NotAttached {
        /// The first one's address.
        address: usize,
        /// How many.
        bytes: usize,
    },
    /// Attaching for execution.
    #[error("a segment that a core sees cannot be executed (SHM_EXEC)")]
    NotExecutable,
    /// Another process has the table, for longer than any operation takes.
    #[error(
        "the table of segments of core `{board}` was not free for {waited_ms} ms: a process that \
         works on it is stopped; try again",
        board = escaped(board)
    )]
    Busy {
        /// The core.
        board: String,
        /// How long was waited.
        waited_ms: u64,
    },
    /// Processes of another IPC namespace use the pool's segments.
    #[error(
        "the segments of core `{board}` belong to another IPC namespace ({theirs}, this process is \
         in {own}); run in the same container",
        board = escaped(board)
    )]
    OtherNamespace {
        /// The core.
        board: String,
        /// The inode of theirs.
        theirs: u64,
        /// The inode of this process's.
        own: u64,
    },
    /// The table is none.
    #[error("{} cannot be used: {reason}", escaped(path))]
    BadTable {
        /// Its file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A core that was to make a segment could not be asked, or did not answer.
    #[error("no segment was made by core `{board}`: {source}", board = escaped(board))]
    CoreUnasked {
        /// The core.
        board: String,
        /// Why.
        source: Box<TaskError>,
    },
    /// A core that was to make a segment did not: its program, or its agent, refused.
    #[error(
        "core `{board}` made no segment: {}; the core's log may say more",
        match *number {
            ENOSYS => "its program makes none for Linux".to_owned(),
            number => io::Error::from_raw_os_error(number).to_string(),
        },
        board = escaped(board)
    )]
    CoreRefused {
        /// The core.
        board: String,
        /// The error number that it gave.
        number: i32,
    },
    /// The kernel refused.
    #[error("{action} failed: {source}")]
    System {
        /// What was tried.
        action: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The pool refused.
    #[error(transparent)]
    Pool(#[from] NodeError),
}

impl SegmentError {
    /// The number for `errno`.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let known = match self {
            Self::NoArea { .. }
            | Self::Full { .. }
            | Self::TooMany { .. }
            | Self::Pool(NodeError::NoSuchPool { .. }) => Errno::NOSPC,
            Self::TooManyAttached { .. } => Errno::NOMEM,
            Self::NoSuchKey { .. } => Errno::NOENT,
            Self::Exists { .. } | Self::PlainKey { .. } => Errno::EXIST,
            Self::BadSize { .. } | Self::NoSuchId { .. } | Self::BadAddress { .. } => Errno::INVAL,
            Self::Busy { .. } => Errno::AGAIN,
            Self::NotAttached { .. } => Errno::FAULT,
            Self::NotExecutable
            | Self::OtherNamespace { .. }
            | Self::Pool(NodeError::Permission { .. }) => Errno::ACCESS,
            Self::CoreUnasked { source, .. } => match &**source {
                TaskError::Core(CoreError::Node(NodeError::Permission { .. })) => Errno::ACCESS,
                TaskError::BadReply { .. } => Errno::IO,
                _ => Errno::NOSPC,
            },
            Self::CoreRefused { number, .. } => match Errno::from_raw_os_error(*number) {
                // Those of shmget(2).
                known @ (Errno::ACCESS
                | Errno::EXIST
                | Errno::INVAL
                | Errno::NFILE
                | Errno::NOENT
                | Errno::NOMEM
                | Errno::PERM) => known,
                _ => Errno::NOSPC,
            },
            Self::BadTable { .. } | Self::Pool(_) => Errno::IO,
            Self::System { source, .. } | Self::NoHugePages { source } => {
                return source.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            }
        };
        known.raw_os_error()
    }
}

/// What the kernel refused, and what was tried.
pub(super) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> SegmentError {
    let action = action.into();
    move |source| SegmentError::System { action, source }
}

fn of_board(board: &Option<String>) -> String {
    board.as_ref().map_or_else(String::new, |board| {
        format!(" for core `{}`", escaped(board))
    })
}
