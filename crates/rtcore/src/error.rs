//! What can go wrong with a core, with what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hythe_node::NodeError;
use hythe_terminal::{escaped, escaped_lines};

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// There is no such board.
    #[error("there is no board `{name}`; {}", there_are(known, searched), name = escaped(name))]
    UnknownBoard {
        /// The name asked for.
        name: String,
        /// The boards there are.
        known: Vec<String>,
        /// Where was looked.
        searched: Vec<PathBuf>,
    },
    /// A board's description cannot be used.
    #[error("{} cannot be used: {reason}", escaped(path), reason = escaped(reason))]
    BadBoard {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The board cannot run on this machine.
    #[error("board `{board}` cannot run here: {}", escaped(&missing.join("; ")), board = escaped(board))]
    NotRunnable {
        /// The board.
        board: String,
        /// What is missing.
        missing: Vec<String>,
    },
    /// The board's core runs in this pool already.
    #[error(
        "board `{board}` runs in this pool already: {by}",
        board = escaped(board),
        by = escaped(by)
    )]
    AlreadyRunning {
        /// The board.
        board: String,
        /// Its agent or core.
        by: String,
    },
    /// Another core has a channel of that name.
    #[error(
        "core `{core}` was not started: channel `{channel}` belongs to endpoint {holder} of another core",
        core = escaped(core),
        channel = escaped(channel),
        holder = escaped(holder)
    )]
    ChannelTaken {
        /// The core.
        core: String,
        /// The channel.
        channel: String,
        /// Whose endpoint it is: name and process.
        holder: String,
    },
    /// Slots that the core's region cannot have.
    #[error("core `{core}` cannot have these slots: {reason}", core = escaped(core))]
    BadClasses {
        /// The core.
        core: String,
        /// What is wrong.
        reason: String,
    },
    /// A name that a core cannot have.
    #[error(
        "`{name}` cannot be the name of a core: 1 to 32 letters, digits, `-` and `_` can",
        name = escaped(name)
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// The board's core does not run in this pool.
    #[error(
        "board `{board}` does not run in this pool{}",
        death.as_ref().map_or_else(String::new, |how| format!("; its core died: {}", escaped(how))),
        board = escaped(board)
    )]
    NotRunning {
        /// The board.
        board: String,
        /// How its core died, if it did and was not started again.
        death: Option<String>,
    },
    /// Two endpoints of a core's program have one name.
    #[error(
        "core `{core}` was not started: its program names endpoint `{endpoint}` twice (endpoints {} and {})",
        numbers.0,
        numbers.1,
        core = escaped(core),
        endpoint = escaped(endpoint)
    )]
    RepeatedEndpoint {
        /// The core.
        core: String,
        /// The name.
        endpoint: String,
        /// The numbers of both.
        numbers: (usize, usize),
    },
    /// The agent has died, and the core goes on.
    #[error(
        "the agent of board `{board}` has died; its core runs on as process {core_pid}",
        board = escaped(board)
    )]
    WithoutAgent {
        /// The board.
        board: String,
        /// Its core.
        core_pid: u32,
    },
    /// The agent runs where process ids are others.
    #[error(
        "board `{board}` is run by {agent} in another PID namespace, and can be stopped there",
        board = escaped(board),
        agent = escaped(agent)
    )]
    OutOfReach {
        /// The board.
        board: String,
        /// Its agent: name and process.
        agent: String,
    },
    /// The pool has a region of this board, laid out differently.
    #[error(
        "the pool has a region for board `{board}` with other sizes ({reason}); remove the pool, or use the board it was made for",
        board = escaped(board),
        reason = escaped(reason)
    )]
    RegionDiffers {
        /// The board.
        board: String,
        /// What differs.
        reason: String,
    },
    /// Something about a file or process failed.
    #[error("cannot {action} {}: {source}", escaped(path))]
    System {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A path that the board cannot be given.
    #[error(
        "{} cannot be used as path for board `{board}`: {reason}",
        escaped(path),
        board = escaped(board),
        reason = escaped(reason)
    )]
    Path {
        /// The board.
        board: String,
        /// The path.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// The core's process does nothing that can be seen.
    #[error(
        "the core of board `{board}` did not {what} within {bound:?}{}",
        said(log),
        board = escaped(board)
    )]
    NoAnswer {
        /// The board.
        board: String,
        /// What was waited for.
        what: &'static str,
        /// How long.
        bound: Duration,
        /// The first and last lines of its log.
        log: Vec<String>,
    },
    /// Whoever started the core did not want it any more before it was up.
    #[error(
        "the start of board `{board}` was interrupted; nothing of it is left",
        board = escaped(board)
    )]
    GivenUp {
        /// The board.
        board: String,
    },
    /// The core refused the link.
    #[error(
        "the core of board `{board}` refused its link: {reason}; is its image of another version?",
        board = escaped(board),
        reason = escaped(reason)
    )]
    Refused {
        /// The board.
        board: String,
        /// Why.
        reason: String,
    },
    /// The core's process ended by itself.
    #[error(
        "the core of board `{board}` ended: {how}{}",
        said(log),
        board = escaped(board),
        how = escaped(how)
    )]
    Died {
        /// The board.
        board: String,
        /// Exit code or signal.
        how: String,
        /// The first and last lines of its log.
        log: Vec<String>,
    },
    /// An agent was told to stop, and something of it is still there.
    #[error(
        "board `{board}` was told to stop, and after {bound:?} there is still {left}",
        board = escaped(board),
        left = escaped(left)
    )]
    StillThere {
        /// The board.
        board: String,
        /// How long was waited.
        bound: Duration,
        /// What is left.
        left: String,
    },
    /// The pool refused.
    #[error(transparent)]
    Node(#[from] NodeError),
}

impl From<hythe_node::PoolError> for CoreError {
    fn from(error: hythe_node::PoolError) -> Self {
        Self::Node(error.into())
    }
}

fn there_are(known: &[String], searched: &[PathBuf]) -> String {
    if known.is_empty() {
        let places: Vec<_> = searched
            .iter()
            .map(|place| escaped(place).to_string())
            .collect();
        return format!(
            "none was found in {} (HYTHE_BOARDS chooses another place)",
            places.join(", ")
        );
    }
    format!("there are {}", escaped(&known.join(", ")))
}

fn said(log: &[String]) -> String {
    if log.is_empty() {
        return String::new();
    }
    // A line of the log each: what the core wrote into them is its own.
    let lines = log.join("\n  ");
    format!("; it said:\n  {}", escaped_lines(&lines))
}

/// Names path and action of a failed system call.
pub(crate) fn system<E: Into<io::Error>>(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(E) -> CoreError {
    move |source| CoreError::System {
        action,
        path: path.into(),
        source: source.into(),
    }
}
