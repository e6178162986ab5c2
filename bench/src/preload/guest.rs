//! What the set-up prepared for the emulated board, and where it is.
//!
//! `scripts/guest.sh` makes it. Never fetches or builds anything itself.

use crate::error::BootError;
use std::path::{Path, PathBuf};

/// Kernel and initramfs.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    pub(crate) kernel: PathBuf,
    pub(crate) initramfs: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Guest {
    /// `HYTHE_GUEST`, else beside this program, as built.
    pub(crate) fn find() -> Result<Self, BootError> {
        let places = search_path();
        let found = places.iter().find(|place| place.is_dir());
        let folder = found.or(places.first()).cloned().unwrap_or_default();
        let part = |what, name| {
            let path = folder.join(name);
            let is_there = path.is_file();
            is_there
                .then(|| path.clone())
                .ok_or(BootError::Missing { what, path })
        };
        Ok(Self {
            kernel: part("the emulated board's kernel", "kernel")?,
            initramfs: part("the emulated board's initramfs", "initramfs")?,
            folder,
        })
    }

    /// The root directory of the real program.
    pub(crate) fn application(&self) -> Result<PathBuf, BootError> {
        let path = self.folder.join("application");
        let what = "the real program's root";
        let is_there = path.is_dir();
        is_there
            .then(|| path.clone())
            .ok_or(BootError::Missing { what, path })
    }

    /// `hythe-preload`, linked so that it runs on the board.
    pub(crate) fn recorder(&self) -> Result<PathBuf, BootError> {
        let path = self.folder.join("hythe-preload");
        let what = "`hythe-preload` for the emulated board, which `make bench-preload` builds,";
        let is_there = path.is_file();
        is_there
            .then(|| path.clone())
            .ok_or(BootError::Missing { what, path })
    }
}

fn search_path() -> Vec<PathBuf> {
    if let Some(chosen) = std::env::var_os("HYTHE_GUEST") {
        return vec![PathBuf::from(chosen)];
    }
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("."));
    // `target/debug/hythe-bench`, `target/debug/deps/some-test`.
    let places = ["../guest", "../../guest"];
    places.iter().map(|place| folder.join(place)).collect()
}
