//! What can go wrong in the demo.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hythe_terminal::escaped;

/// Errors of the demo.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}", escaped(path))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no default recording.
    #[error("there is no recording at {}", escaped(path))]
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
    #[error("{what} is missing at {}", escaped(path))]
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
    /// No port for RTP and RTCP was found.
    #[error("no free pair of UDP ports in {attempts} tries")]
    NoFreePorts {
        /// How many were looked at.
        attempts: usize,
    },
    /// ffmpeg, which records the stream, is not installed.
    #[error("ffmpeg is not installed")]
    FfmpegMissing,
    /// ffmpeg ended before it could receive.
    #[error(
        "ffmpeg ended ({status}) before it listened on UDP port {port}: {message}",
        message = escaped(message)
    )]
    ReceiverEnded {
        /// The port it was to listen on.
        port: u16,
        /// How it ended.
        status: String,
        /// The end of what it printed.
        message: String,
    },
    /// ffmpeg did not listen in time.
    #[error("ffmpeg did not listen on UDP port {port} within {waited:?}")]
    ReceiverNotReady {
        /// The port it was to listen on.
        port: u16,
        /// How long was waited.
        waited: Duration,
    },
    /// ffmpeg could not be made to end its recording.
    #[error(
        "ffmpeg did not end its recording within {waited:?} and was killed: {message}",
        message = escaped(message)
    )]
    ReceiverStuck {
        /// How long was waited.
        waited: Duration,
        /// The end of what it printed.
        message: String,
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
    #[error("the core ended before the stream did: {0}")]
    CoreEnded(String),
    /// Everything ran, and something did not add up.
    #[error("the result of the demo is wrong: {0}")]
    NotExact(String),
    /// Somebody asked the demo to stop.
    #[error("interrupted")]
    Interrupted,
    /// The report of a stage is not the JSON that is expected.
    #[error("cannot parse the report of a stage: {0}")]
    Report(serde_json::Error),
    /// The pool's errors.
    #[error(transparent)]
    Node(#[from] hythe::NodeError),
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
    /// A stage cannot write what the demo waits for.
    pub(crate) fn output(source: io::Error) -> Self {
        Self::System {
            action: "answer the demo",
            source,
        }
    }
}
