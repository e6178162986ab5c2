//! Packs: in memory, and as the bytes of `spec/pack.md`.
//!
//! A [`Pack`] that [`Pack::from_bytes`] returned keeps every rule of that page. One made by hand is
//! checked when it is written. Never touches the files that it names.

mod bytes;
mod union;

use std::path::{Path, PathBuf};

use hythe_sys::regular_file::read_regular;

use crate::PreloadError;
use crate::whole_file::write_whole;

pub use bytes::PAGE_BYTES;
pub use union::Union;

/// What is read ahead, in the order in which it was first needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pack {
    /// Inode numbers are not compared: the pack goes into an image that is still to be built.
    pub any_inode: bool,
    /// The files, each once.
    pub files: Vec<PackFile>,
    /// Ranges of them. Most needed first, no page twice.
    pub extents: Vec<Extent>,
}

/// A file of a pack, and what it must be like to be still that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackFile {
    /// Absolute.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Last modification, nanoseconds since 1970-01-01 UTC.
    pub mtime_ns: i64,
    /// Inode number.
    pub inode: u64,
}

/// A range of pages, of [`PAGE_BYTES`] each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Which of the pack's files.
    pub file: u32,
    /// The first page.
    pub first_page: u32,
    /// Pages, at least one.
    pub pages: u32,
}

impl Pack {
    /// Reads a pack.
    ///
    /// # Errors
    /// The file cannot be read, or is not a pack.
    pub fn read(path: &Path) -> Result<Self, PreloadError> {
        let read = read_regular(path, bytes::PACK_MAX_BYTES);
        let bytes = read.map_err(PreloadError::file("read", path))?;
        Self::from_bytes(&bytes)
    }

    /// Writes the pack: under another name first, so that whoever boots meanwhile finds the old one
    /// or the new one whole.
    ///
    /// # Errors
    /// As [`Pack::to_bytes`]; the directory cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), PreloadError> {
        let bytes = self.to_bytes()?;
        write_whole(path, &bytes)
    }

    /// Pages of all extents.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.extents
            .iter()
            .map(|extent| u64::from(extent.pages))
            .sum()
    }
}
