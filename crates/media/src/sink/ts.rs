//! A transport stream, packet after packet. What is missing, players see by the counters in it.

use std::path::Path;

use hythe_rtp::unit::Unit;

use super::Sink;
use super::output::Output;
use crate::MediaError;

/// A file of packets of 188 bytes.
#[derive(Debug)]
pub struct TsSink(Output);

impl TsSink {
    /// Writes to `path`, which is made anew.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`].
    pub fn create(path: &Path) -> Result<Self, MediaError> {
        Output::create(path).map(Self)
    }
}

impl Sink for TsSink {
    fn take(&mut self, unit: &Unit<'_>, _missing: bool) -> Result<(), MediaError> {
        unit.pieces.iter().try_for_each(|piece| self.0.write(piece))
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        self.0.flush()
    }
}
