//! Where received media goes: files of the formats that sources read.
//!
//! One module per container. A sink is complete on disk after [`Sink::finish`]; what was written
//! before a crash can be played as far as the container allows.

pub mod annex_b;
pub mod channel;
pub mod mpeg_audio;
pub mod ogg_opus;
mod output;
mod timeline;
pub mod ts;
pub mod wav;

use std::path::Path;

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::unit::Unit;

use crate::MediaError;

/// Something that takes the units of one stream.
pub trait Sink {
    /// Takes a unit. `missing`: packets that belong in front of it never came.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`].
    fn take(&mut self, unit: &Unit<'_>, missing: bool) -> Result<(), MediaError>;

    /// Completes what was begun: lengths in headers, last pages.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`].
    fn finish(&mut self) -> Result<(), MediaError>;
}

/// A sink for streams of `format`, at `path`, which is made anew.
///
/// # Errors
///
/// [`MediaError::File`]; [`MediaError::Rtp`] for samples without channels, or with more than eight.
pub fn open(path: &Path, format: &StreamFormat) -> Result<Box<dyn Sink + Send>, MediaError> {
    Ok(match format.encoding {
        Encoding::MpegTs => Box::new(ts::TsSink::create(path)?),
        Encoding::L16 | Encoding::Pcmu | Encoding::Pcma => {
            Box::new(wav::WavSink::create(path, format)?)
        }
        Encoding::MpegAudio => Box::new(mpeg_audio::MpegAudioSink::create(path)?),
        Encoding::Opus => Box::new(ogg_opus::OggOpusSink::create(path, format)?),
        Encoding::H264 | Encoding::H265 => Box::new(annex_b::AnnexB::create(path)?),
    })
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn take(&mut self, unit: &Unit<'_>, missing: bool) -> Result<(), MediaError> {
        (**self).take(unit, missing)
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        (**self).finish()
    }
}
