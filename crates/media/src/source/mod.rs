//! Where media comes from: files of every format that can be sent, as units with their times.
//!
//! One module per container. Each reads through a bounded window: what a file claims about itself never decides how much is
//! allocated. Sources never wait for an instant: pacing is the sender's.

pub mod annex_b;
pub mod channel;
pub mod input;
pub mod live;
pub mod mp4;
pub mod mpeg_audio;
pub mod ogg_opus;
mod ogg_pages;
pub mod open;
mod pieces;
pub mod playlist;
pub mod raw;
pub mod ts;
pub mod wav;

pub use input::Input;
pub use live::Live;
pub use open::{OpenOptions, open, open_input};

use crate::MediaError;
use crate::format::StreamFormat;
use crate::unit::Unit;

/// Something that yields the units of one stream.
pub trait Source {
    /// What the stream carries; does not change.
    fn format(&self) -> &StreamFormat;

    /// The next unit; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`MediaError::Input`] for what is damaged beyond going on, [`MediaError::File`] for what the kernel says. What can be passed
    /// over is passed over and counted in [`Source::damaged`].
    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError>;

    /// Will [`next`](Self::next) answer without waiting? Sources of live media say no while nothing has come; the others never do.
    fn is_ready(&self) -> bool {
        true
    }

    /// How many damaged places were passed over so far.
    fn damaged(&self) -> u64 {
        0
    }
}
