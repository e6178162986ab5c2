//! The movie: the one that was named, or the one that `make setup` encodes.

use std::path::{Path, PathBuf};

use crate::error::BenchError;

/// Beside the boards, as the demo's recording.
const ENCODED: &str = "../demo/film.mp4";

pub(super) fn find(named: Option<&Path>) -> Result<PathBuf, BenchError> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let mut missing = PathBuf::from(ENCODED);
    for boards in hythe_rtcore::search_path() {
        let path = boards.join(ENCODED);
        if path.is_file() {
            return Ok(path);
        }
        missing = path;
    }
    Err(BenchError::Unable(format!(
        "no movie at {}: `make setup` encodes it, or name one, `--player FILE`",
        missing.display()
    )))
}
