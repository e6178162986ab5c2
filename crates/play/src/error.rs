//! What can go wrong in the player.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hythe_terminal::escaped;

/// Errors of the player.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", escaped(path))]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file became shorter while it was played.
    #[error("{} became shorter while it was played", escaped(path))]
    FileShrank {
        /// The file.
        path: PathBuf,
    },
    /// A picture or a sample is asked for that the movie has not.
    #[error("{} has no {what} to write to {}", escaped(path), escaped(output))]
    NothingToWrite {
        /// The movie.
        path: PathBuf,
        /// Picture or sound.
        what: &'static str,
        /// Where to.
        output: PathBuf,
    },
    /// The core cannot decode this picture.
    #[error("the core cannot decode picture {number}: {reason}")]
    Undecodable {
        /// Which, from 0.
        number: u32,
        /// What the core said.
        reason: &'static str,
    },
    /// The core's word on what it decoded is not what the movie says.
    #[error("the core decoded {decoded} where the movie has {expected}")]
    Mismatch {
        /// What came.
        decoded: String,
        /// What should have.
        expected: String,
    },
    /// Nothing came from the core at all.
    #[error("the core sent no {what} for {waited:?}")]
    NothingDecoded {
        /// Picture or sound.
        what: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// Nothing came from the core any more.
    #[error(
        "the core has sent neither picture nor sound for {waited:?}: it hangs, or its process or \
         tasks were stopped"
    )]
    Silent {
        /// How long was waited.
        waited: Duration,
    },
    /// No core subscribed.
    #[error("the core takes nothing on channel {channel}: does its board have the player?")]
    NoCore {
        /// The channel.
        channel: &'static str,
    },
    /// The core ended.
    #[error("the core ended while it played: {0}")]
    CoreEnded(String),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
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
