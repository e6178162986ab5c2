//! What ends a command early, and the exit code it gets.
//!
//! 0: done. 1: it failed. 2: wrong use, which is mostly clap's to say. Names no command: a command
//! with errors of its own turns them into these. Never prints: `main` does.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use hythe::core::CoreError;
use hythe::core::tasks::TaskError;
#[cfg(feature = "media")]
use hythe::media::MediaError;
#[cfg(feature = "media")]
use hythe::rtp::RtpError;
use hythe::{NodeError, PoolError};
#[cfg(feature = "latency")]
use hythe_latency::LatencyError;
#[cfg(feature = "preload")]
use hythe_preload::PreloadError;
use hythe_terminal::escaped;

use crate::remedy;
use crate::workspace::WorkspaceError;

/// Errors of the command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The library refused.
    #[error("{}{}", .0, remedy::of_node(.0))]
    Node(#[from] NodeError),
    /// A core's or board's error.
    #[error("{}{}", .0, remedy::of_core(.0))]
    Core(#[from] CoreError),
    /// About segments.
    #[error(transparent)]
    Segment(#[from] hythe::segment::SegmentError),
    /// About tasks of a core.
    #[error("{}{}", .0, remedy::of_task(.0))]
    Task(#[from] TaskError),
    /// Reading ahead, or recording for it, did not work.
    #[cfg(feature = "preload")]
    #[error("{}{}", .0, remedy::of_preload(.0))]
    Preload(#[from] PreloadError),
    /// A latency could not be measured, judged or compared.
    #[cfg(feature = "latency")]
    #[error("{}{}", .0, remedy::of_latency(.0))]
    Latency(#[from] LatencyError),
    /// A pool of the command's own could not be made.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Something about a file that is not a pool's.
    #[error("cannot {action} {}: {source}", escaped(path))]
    File {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses something that the command needs.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Standard output is gone or full.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
    /// About tasks of a job.
    #[cfg(feature = "hosts")]
    #[error(transparent)]
    Job(#[from] hythe_cluster::tasks::TaskError),
    /// A task of a job failed; the text says which, and the command exits as it did.
    #[error("{text}")]
    TaskFailed {
        /// With which code to exit.
        code: u8,
        /// Which task, and how.
        text: String,
    },
    /// The same, and it was said already.
    #[error("a task failed with exit code {0}")]
    Reported(u8),
    /// It did not come to what was asked for; the text says what, with which values, and what to
    /// do.
    #[error("{0}")]
    Failed(String),
    /// What was asked for makes no sense; the text says what would.
    #[error("{0}")]
    WrongUse(String),
}

impl CliError {
    /// Names path and action of an I/O error.
    pub fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            action,
            path: path.into(),
            source,
        }
    }

    fn is_wrong_use(&self) -> bool {
        let node = match self {
            #[cfg(feature = "latency")]
            Self::Latency(LatencyError::Threshold { .. }) => return true,
            Self::WrongUse(_)
            | Self::Core(CoreError::BadName { .. })
            | Self::Task(TaskError::BadName { .. } | TaskError::ArgumentTooLong { .. }) => {
                return true;
            }
            Self::Node(error)
            | Self::Core(CoreError::Node(error))
            | Self::Task(TaskError::Core(CoreError::Node(error))) => error,
            _ => return false,
        };
        matches!(
            node,
            NodeError::Pool(PoolError::BadName { .. }) | NodeError::NoSuchUser { .. }
        )
    }

    /// With which code to exit.
    pub fn exit_code(&self) -> u8 {
        match self {
            error if error.is_closed_output() => 0,
            error if error.is_wrong_use() => 2,
            Self::TaskFailed { code, .. } | Self::Reported(code) => *code,
            _ => 1,
        }
    }

    /// There is nothing left to say about it.
    pub fn is_reported(&self) -> bool {
        matches!(self, Self::Reported(_)) || self.is_closed_output()
    }

    /// Whoever read the output has seen enough: `hythe sub … | head`. It is no failure.
    pub fn is_closed_output(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == ErrorKind::BrokenPipe)
    }
}

#[cfg(feature = "media")]
impl From<RtpError> for CliError {
    fn from(error: RtpError) -> Self {
        MediaError::from(error).into()
    }
}

#[cfg(feature = "media")]
impl From<MediaError> for CliError {
    fn from(error: MediaError) -> Self {
        match error {
            MediaError::Address { .. } => Self::WrongUse(error.to_string()),
            other => Self::Failed(format!("{other}{}", remedy::of_media(&other))),
        }
    }
}
