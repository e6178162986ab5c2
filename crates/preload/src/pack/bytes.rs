//! The bytes of a pack (`spec/pack.md`): written from a [`Pack`], and checked on the way back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use hythe_terminal::escaped;

use super::{Extent, Pack, PackFile};
use crate::PreloadError;

/// Bytes of a page of an extent, whatever pages the machine has.
pub const PAGE_BYTES: u64 = 4096;

const MAGIC: [u8; 8] = *b"HYTHEPK\x01";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
const FILE_BYTES: usize = 32;
const EXTENT_BYTES: usize = 12;
/// The checksum covers what stands behind it.
const CHECKED_FROM: usize = 16;
const ANY_INODE: u32 = 1;

const FILES_MAX: usize = 65_536;
const EXTENTS_MAX: usize = 1 << 20;
const PATHS_MAX_BYTES: usize = 16 << 20;
const PATH_MAX_BYTES: usize = 4095;
/// The largest pack there can be.
pub(super) const PACK_MAX_BYTES: u64 =
    (HEADER_BYTES + FILES_MAX * FILE_BYTES + EXTENTS_MAX * EXTENT_BYTES + PATHS_MAX_BYTES) as u64;

impl Pack {
    /// The pack as bytes.
    ///
    /// # Errors
    /// [`PreloadError::TooLarge`], [`PreloadError::BadPath`]; [`PreloadError::NotAPack`] if an
    /// extent is not inside its file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PreloadError> {
        check_count("files", self.files.len(), FILES_MAX)?;
        check_count("extents", self.extents.len(), EXTENTS_MAX)?;
        let (mut files, mut paths) = (Vec::new(), Vec::new());
        for file in &self.files {
            let path = file.path.as_os_str().as_bytes();
            if let Err(_why) = check_path(path) {
                return Err(PreloadError::BadPath {
                    path: file.path.clone(),
                    limit: PATH_MAX_BYTES,
                });
            }
            files.extend(file.size.to_le_bytes());
            files.extend(file.mtime_ns.to_le_bytes());
            files.extend(file.inode.to_le_bytes());
            files.extend(word(paths.len()));
            files.extend(word(path.len()));
            paths.extend(path);
            paths.push(0);
            check_count("bytes of paths", paths.len(), PATHS_MAX_BYTES)?;
        }
        let mut extents = Vec::new();
        for extent in &self.extents {
            check_extent(extent, &self.files)?;
            for value in [extent.file, extent.first_page, extent.pages] {
                extents.extend(value.to_le_bytes());
            }
        }
        let total = HEADER_BYTES + files.len() + extents.len() + paths.len();
        let mut checked = Vec::with_capacity(total);
        checked.extend(word(total));
        checked.extend(if self.any_inode { ANY_INODE } else { 0 }.to_le_bytes());
        checked.extend(word(self.files.len()));
        checked.extend(word(self.extents.len()));
        checked.extend(word(paths.len()));
        checked.extend(word(PAGE_BYTES as usize));
        checked.extend([files, extents, paths].concat());
        let head = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        Ok([
            head,
            crc32c::crc32c(&checked).to_le_bytes().to_vec(),
            checked,
        ]
        .concat())
    }

    /// The pack that stands in `bytes`.
    ///
    /// # Errors
    /// [`PreloadError::NotAPack`], which says why; [`PreloadError::Version`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PreloadError> {
        let header = Header::read(bytes)?;
        let (files, rest) = bytes[HEADER_BYTES..].split_at(header.files * FILE_BYTES);
        let (extents, paths) = rest.split_at(header.extents * EXTENT_BYTES);
        let files = read_files(files, paths)?;
        let extents: Vec<Extent> = extents.chunks_exact(EXTENT_BYTES).map(extent).collect();
        for found in &extents {
            check_extent(found, &files)?;
        }
        Ok(Self {
            any_inode: header.flags & ANY_INODE != 0,
            files,
            extents,
        })
    }
}

/// The header of a pack whose parts sum up and whose checksum is right.
struct Header {
    flags: u32,
    files: usize,
    extents: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, PreloadError> {
        if bytes.len() < HEADER_BYTES {
            return refuse(format!(
                "it has {} bytes, a header alone has {HEADER_BYTES}",
                bytes.len()
            ));
        }
        if bytes[..8] != MAGIC {
            return refuse("it does not begin as one does".to_owned());
        }
        let found = u32_at(bytes, 8);
        if found != VERSION {
            return Err(PreloadError::Version {
                found,
                known: VERSION,
            });
        }
        let page = u64::from(u32_at(bytes, 36));
        if page != PAGE_BYTES {
            return refuse(format!("its pages have {page} bytes, not {PAGE_BYTES}"));
        }
        let count = |at, limit| {
            let found = u32_at(bytes, at) as usize;
            match found <= limit {
                true => Ok(found),
                false => refuse(format!(
                    "it claims {found} entries at offset {at}; {limit} are possible"
                )),
            }
        };
        let files = count(24, FILES_MAX)?;
        let extents = count(28, EXTENTS_MAX)?;
        let paths = count(32, PATHS_MAX_BYTES)?;
        // Fits: the limits keep the sum under 32 MiB.
        let sum = HEADER_BYTES + files * FILE_BYTES + extents * EXTENT_BYTES + paths;
        let claimed = u32_at(bytes, 16) as usize;
        if claimed != sum || claimed != bytes.len() {
            return refuse(format!(
                "its parts sum up to {sum} bytes, its header says {claimed}, and it has {}: it was cut or damaged",
                bytes.len()
            ));
        }
        let (checksum, expected) = (crc32c::crc32c(&bytes[CHECKED_FROM..]), u32_at(bytes, 12));
        if checksum != expected {
            return refuse(format!(
                "its checksum is {checksum:#010x}, not {expected:#010x}: it was damaged"
            ));
        }
        Ok(Self {
            flags: u32_at(bytes, 20),
            files,
            extents,
        })
    }
}

/// Paths stand one behind the other: where each begins is known from those before it.
fn read_files(records: &[u8], paths: &[u8]) -> Result<Vec<PackFile>, PreloadError> {
    let mut files = Vec::new();
    let mut at = 0;
    for record in records.chunks_exact(FILE_BYTES) {
        let (begins, bytes) = (u32_at(record, 24) as usize, u32_at(record, 28) as usize);
        let path = begins
            .checked_add(bytes)
            .filter(|end| begins == at && paths.get(*end) == Some(&0))
            .map(|end| &paths[at..end]);
        let number = files.len();
        let Some(path) = path else {
            return refuse(format!("the path of file {number} is not where it must be"));
        };
        if let Err(why) = check_path(path) {
            return refuse(format!("the path of file {number} {why}"));
        }
        at += bytes + 1;
        files.push(PackFile {
            path: PathBuf::from(OsStr::from_bytes(path)),
            size: u64_at(record, 0),
            mtime_ns: u64_at(record, 8).cast_signed(),
            inode: u64_at(record, 16),
        });
    }
    if at != paths.len() {
        return refuse(format!(
            "{} bytes behind the last path belong to none",
            paths.len() - at
        ));
    }
    Ok(files)
}

fn check_path(path: &[u8]) -> Result<(), &'static str> {
    match path {
        [b'/', ..] if path.len() > PATH_MAX_BYTES => Err("is too long"),
        [b'/', ..] if path.contains(&0) => Err("has a zero byte inside"),
        [b'/', ..] => Ok(()),
        _ => Err("is not absolute"),
    }
}

fn check_extent(extent: &Extent, files: &[PackFile]) -> Result<(), PreloadError> {
    let Some(file) = files.get(extent.file as usize) else {
        return refuse(format!(
            "an extent is of file {}, and there are {}",
            extent.file,
            files.len()
        ));
    };
    let end = u64::from(extent.first_page) + u64::from(extent.pages);
    if extent.pages == 0 || end > file.size.div_ceil(PAGE_BYTES) {
        return refuse(format!(
            "pages {} to {end} are not in {} of {} bytes",
            extent.first_page,
            escaped(&file.path),
            file.size
        ));
    }
    Ok(())
}

fn check_count(what: &'static str, found: usize, limit: usize) -> Result<(), PreloadError> {
    if found <= limit {
        return Ok(());
    }
    Err(PreloadError::TooLarge {
        what,
        found: found as u64,
        limit: limit as u64,
    })
}

fn extent(record: &[u8]) -> Extent {
    Extent {
        file: u32_at(record, 0),
        first_page: u32_at(record, 4),
        pages: u32_at(record, 8),
    }
}

/// Of what was checked against a limit below 4 GiB.
fn word(value: usize) -> [u8; 4] {
    (value as u32).to_le_bytes()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut cell = [0; 8];
    cell.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(cell)
}

fn refuse<T>(why: String) -> Result<T, PreloadError> {
    Err(PreloadError::NotAPack(why))
}
