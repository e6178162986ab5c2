//! A file of MPEG audio: frame after frame. Decoders find the next one by themselves where some are
//! missing.

use std::path::Path;

use hythe_rtp::unit::Unit;

use super::Sink;
use super::output::Output;
use crate::MediaError;

/// A file of frames.
#[derive(Debug)]
pub struct MpegAudioSink(Output);

impl MpegAudioSink {
    /// Writes to `path`, which is made anew.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`].
    pub fn create(path: &Path) -> Result<Self, MediaError> {
        Output::create(path).map(Self)
    }
}

impl Sink for MpegAudioSink {
    fn take(&mut self, unit: &Unit<'_>, _missing: bool) -> Result<(), MediaError> {
        unit.pieces.iter().try_for_each(|piece| self.0.write(piece))
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        self.0.flush()
    }
}
