//! What can go wrong in the demo, with what to do about it.

use std::io;
use std::path::PathBuf;

use hythe_terminal::escaped;

use crate::error::CliError;

/// Errors of the demo.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DemoError {
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}", escaped(path))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no default recording.
    #[error(
        "there is no recording at {}: `make setup` encodes one, or name an MP3 file",
        escaped(path)
    )]
    NoRecording {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file is no MP3 file that can be played.
    #[error("{} cannot be played: {reason}", escaped(path))]
    NotMp3 {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file changed while it was played.
    #[error("{} became shorter while it was played", escaped(path))]
    FileShrank {
        /// The file.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A program that belongs to Hythe is missing.
    #[error(
        "{what} is missing at {}: `make setup` (or `cargo xtask boards`) builds it",
        escaped(path)
    )]
    NotBuilt {
        /// What.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The reference decoder failed.
    #[error("the reference decoder failed on {}: {said}", escaped(path))]
    Reference {
        /// The file.
        path: PathBuf,
        /// What it said.
        said: String,
    },
    /// Something that should go on does not.
    #[error("{0}")]
    Stalled(String),
    /// A stage ended before its work was done.
    #[error("the {stage} stage {how}{said}")]
    StageFailed {
        /// Which.
        stage: &'static str,
        /// How it ended.
        how: String,
        /// What it said.
        said: String,
    },
    /// The core ended.
    #[error("the core ended in the middle: {0}")]
    CoreEnded(String),
    /// Everything ran, and something did not add up.
    #[error("the demo ran, but {0}")]
    NotExact(String),
    /// Somebody pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A stage's report makes no sense.
    #[error("a stage's report makes no sense: {0}")]
    Report(serde_json::Error),
    /// The pool's errors.
    #[error(transparent)]
    Node(#[from] hythe::NodeError),
    /// Its pool or its directory could not be made.
    #[error(transparent)]
    Workspace(#[from] crate::workspace::WorkspaceError),
    /// The media crate's errors.
    #[error(transparent)]
    Media(#[from] hythe::media::MediaError),
    /// The RTP crate's errors.
    #[error(transparent)]
    Rtp(#[from] hythe::rtp::RtpError),
    /// The core's errors.
    #[error(transparent)]
    Core(#[from] hythe::core::CoreError),
}

impl DemoError {
    pub(super) const fn report(error: serde_json::Error) -> Self {
        Self::Report(error)
    }
}

impl From<DemoError> for CliError {
    fn from(error: DemoError) -> Self {
        Self::Failed(error.to_string())
    }
}
