//! Files that are there whole or not at all.
//!
//! Packs, histories and marks are written so. Never leaves a half-written file behind, unless the
//! machine dies: then beside the old one.

use std::path::Path;

use hythe_sys::whole_file::WholeFile;

use crate::PreloadError;

/// Writes under another name first, so that whoever reads meanwhile finds the old one or the new
/// one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), PreloadError> {
    WholeFile::begin(path)
        .and_then(|file| file.finish(bytes))
        .map_err(PreloadError::file("write", path))
}
