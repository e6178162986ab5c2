//! Session descriptions as files; what stands in them is read and written by
//! [`hythe_rtp::sdp`], which is all here, too.

use std::path::Path;

use hythe_sys::regular_file::{read_regular, replace_regular};

pub use hythe_rtp::sdp::*;

use crate::MediaError;

/// The longest description that is read.
const BYTES_MAX: u64 = 1 << 20;

/// The streams that the description in `path` names and that are understood.
///
/// # Errors
///
/// [`MediaError::File`] if it cannot be read, [`MediaError::Description`] as [`parse`].
pub fn read(path: &Path) -> Result<Vec<StreamDescription>, MediaError> {
    read_as(path, parse)
}

/// All streams that the description in `path` names.
///
/// # Errors
///
/// [`MediaError::File`] if it cannot be read, [`MediaError::Description`] as [`list`].
pub fn read_all(path: &Path) -> Result<Vec<Listed>, MediaError> {
    read_as(path, list)
}

fn read_as<T>(path: &Path, parse: fn(&[u8]) -> Result<T, String>) -> Result<T, MediaError> {
    let text = read_regular(path, BYTES_MAX).map_err(|source| MediaError::File {
        what: "read the session description",
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|reason| MediaError::Description {
        path: path.to_owned(),
        reason,
    })
}

/// Writes a description to `path`, readable for everyone, in one step: a player that opens the file
/// sees all of it or nothing.
///
/// # Errors
///
/// [`MediaError::File`].
pub fn write(path: &Path, description: &str) -> Result<(), MediaError> {
    replace_regular(path, description.as_bytes()).map_err(|source| MediaError::File {
        what: "write the session description",
        path: path.to_owned(),
        source,
    })
}
