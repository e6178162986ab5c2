//! Asking the kernel for pages of a file before they are needed, and where a file lies on its
//! device.
//!
//! The storage hop calls it. [`read_ahead`] only asks: whether anything comes is for the caller to
//! see. Never reads a file's bytes, never changes one.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// A stretch of a file, and where its device keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalExtent {
    /// First byte in the file.
    pub logical: u64,
    /// First byte on the device.
    pub physical: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What `readahead(2)` does: puts reads of this range into the queue of the device.
///
/// The kernel cuts one call off at the greater of the device's window and largest request; it may
/// block where the queue is full.
///
/// # Errors
///
/// What `readahead` returns: not a file whose pages are kept in memory.
pub fn read_ahead(file: impl AsFd, offset: u64, bytes: usize) -> io::Result<()> {
    let offset = libc::off64_t::try_from(offset).map_err(io::Error::other)?;
    // SAFETY: no pointers: a descriptor that is open while borrowed, and numbers.
    let result = unsafe { libc::readahead(file.as_fd().as_raw_fd(), offset, bytes) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
/// As `include/uapi/linux/fiemap.h` numbers them.
const FIEMAP_EXTENT_LAST: u32 = 0x1;
/// The address is not known, or has no meaning: not yet placed, or packed with other data.
const FIEMAP_EXTENT_NO_ADDRESS: u32 = 0x2 | 0x4 | 0x200 | 0x400;
/// Extents that one call returns.
const ROOM: usize = 64;
/// Calls for one file: a file in more pieces than 16,384 has no order worth knowing.
const CALLS_MAX: usize = 256;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_words: [u32; 3],
}

/// `struct fiemap`, with room for its extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; ROOM],
}

// The number of the call holds the size of the head, and the kernel writes extents of this size
// behind it.
const _: () = assert!(size_of::<FiemapExtent>() == 56);
const _: () = assert!(size_of::<Fiemap>() == 32 + ROOM * 56);

/// Where `file` lies on its device, in ascending order. Holes, and what has no address, are left
/// out.
///
/// # Errors
///
/// What `FS_IOC_FIEMAP` returns: most often that the file system keeps no such map (`EOPNOTSUPP`,
/// `ENOTTY`).
pub fn physical_extents(file: impl AsFd) -> io::Result<Vec<PhysicalExtent>> {
    let mut found = Vec::new();
    let mut start = 0;
    for _call in 0..CALLS_MAX {
        let map = fiemap(&file, start)?;
        let mapped = map.extents.iter().take(map.mapped_extents as usize);
        let mut last = true;
        for extent in mapped {
            last = extent.flags & FIEMAP_EXTENT_LAST != 0;
            start = extent.logical.saturating_add(extent.length);
            if extent.flags & FIEMAP_EXTENT_NO_ADDRESS == 0 {
                found.push(PhysicalExtent {
                    logical: extent.logical,
                    physical: extent.physical,
                    bytes: extent.length,
                });
            }
        }
        if last {
            break;
        }
    }
    Ok(found)
}

fn fiemap(file: impl AsFd, start: u64) -> io::Result<Fiemap> {
    let mut map = Fiemap {
        start,
        length: u64::MAX - start,
        flags: 0,
        mapped_extents: 0,
        extent_count: ROOM as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); ROOM],
    };
    // SAFETY: `map` is the structure that this call reads and writes, with room for the extents
    // that it announces; the kernel keeps no pointer, and any bytes are a valid value of it.
    let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
    if result == 0 {
        Ok(map)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: usize) -> std::fs::File {
        let path =
            std::env::temp_dir().join(format!("hythe-read-ahead-{}-{bytes}", std::process::id()));
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&vec![1; bytes]).unwrap();
        file.sync_all().unwrap();
        file
    }

    #[test]
    fn file_may_be_asked_for_and_a_pipe_may_not() {
        read_ahead(file(8192), 0, 8192).unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        assert!(read_ahead(reader, 0, 8192).is_err());
    }

    #[test]
    fn extents_cover_a_file_in_order_where_there_is_a_map() {
        let bytes = 3 << 20;
        match physical_extents(file(bytes)) {
            Ok(extents) => {
                let covered: u64 = extents.iter().map(|extent| extent.bytes).sum();
                assert!(covered >= bytes as u64, "{extents:?}");
                assert!(extents.is_sorted_by_key(|extent| extent.logical));
            }
            Err(error) => println!("SKIPPED: the temporary directory has no map: {error}"),
        }
        let (reader, _writer) = io::pipe().unwrap();
        assert!(physical_extents(reader).is_err());
    }
}
