//! The files that hold slots: in the pool's directory, or on a hugetlbfs mount, of which
//! `region.N.at` names the file. Region 0 and that for network cards can be there.
//!
//! Who may not write a region gets it mapped for reading. Called when a pool is made, opened and
//! removed; never on a data path.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hythe_abi::RegionIndex;
use hythe_abi::pool::REGIONS_MAX;
use hythe_memory::{Access, Mapped};
use hythe_pool::{PoolError, RegionGeometry};
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::file;
use crate::pool::directory::{self, open_file, refused};
use crate::{NodeError, PoolOptions};

/// `f_type` of hugetlbfs (linux/magic.h).
const HUGETLBFS: u64 = 0x9584_58F6;
/// `f_type` of tmpfs (linux/magic.h).
const TMPFS: u64 = 0x0102_1994;
/// What stands in front of the names of files on a hugetlbfs mount: nothing else there is ever
/// removed.
const PREFIX: &str = "hythe.";
const PATH_MAX: u64 = 4096;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// The file that says where a region is instead.
fn record_of(region: RegionIndex) -> String {
    format!("region.{}.at", region.0)
}

/// Makes `region.0`, with its space reserved.
pub(crate) fn make(
    directory: &OwnedFd,
    bytes: u64,
    options: &PoolOptions,
) -> Result<(), NodeError> {
    match &options.huge_pages {
        None => directory::make_file(directory, "region.0", bytes, options).map(drop),
        Some(mount) => make_huge(directory, RegionIndex(0), mount, (bytes, options)),
    }
}

/// The hugetlbfs mount where region 0 is, if it is on one: further regions are made there, too.
pub(crate) fn huge_mount(
    directory: &OwnedFd,
    options: &PoolOptions,
) -> Result<Option<PathBuf>, NodeError> {
    if !has_record(directory, RegionIndex(0)) {
        return Ok(None);
    }
    let path = elsewhere(directory, RegionIndex(0), options)?;
    Ok(path.parent().map(Path::to_owned))
}

fn has_record(directory: &OwnedFd, region: RegionIndex) -> bool {
    fs::statat(directory, record_of(region), AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// First the record, then the file: so that whoever dies in between leaves nothing that nobody
/// knows of.
pub(crate) fn make_huge(
    directory: &OwnedFd,
    region: RegionIndex,
    mount: &Path,
    (bytes, options): (u64, &PoolOptions),
) -> Result<(), NodeError> {
    let mount = std::fs::canonicalize(mount).map_err(|error| refused("find", mount, error))?;
    let opened = open_mount(&mount)?;
    let page_bytes = page_bytes(&opened, &mount)?;
    let usual = format!("region.{}", region.0);
    let name = format!("{PREFIX}{:016x}.{usual}", directory::random());
    let path = mount.join(&name);
    let at = record_of(region);
    let record = directory::make_file(directory, &at, 1, options)?;
    File::from(record)
        .write_all(path.as_os_str().as_bytes())
        .map_err(file("write", options.path().join(at)))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = fs::openat(&opened, &name, flags, Mode::from_raw_mode(0o600))
        .map_err(|error| refused("make", &path, error.into()))?;
    directory::set_access(&made, options.file_mode(&usual), options, &path)?;
    let pages = bytes.div_ceil(page_bytes);
    let flags = fs::FallocateFlags::empty();
    let reserve = || fs::fallocate(&made, flags, 0, pages * page_bytes);
    match rustix::io::retry_on_intr(reserve) {
        Ok(()) => Ok(()),
        Err(Errno::NOSPC | Errno::NOMEM) => Err(no_pages(mount, pages, page_bytes)),
        Err(error) => Err(file("reserve", path)(error.into())),
    }
}

fn open_mount(mount: &Path) -> Result<OwnedFd, NodeError> {
    fs::openat(CWD, mount, DIRECTORY, Mode::empty())
        .map_err(|error| refused("open", mount, error.into()))
}

/// The size of its pages, if it is a hugetlbfs mount.
fn page_bytes(opened: &OwnedFd, mount: &Path) -> Result<u64, NodeError> {
    let found = fs::fstatfs(opened).map_err(|error| file("look at", mount)(error.into()))?;
    if found.f_type as u64 & 0xFFFF_FFFF == HUGETLBFS {
        return Ok((found.f_bsize as u64).max(1));
    }
    let reason = "it is not a hugetlbfs mount (`mount -t hugetlbfs none DIRECTORY` makes one)";
    Err(NodeError::Unsafe {
        path: mount.to_owned(),
        reason: reason.to_owned(),
    })
}

fn no_pages(mount: PathBuf, needed: u64, page_bytes: u64) -> NodeError {
    let page_kib = page_bytes / 1024;
    let counter = |name| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{page_kib}kB/{name}");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    NodeError::NoHugePages {
        mount,
        needed,
        free: counter("free_hugepages"),
        total: counter("nr_hugepages"),
        page_kib,
    }
}

/// Maps the slots of a region: for writing if permission goes that far, else for reading.
pub(crate) fn map(
    directory: &OwnedFd,
    region: &RegionGeometry,
    options: &PoolOptions,
) -> Result<Mapped, NodeError> {
    let ((file, bytes, path), access) = open_as_permitted(directory, region, options)?;
    // Of huge pages only whole ones are mapped.
    let found =
        fs::fstat(&file).map_err(|error| crate::error::file("look at", &path)(error.into()))?;
    let block = u64::try_from(found.st_blksize).unwrap_or(1).max(1);
    let wanted = region.bytes.next_multiple_of(block).min(bytes);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    Mapped::file(&file, 0, wanted, access).map_err(crate::error::map(path, wanted))
}

type Opened = (OwnedFd, u64, PathBuf);

/// Opens the file of a region, whole: for writing if permission goes that far, else for reading.
pub(crate) fn open_as_permitted(
    directory: &OwnedFd,
    region: &RegionGeometry,
    options: &PoolOptions,
) -> Result<(Opened, Access), NodeError> {
    let found = match open(directory, region.index, true, options) {
        Err(NodeError::Permission { .. }) => {
            (open(directory, region.index, false, options)?, Access::Read)
        }
        opened => (opened?, Access::Write),
    };
    let bytes = found.0.1;
    if bytes < region.bytes {
        let why = format!(
            "region.{} has {bytes} bytes and needs {}: the file was cut",
            region.index.0, region.bytes
        );
        return Err(PoolError::NotAPool(why).into());
    }
    Ok(found)
}

pub(crate) fn open(
    directory: &OwnedFd,
    region: RegionIndex,
    writable: bool,
    options: &PoolOptions,
) -> Result<Opened, NodeError> {
    let name = format!("region.{}", region.0);
    match open_file(directory, &name, writable, options) {
        Ok((file, bytes)) => Ok((file, bytes, options.path().join(name))),
        Err(NodeError::File { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound && has_record(directory, region) =>
        {
            let path = elsewhere(directory, region, options)?;
            let parent = path.parent().unwrap_or(Path::new("/"));
            let mount = open_mount(parent)?;
            page_bytes(&mount, parent)?;
            let name = path.file_name().unwrap_or_default();
            let (file, bytes) = directory::open_checked(&mount, name, &path, writable, options)?;
            Ok((file, bytes, path))
        }
        Err(error) => Err(error),
    }
}

/// Where the region is, as the record says; on the mount of the options if they name one:
/// containers mount things elsewhere.
fn elsewhere(
    directory: &OwnedFd,
    region: RegionIndex,
    options: &PoolOptions,
) -> Result<PathBuf, NodeError> {
    let found = recorded(directory, region, options)?;
    let name = found.file_name().filter(|name| is_ours(name));
    let Some(name) = name.filter(|_| found.is_absolute()) else {
        let reason = "it does not name a file of a pool on a hugetlbfs mount".to_owned();
        let path = options.path().join(record_of(region));
        return Err(NodeError::Unsafe { path, reason });
    };
    Ok(match &options.huge_pages {
        Some(mount) => mount.join(name),
        None => found.clone(),
    })
}

/// What the record says.
fn recorded(
    directory: &OwnedFd,
    region: RegionIndex,
    options: &PoolOptions,
) -> Result<PathBuf, NodeError> {
    let at = record_of(region);
    let (record, _) = open_file(directory, &at, false, options)?;
    let mut bytes = Vec::new();
    File::from(record)
        .take(PATH_MAX)
        .read_to_end(&mut bytes)
        .map_err(file("read", options.path().join(at)))?;
    Ok(PathBuf::from(OsStr::from_bytes(&bytes)))
}

/// Did whoever made the record get no further? It is empty then, or reserved and not written, and
/// the file that it was to name was not made.
fn names_nothing(path: &Path) -> bool {
    path.as_os_str().as_bytes().iter().all(|&byte| byte == 0)
}

fn is_ours(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}

/// Where the memory of a region is, for messages.
pub(crate) fn path_of(directory: &OwnedFd, region: RegionIndex, options: &PoolOptions) -> PathBuf {
    let usual = format!("region.{}", region.0);
    let here = options.path().join(&usual);
    match fs::statat(directory, usual, AtFlags::SYMLINK_NOFOLLOW) {
        Err(_) => elsewhere(directory, region, options).unwrap_or(here),
        Ok(_) => here,
    }
}

/// Removes what is not in the directory itself. False: it is still there, and so must its record
/// be.
///
/// The record is the word of the pool's owner, whoever removes: so only a file of that owner is
/// removed, with the name of a pool's file, on a hugetlbfs mount.
pub(crate) fn remove_elsewhere(directory: &OwnedFd, options: &PoolOptions) -> bool {
    let regions = (0..REGIONS_MAX).map(|index| RegionIndex(index as u8));
    // Each, also behind one that cannot be removed.
    let left = regions.filter(|&region| !remove_one_elsewhere(directory, region, options));
    left.count() == 0
}

/// As [`remove_elsewhere`], of one region.
pub(crate) fn remove_one_elsewhere(
    directory: &OwnedFd,
    region: RegionIndex,
    options: &PoolOptions,
) -> bool {
    if !has_record(directory, region) {
        return true;
    }
    let remove = || -> Result<(), NodeError> {
        if names_nothing(&recorded(directory, region, options)?) {
            return Ok(());
        }
        let path = elsewhere(directory, region, options)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        let mount = open_mount(parent)?;
        page_bytes(&mount, parent)?;
        let found = match fs::statat(&mount, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            found => found.map_err(|error| refused("look at", &path, error.into()))?,
        };
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !is_file || found.st_uid != options.owner {
            let reason = format!("it is not a file of user {}", options.owner);
            return Err(NodeError::Unsafe { path, reason });
        }
        fs::unlinkat(&mount, name, AtFlags::empty())
            .map_err(|error| refused("remove", &path, error.into()))
    };
    match remove() {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(%error, "a region on huge pages is left behind");
            false
        }
    }
}

/// Is an open file or directory of a tmpfs?
pub(crate) fn is_on_tmpfs(opened: &OwnedFd) -> Result<bool, Errno> {
    Ok(fs::fstatfs(opened)?.f_type as u64 & 0xFFFF_FFFF == TMPFS)
}

/// Refuses a file whose pages cannot be taken out slot by slot.
///
/// Where one page of the file system holds bytes of two slots, it stays when one of them is punched
/// out, and is only written with zeroes, while the stack may be sending from it: so with huge
/// pages, and in the page cache of a disk. Whoever maps a region for writing could have its pages
/// joined to huge ones (`MADV_COLLAPSE`), but might as well write nonsense there.
pub(crate) fn check_pages(opened: &OwnedFd, path: &Path, slot_bytes: u32) -> Result<(), NodeError> {
    let unsafe_to_use = |reason| NodeError::Unsafe {
        path: path.to_owned(),
        reason,
    };
    if !is_on_tmpfs(opened).map_err(|error| file("look at", path)(error.into()))? {
        let reason = "packets are sent without a copy from a tmpfs only; make the pool in /dev/shm";
        return Err(unsafe_to_use(reason.to_owned()));
    }
    let found = fs::fstat(opened).map_err(|error| file("look at", path)(error.into()))?;
    // As large as a huge page, if the mount gives any.
    let page_bytes = u64::try_from(found.st_blksize).unwrap_or(1).max(1);
    if !u64::from(slot_bytes).is_multiple_of(page_bytes) {
        return Err(unsafe_to_use(format!(
            "its file system has pages of {page_bytes} bytes, and slots of {slot_bytes} would share them; mount it without `huge=`"
        )));
    }
    Ok(())
}
