//! Folders of sources: where an unpacked crate has them, what is in them, and how the compiler is
//! told.

use crate::metadata::Metadata;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of an unpacked crate.
pub(super) fn folder_of(
    metadata: &Metadata,
    package: &str,
    folder: &str,
) -> Result<PathBuf, String> {
    let found = metadata
        .packages
        .iter()
        .find(|candidate| candidate.name == package)
        .ok_or_else(|| format!("rtos/vendor/Cargo.toml does not resolve {package}"))?;
    let path = found.manifest_path.with_file_name(folder);
    if path.is_dir() {
        Ok(path)
    } else {
        Err(format!(
            "{package} {} has no folder {}",
            found.version,
            path.display()
        ))
    }
}

/// The C files of a folder, sorted, so that every build links in the same order.
pub(super) fn c_paths(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    Ok(files)
}

pub(super) fn include(folder: &Path) -> [String; 2] {
    ["-I".into(), text(folder)]
}

pub(super) fn system_include(folder: &Path) -> [String; 2] {
    ["-isystem".into(), text(folder)]
}

/// As the argument of a command.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
