//! Video as a byte stream: Annex B of H.264 and of H.265, which ffmpeg, VLC and GStreamer read.
//!
//! NAL units one behind the other, each behind a start code of four bytes. Times are lost: a player
//! assumes a frame rate. A file that ends anywhere can be played up to there.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::Sink;
use hythe_sys::regular_file::create_output;

use hythe_rtp::unit::Unit;

use crate::MediaError;

/// Of four bytes, which the first NAL unit and parameter sets must have (B.1.2); the others may.
const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// A byte stream that is being written.
pub struct AnnexB {
    path: PathBuf,
    file: BufWriter<File>,
}

impl AnnexB {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`].
    pub fn create(path: &Path) -> Result<Self, MediaError> {
        let file = create_output(path).map_err(|source| MediaError::File {
            what: "create",
            path: path.to_path_buf(),
            source,
        })?;
        Ok(Self {
            path: path.to_path_buf(),
            file: BufWriter::new(file),
        })
    }

    fn failed(&self, source: std::io::Error) -> MediaError {
        MediaError::File {
            what: "write",
            path: self.path.clone(),
            source,
        }
    }
}

impl Sink for AnnexB {
    fn take(&mut self, unit: &Unit<'_>, _missing: bool) -> Result<(), MediaError> {
        for nal in unit.pieces {
            let written = self.file.write_all(&START_CODE);
            let written = written.and_then(|()| self.file.write_all(nal));
            written.map_err(|source| self.failed(source))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        self.file.flush().map_err(|source| self.failed(source))
    }
}
