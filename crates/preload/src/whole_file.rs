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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// In a child: the umask is the process', and other tests make files meanwhile.
    #[test]
    fn whole_file_is_writable_by_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let in_child = || {
            rustix::process::umask(rustix::fs::Mode::empty());
            i32::from(write_whole(&path, b"whole").is_ok())
        };
        assert_eq!(hythe_sys::fork::run_in_child(in_child).expect("forked"), 1);
        let found = std::fs::metadata(&path).expect("written");
        assert_eq!(found.permissions().mode() & 0o777, 0o644);
    }
}
