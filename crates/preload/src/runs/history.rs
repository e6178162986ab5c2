//! The history of a pack: `PACK.runs` beside it, one JSON document a line, the last so many.
//!
//! A line that cannot be read, as one written by a later version, is dropped with the next write.
//! Never grows without bound, never replaced but whole.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use hythe_sys::regular_file::read_regular;
use serde::{Deserialize, Serialize};

use super::Run;
use crate::PreloadError;
use crate::whole_file::write_whole;

/// Entries that are kept.
pub const HISTORY_MAX: usize = 200;
/// 20 KiB for each of them; one has less than 1 KiB.
const HISTORY_MAX_BYTES: u64 = 4 << 20;

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Entry {
    /// A start-up.
    Run(Run),
    /// Reading ahead was switched off. What was before it does not count for the next verdict.
    SwitchedOff(Verdict),
}

/// Why reading ahead was switched off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// When, seconds since 1970-01-01 UTC.
    pub unix_s: u64,
    /// Checksum of the pack.
    pub pack: u32,
    /// With the figures.
    pub reason: String,
}

/// Where the history of `pack` is.
#[must_use]
pub fn history_path(pack: &Path) -> PathBuf {
    beside(pack, ".runs")
}

/// The file beside `pack` whose name has `ending` on top.
pub(super) fn beside(pack: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = pack.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The entries, oldest first; none where there is no history yet.
///
/// # Errors
/// There is one and it cannot be read.
pub fn read_history(pack: &Path) -> Result<Vec<Entry>, PreloadError> {
    let path = history_path(pack);
    let text = match read_regular(&path, HISTORY_MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(PreloadError::file("read", path)(error)),
    };
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect())
}

/// Adds an entry.
///
/// # Errors
/// The directory of the pack cannot be written, or is full.
pub(super) fn append(pack: &Path, entry: Entry) -> Result<Vec<Entry>, PreloadError> {
    let mut entries = read_history(pack)?;
    entries.push(entry);
    let too_many = entries.len().saturating_sub(HISTORY_MAX);
    entries.drain(..too_many);
    let path = history_path(pack);
    let mut text = Vec::new();
    for entry in &entries {
        serde_json::to_writer(&mut text, entry)
            .map_err(io::Error::other)
            .map_err(PreloadError::file("write", &path))?;
        text.push(b'\n');
    }
    write_whole(&path, &text)?;
    Ok(entries)
}
