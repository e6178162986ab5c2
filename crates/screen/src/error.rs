//! What can go wrong with a window or a sound device.

use std::time::Duration;

use hythe_terminal::escaped;

/// Errors of windows and sound devices.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScreenError {
    /// The library cannot be opened.
    #[error("cannot load {library}: {}", escaped(reason))]
    NoLibrary {
        /// Its file.
        library: &'static str,
        /// What the loader said.
        reason: String,
    },
    /// The library is another one than this program knows.
    #[error("{library} has no function {function}: it is older than SDL 2.0.8")]
    NoFunction {
        /// Its file.
        library: &'static str,
        /// What is missing.
        function: String,
    },
    /// There is no window.
    #[error("cannot open a window on {}: {}", escaped(display), escaped(reason))]
    NoWindow {
        /// The display, as the environment names it.
        display: String,
        /// What SDL said.
        reason: String,
    },
    /// The display did not answer.
    #[error("{} did not answer for {waited:?}", escaped(display))]
    Silent {
        /// The display, as the environment names it.
        display: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The display ended, or cut the connection.
    #[error("the connection to {} was lost", escaped(display))]
    DisplayLost {
        /// The display, as the environment names it.
        display: String,
    },
    /// A picture cannot be shown.
    #[error("cannot show a picture of {}x{}: {}", size.0, size.1, escaped(reason))]
    NoPicture {
        /// Its width and height.
        size: (u32, u32),
        /// What SDL said.
        reason: String,
    },
    /// There is no sound.
    #[error("cannot open a sound device: {}", escaped(reason))]
    NoSound {
        /// What SDL said.
        reason: String,
    },
    /// The sound device takes no samples.
    #[error("the sound device takes no samples: {}", escaped(reason))]
    SoundStopped {
        /// Why.
        reason: String,
    },
}
