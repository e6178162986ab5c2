//! What the PCM must be: the same minimp3, compiled for this host, over the whole file at once.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::error::DemoError;

/// Decodes a file; returns its samples, interleaved. Where its audio begins and ends is judged by
/// the decoder itself.
pub(super) fn decode(file: &Path, directory: &Path) -> Result<Vec<i16>, DemoError> {
    let decoder = built("reference/decode-reference").map_err(|path| DemoError::NotBuilt {
        what: "the reference decoder",
        path,
    })?;
    let pcm = directory.join("reference.pcm");
    let ran = Command::new(&decoder)
        // A terminal's Ctrl-C is for the demo.
        .process_group(0)
        .arg(file)
        .arg(&pcm)
        .stdin(Stdio::null())
        .output();
    let ran = ran.map_err(|source| DemoError::File {
        path: decoder,
        source,
    })?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
        return Err(DemoError::Reference {
            path: file.to_owned(),
            said,
        });
    }
    let bytes = fs::read(&pcm).map_err(|source| DemoError::File { path: pcm, source })?;
    Ok(bytes
        .chunks_exact(2)
        .map(|pair| i16::from_le_bytes([pair[0], pair[1]]))
        .collect())
}

/// Finds what was built beside the board images.
///
/// # Errors
/// The last place that was looked at.
pub(super) fn built(name: &str) -> Result<PathBuf, PathBuf> {
    let mut missing = PathBuf::from(name);
    for boards in hythe::core::search_path() {
        let path = boards.join(name);
        if path.exists() {
            return Ok(path);
        }
        missing = path;
    }
    Err(missing)
}

/// SHA-256 of samples as 16-bit little endian, in hexadecimal.
pub(super) fn sha256(samples: &[i16]) -> String {
    let mut hash = Sha256::new();
    for chunk in samples.chunks(4096) {
        let bytes: Vec<u8> = chunk
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        hash.update(&bytes);
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
