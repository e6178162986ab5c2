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
    /// This picture cannot be decoded.
    #[error("picture {number} cannot be decoded: {reason}")]
    Undecodable {
        /// Which, from 0.
        number: u32,
        /// What the decoder said.
        reason: &'static str,
    },
    /// What was decoded is not what the movie says.
    #[error("the decoder sent {decoded} instead of {expected}")]
    Mismatch {
        /// What came.
        decoded: String,
        /// What should have.
        expected: String,
    },
    /// Nothing was decoded at all.
    #[error("no {what} was decoded for {waited:?}")]
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
    /// RTP is sent from slots.
    #[error(
        "--rtp sends from the slots of a core, which other methods do not use: leave out --method"
    )]
    NoSlotsToSend,
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// An access unit or a frame is longer than the decoder's memory for one.
    #[error("a sample of {bytes} bytes is longer than the {limit} that the decoder takes")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// The program that decodes on Linux is not there.
    #[error(
        "the program that decodes on Linux was not built: {} is missing",
        escaped(path)
    )]
    NotBuilt {
        /// Where it was looked for last.
        path: PathBuf,
    },
    /// The program that decodes on Linux cannot be started.
    #[error("cannot start {}: {source}", escaped(path))]
    NotStarted {
        /// The program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A process that decodes on Linux ended.
    #[error("the process that decodes {what} ended while it played: {how}")]
    DecoderEnded {
        /// What it decodes.
        what: &'static str,
        /// Its exit status.
        how: String,
    },
    /// A process that decodes on Linux is silent.
    #[error("the process that decodes {what} has not answered for {waited:?}; it was killed")]
    DecoderHung {
        /// What it decodes.
        what: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// A pipe to or from a process that decodes on Linux failed.
    #[error("cannot {action} the process that decodes {what}: {source}")]
    Pipe {
        /// What was tried.
        action: &'static str,
        /// What it decodes.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The copying transfer's errors.
    #[error(transparent)]
    Vring(#[from] hythe_vring::VringError),
    /// There is no window, or no more.
    #[error(transparent)]
    Screen(#[from] hythe_screen::ScreenError),
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
