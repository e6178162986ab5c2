//! What can go wrong with the tasks of a core, with what to do about it.

use std::time::Duration;

use hythe_node::NodeError;
use hythe_terminal::escaped;

use crate::CoreError;

/// A failure of a call about tasks of a core.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The program that runs does not register tasks.
    #[error(
        "program `{program}` of core `{board}` has no endpoint `core/control`: it registers no \
         tasks",
        program = escaped(program),
        board = escaped(board)
    )]
    NoControl {
        /// The core.
        board: String,
        /// What runs there.
        program: String,
    },
    /// Nothing of it can be asked at this moment.
    #[error(
        "core `{board}` is down: {}",
        match core_pid {
            0 => "its process has ended".to_owned(),
            pid => format!("its process {pid} has not begun its link yet"),
        },
        board = escaped(board)
    )]
    Down {
        /// The core.
        board: String,
        /// Its process; 0: there is none.
        core_pid: u32,
    },
    /// It runs, and has not answered.
    #[error("core `{board}` has not answered for {waited:.1?}: {why}", board = escaped(board))]
    Silent {
        /// The core.
        board: String,
        /// How long it was waited for.
        waited: Duration,
        /// What can be seen of it.
        why: String,
    },
    /// There is no task of that name.
    #[error(
        "core `{board}` has no task `{task}`; there are {}",
        escaped(&known.join(", ")),
        board = escaped(board),
        task = escaped(task)
    )]
    Unknown {
        /// The core.
        board: String,
        /// The name, or number, asked for.
        task: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// It runs already.
    #[error(
        "task `{task}` of core `{board}` runs already; stop it first",
        task = escaped(task),
        board = escaped(board)
    )]
    Runs {
        /// The core.
        board: String,
        /// The task.
        task: String,
    },
    /// All tasks of the name run.
    #[error(
        "all {count} tasks `{task}` of core `{board}` run already; stop one first",
        task = escaped(task),
        board = escaped(board)
    )]
    TooMany {
        /// The core.
        board: String,
        /// The name.
        task: String,
        /// How many there are.
        count: usize,
    },
    /// It does not run.
    #[error(
        "task `{task}` of core `{board}` does not run",
        task = escaped(task),
        board = escaped(board)
    )]
    NotRunning {
        /// The core.
        board: String,
        /// The task.
        task: String,
    },
    /// The program cannot do without it.
    #[error(
        "task `{task}` of core `{board}` is permanent: its program cannot do without it; stop the \
         core instead",
        task = escaped(task),
        board = escaped(board)
    )]
    Permanent {
        /// The core.
        board: String,
        /// The task.
        task: String,
    },
    /// An argument that no task takes.
    #[error("an argument of {bytes} bytes is longer than a task takes: {limit}")]
    ArgumentTooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A name that no task has.
    #[error("`{name}` is no name of a task: 1 to {limit} bytes are", name = escaped(name))]
    BadName {
        /// The name.
        name: String,
        /// How long it may be.
        limit: usize,
    },
    /// It is made and has not begun.
    #[error(
        "task `{task}` of core `{board}` was made, and has not run within a second: tasks of \
         higher priority keep the core busy; kill one of them, or this one",
        task = escaped(task),
        board = escaped(board)
    )]
    NotBegun {
        /// The core.
        board: String,
        /// The task.
        task: String,
    },
    /// The core's platform could not make it.
    #[error(
        "core `{board}` could not make task `{task}`",
        task = escaped(task),
        board = escaped(board)
    )]
    NotMade {
        /// The core.
        board: String,
        /// The task.
        task: String,
    },
    /// It was asked to stop and goes on.
    #[error(
        "task `{task}` of core `{board}` was asked to stop and still runs after {bound:?}; kill it",
        task = escaped(task),
        board = escaped(board)
    )]
    StillRuns {
        /// The core.
        board: String,
        /// The task.
        task: String,
        /// How long was waited.
        bound: Duration,
    },
    /// The core has no such byte of segments.
    #[error(
        "core `{board}` has no byte {offset} behind page {page} of its area of segments",
        board = escaped(board)
    )]
    OutsideArea {
        /// The core.
        board: String,
        /// The page.
        page: u64,
        /// Counted from its start.
        offset: u64,
    },
    /// What the core replied makes no sense.
    #[error(
        "core `{board}` replied what makes no sense: {what}; is its image of another version?",
        board = escaped(board)
    )]
    BadReply {
        /// The core.
        board: String,
        /// What is wrong with it.
        what: String,
    },
    /// The core cannot be asked.
    #[error(transparent)]
    Core(#[from] CoreError),
}

impl From<NodeError> for TaskError {
    fn from(error: NodeError) -> Self {
        Self::Core(error.into())
    }
}
