//! Why a boot of the emulated board came to nothing.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Errors of one boot, and of what it is made of.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BootError {
    /// Something that the set-up makes is not there.
    #[error("{what} is missing ({path}): run `make setup`", path = .path.display())]
    Missing {
        /// What it is.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A path that QEMU cannot be told.
    #[error("{}: QEMU's options are separated by commas; choose another directory", .0.display())]
    Path(PathBuf),
    /// A program of this machine could not be run, or a file not be written.
    #[error("{what}: {why}")]
    Host {
        /// What was done with which.
        what: String,
        /// The system's reason.
        why: io::Error,
    },
    /// A program of this machine ran and failed.
    #[error("{program} failed: {said}")]
    Tool {
        /// Which.
        program: String,
        /// Its last words.
        said: String,
    },
    /// The board said so itself.
    #[error("the board: {why}; its console ends with:\n{tail}")]
    Board {
        /// What it said.
        why: String,
        /// The end of its console.
        tail: String,
    },
    /// QEMU ended too early.
    #[error("the board ended before the run did; its console ends with:\n{tail}")]
    Ended {
        /// The end of its console, and QEMU's complaints.
        tail: String,
    },
    /// It hangs.
    #[error("the board was not done after {waited:?}; its console ends with:\n{tail}")]
    Silent {
        /// For so long.
        waited: Duration,
        /// The end of its console.
        tail: String,
    },
    /// The pack could not be made.
    #[error(transparent)]
    Pack(#[from] hythe_preload::PreloadError),
}

impl BootError {
    /// For `map_err`: what was done, to which file or program.
    pub(crate) fn host(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |why| Self::Host { what, why }
    }
}
