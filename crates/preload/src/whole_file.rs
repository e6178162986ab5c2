//! Files that are there whole or not at all.
//!
//! Packs, histories and marks are written so. Never leaves a half-written file behind, unless the
//! machine dies: then beside the old one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::PreloadError;

/// Writes under another name first, so that whoever reads meanwhile finds the old one or the new
/// one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), PreloadError> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    // What a death left there is of no use; and what somebody else put there, a link, is not
    // written through.
    let _ = fs::remove_file(&unfinished);
    let written = fs::File::create_new(&unfinished)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(PreloadError::file("write", &unfinished))
        .and_then(|()| fs::rename(&unfinished, path).map_err(PreloadError::file("write", path)));
    if written.is_err() {
        // What is not whole is of no use, and it may be what filled the file system.
        let _ = fs::remove_file(&unfinished);
    }
    written
}
