//! Where received media goes: files of the formats that sources read.
//!
//! One module per container. A sink is complete on disk after [`Sink::finish`]; what was written before a crash can be played as far
//! as the container allows.

pub mod annex_b;

use crate::MediaError;
use crate::unit::Unit;

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
