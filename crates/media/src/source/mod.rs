//! Where media comes from: files of every format that can be sent, as units with their times.
//!
//! One module per container. Each reads through a bounded window: what a file claims about itself
//! never decides how much is allocated. Sources never wait for an instant: pacing is the sender's.

pub mod annex_b;
pub mod channel;
pub mod input;
pub mod live;
pub mod mp4;
pub mod mpeg_audio;
pub mod ogg_opus;
mod ogg_pages;
pub mod open;
mod other_formats;
mod owned;
mod pieces;
pub mod playlist;
pub mod raw;
pub mod ts;
mod ts_clock;
pub mod wav;

pub use input::Input;
pub use live::Live;
pub use open::{OpenOptions, open_input};
pub use playlist::open;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::unit::Unit;

use self::channel::Message;
use crate::MediaError;

/// A unit in messages of a channel.
#[derive(Clone, Copy, Debug)]
pub struct InPlace<'u> {
    /// Its pieces are slices of the messages.
    pub unit: Unit<'u>,
    /// Clones of these keep the slots.
    pub messages: &'u [Message],
}

/// Something that yields the units of one stream.
pub trait Source {
    /// What the stream carries; does not change.
    fn format(&self) -> &StreamFormat;

    /// The next unit; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`MediaError::Input`] for what is damaged beyond going on, [`MediaError::File`] for what the
    /// kernel says. What can be passed over is passed over and counted in [`Source::damaged`].
    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError>;

    /// Do units lie in messages of a channel, to be sent from there? Does not change.
    fn is_in_place(&self) -> bool {
        false
    }

    /// The next unit, as [`next`](Self::next), and the messages that it lies in, for sources that
    /// are [in place](Self::is_in_place).
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    fn next_in_place(&mut self) -> Result<Option<InPlace<'_>>, MediaError> {
        Ok(self.next()?.map(|unit| InPlace {
            unit,
            messages: &[],
        }))
    }

    /// Will [`next`](Self::next) answer without waiting? Sources of live media say no while nothing
    /// has come; the others never do.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    fn is_ready(&mut self) -> Result<bool, MediaError> {
        Ok(true)
    }

    /// Bytes of media that were copied because the end of a message cut them in two, for sources
    /// that are [in place](Self::is_in_place).
    fn joined_bytes(&self) -> u64 {
        0
    }

    /// Does the stream say how many frames a second it has, so that nobody needs to? Does not
    /// change.
    fn says_frame_rate(&self) -> bool {
        false
    }

    /// Streams of picture or sound beside this one that are in the input and not read, a few words
    /// each. Does not change.
    fn left_out(&self) -> &[String] {
        &[]
    }

    /// How many damaged places were passed over so far.
    fn damaged(&self) -> u64 {
        0
    }

    /// Bytes in front of the first whole packet or frame of an input that begins within one. That
    /// is where a recording was cut, and no damage.
    fn skipped_at_start(&self) -> u64 {
        0
    }

    /// The next part of the input that could not be sent and was passed over, such as an entry of a
    /// playlist: why, once for each. It lies in front of what [`next`](Self::next) returned last.
    fn skipped(&mut self) -> Option<MediaError> {
        None
    }
}
