//! What a replay, or the recording of a boot, leaves for the finish to find: gone after a reboot,
//! as are the pages.
//!
//! In `/run/hythe-preload` for root, `$XDG_RUNTIME_DIR/hythe-preload` for others. One for each
//! pack; the last replay's counts. Never in the pack's own directory: that is flash.

use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use hythe_sys::regular_file::{open_regular, read_regular};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::PreloadError;
use crate::pack::Extent;
use crate::replay::Outcome;
use crate::whole_file::write_whole;

/// Where replays by root leave their marks.
pub(super) const SYSTEM_RUN_DIRECTORY: &str = "/run/hythe-preload";
/// Runs of pages that are kept. With more, all of the pack counts as read ahead.
const EXTENTS_MAX: usize = 65_536;
/// More than a mark has: 36 bytes for each of those runs, 6 for each of 65,536 files.
const MARK_MAX_BYTES: u64 = 4 << 20;

/// What is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Which boot it belongs to.
    pub boot_id: String,
    /// Checksum of the pack.
    pub pack: u32,
    /// When the replay began, or the recording ended, nanoseconds since the machine started.
    pub began_ns: u64,
    /// How long it took.
    pub reading_ns: u64,
    /// Did it read, or leave this run to be compared with?
    pub read: bool,
    /// What was loaded: file, first page, pages. None: too many to keep.
    pub loaded: Option<Vec<[u32; 3]>>,
    /// Files whose pages the replay itself marked as used.
    pub marked_files: Vec<u32>,
    /// The pack is of this very boot: nobody could read it ahead, and the boot is none to compare
    /// with.
    #[serde(default)]
    pub recorded: bool,
}

impl Mark {
    /// The mark of a replay that read.
    ///
    /// # Errors
    /// As [`Mark::left_unread`].
    pub fn of(pack: &Path, began_ns: u64, outcome: &Outcome) -> Result<Self, PreloadError> {
        let extents = outcome.loaded.iter();
        let loaded = extents.map(|extent| [extent.file, extent.first_page, extent.pages]);
        Ok(Self {
            reading_ns: outcome.ns,
            read: true,
            loaded: (outcome.loaded.len() <= EXTENTS_MAX).then(|| loaded.collect()),
            marked_files: outcome.marked_files.clone(),
            ..Self::left_unread(pack, began_ns)?
        })
    }

    /// The mark of a replay that read nothing, so that the run can be compared with.
    ///
    /// # Errors
    /// The pack or `/proc/sys/kernel/random/boot_id` cannot be read.
    pub fn left_unread(pack: &Path, began_ns: u64) -> Result<Self, PreloadError> {
        Ok(Self {
            boot_id: boot_id()?,
            pack: pack_checksum(pack)?,
            began_ns,
            reading_ns: 0,
            read: false,
            loaded: Some(Vec::new()),
            marked_files: Vec::new(),
            recorded: false,
        })
    }

    /// The mark of a boot that was recorded, and not read ahead.
    ///
    /// # Errors
    /// As [`Mark::left_unread`].
    pub fn recorded(pack: &Path) -> Result<Self, PreloadError> {
        Ok(Self {
            recorded: true,
            ..Self::left_unread(pack, boottime_ns())?
        })
    }

    /// Leaves it in `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// The directory cannot be made or written.
    pub fn leave(&self, directory: &Path, pack: &Path) -> Result<(), PreloadError> {
        // Whatever the umask: what is left here is believed.
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(directory)
            .map_err(PreloadError::file("make", directory))?;
        let path = file_name(directory, pack)?;
        let text = serde_json::to_vec(self).map_err(io::Error::other);
        let text = text.map_err(PreloadError::file("write", &path))?;
        write_whole(&path, &text)
    }

    /// What was last left for `pack` in this boot in `directory`.
    pub(super) fn find(directory: &Path, pack: &Path) -> Result<Option<Self>, PreloadError> {
        let path = file_name(directory, pack)?;
        let text = match read_regular(&path, MARK_MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PreloadError::file("read", path)(error)),
        };
        let mark: Self = serde_json::from_slice(&text)
            .map_err(io::Error::other)
            .map_err(PreloadError::file("use", path))?;
        Ok((mark.boot_id == boot_id()?).then_some(mark))
    }

    /// Takes it away: it has been entered into the history.
    pub(super) fn forget(directory: &Path, pack: &Path) {
        if let Ok(path) = file_name(directory, pack) {
            // What stays, since it is another user's, is known by the history.
            let _ = fs::remove_file(path);
        }
    }

    pub(super) fn extents(&self) -> Option<Vec<Extent>> {
        let loaded = self.loaded.as_ref()?;
        let extent = |&[file, first_page, pages]: &[u32; 3]| Extent {
            file,
            first_page,
            pages,
        };
        Some(loaded.iter().map(extent).collect())
    }
}

/// Where replays of this user leave their marks. None: the user has no such place.
#[must_use]
pub fn run_directory() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(SYSTEM_RUN_DIRECTORY.into());
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|own| !own.is_empty())?;
    Some(Path::new(&own).join("hythe-preload"))
}

/// The checksum that stands in a pack: which one it is.
///
/// # Errors
/// The pack cannot be read.
pub fn pack_checksum(pack: &Path) -> Result<u32, PreloadError> {
    let mut head = [0; 16];
    let read = open_regular(pack).and_then(|mut file| file.read_exact(&mut head));
    read.map_err(PreloadError::file("read", pack))?;
    Ok(u32::from_le_bytes([head[12], head[13], head[14], head[15]]))
}

/// Nanoseconds since the machine started, sleep included: the clock of all times here.
#[must_use]
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    // Neither is negative: the clock begins at 0.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

pub(super) fn boot_id() -> Result<String, PreloadError> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path).map_err(PreloadError::file("read", path))?;
    Ok(text.trim().to_owned())
}

/// By the name of the pack, for people, and a checksum of its whole path, for those of the same
/// name.
fn file_name(directory: &Path, pack: &Path) -> Result<PathBuf, PreloadError> {
    let whole = fs::canonicalize(pack).map_err(PreloadError::file("find", pack))?;
    let name = whole.file_name().unwrap_or_default().to_string_lossy();
    let number = crc32c::crc32c(whole.as_os_str().as_bytes());
    Ok(directory.join(format!("{name}.{number:08x}.json")))
}
