//! Packs: in memory, and as the bytes of `spec/pack.md`.
//!
//! A [`Pack`] that [`Pack::from_bytes`] returned keeps every rule of that page. One made by hand is
//! checked when it is written. Never touches the files that it names.

mod bytes;
mod union;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hythe_sys::regular_file::read_regular;
use hythe_sys::whole_file::WholeFile;

use crate::PreloadError;
use crate::whole_file::write_whole;

pub use bytes::PAGE_BYTES;
pub use union::Union;

/// The file of a pack, begun before it is known what is in it.
#[derive(Debug)]
pub struct PackOutput {
    path: PathBuf,
    file: WholeFile,
}

impl PackOutput {
    /// Makes it, beside `path` until [`Pack::finish`]: that it cannot be made shows at once.
    /// Dropped before, it leaves nothing.
    ///
    /// # Errors
    /// The directory cannot be written; `path` leads to what is no regular file.
    pub fn begin(path: &Path) -> Result<Self, PreloadError> {
        let file = WholeFile::begin(path).map_err(PreloadError::file("write", path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// As [`begin`](Self::begin). `None`: its file system is mounted read-only, and may be writable
    /// later, as the root of a boot is.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin), also of a file system that is never written.
    pub fn begin_at_boot(path: &Path) -> Result<Option<Self>, PreloadError> {
        match Self::begin(path) {
            Err(PreloadError::File { source, .. })
                if source.kind() == ErrorKind::ReadOnlyFilesystem && !is_never_written(path) =>
            {
                Ok(None)
            }
            begun => begun.map(Some),
        }
    }
}

/// Is the path on a file system that no mount makes writable? By its magic number, which
/// `linux/magic.h` has, and ISO 9660's own header.
fn is_never_written(path: &Path) -> bool {
    const SQUASHFS: u32 = 0x7371_7368;
    const EROFS: u32 = 0xE0F5_E1E2;
    const CRAMFS: u32 = 0x28CD_3D45;
    const ROMFS: u32 = 0x7275;
    const ISO9660: u32 = 0x9660;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let found = rustix::fs::statfs(folder.unwrap_or(Path::new(".")));
    // The kernel's words are as long as the machine's; magic numbers have 32 bits.
    found.is_ok_and(|found| {
        [SQUASHFS, EROFS, CRAMFS, ROMFS, ISO9660].contains(&(found.f_type as u32))
    })
}

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

    /// As [`Pack::write`], into a file that was begun before.
    ///
    /// # Errors
    /// Those of [`Pack::write`].
    pub fn finish(&self, file: PackOutput) -> Result<(), PreloadError> {
        let bytes = self.to_bytes()?;
        let PackOutput { path, file } = file;
        file.finish(&bytes)
            .map_err(PreloadError::file("write", path))
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
