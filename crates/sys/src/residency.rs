//! Which pages of a file are in memory: `mincore`.
//!
//! The storage hop calls it, to find out what was needed and what was used. Asking loads no page, and what is mapped for it is
//! unmapped again. Never says who put a page there.

#![allow(
    unsafe_code,
    reason = "this is the island: a mapping that is made to be asked about"
)]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

/// Mapped at a time: little enough for the addresses of a 32-bit process, a whole number of pages of every machine.
const WINDOW_BYTES: u64 = 64 << 20;

/// Ranges of bytes in memory, each of whole pages of this machine, ascending and apart; the last may reach beyond `bytes`.
///
/// # Errors
/// What `mmap` and `mincore` say. The kernel tells the truth (since Linux 5.2) only to the file's owner, to who may write it, or
/// to root: others are told that all pages are there.
pub fn resident_ranges(file: impl AsFd, bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let page = page_size() as u64;
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut begin = 0;
    while begin < bytes {
        let window = WINDOW_BYTES.min(bytes - begin);
        // Within 64 MiB.
        for (index, _) in residency(file.as_fd(), begin, window as usize)?
            .iter()
            .enumerate()
            .filter(|(_, flags)| **flags & 1 == 1)
        {
            let first = begin + index as u64 * page;
            match ranges.last_mut() {
                Some(last) if last.end == first => last.end = first + page,
                _ => ranges.push(first..first + page),
            }
        }
        begin += window;
    }
    Ok(ranges)
}

/// One byte for each page of the window; its lowest bit says whether the page is in memory.
fn residency(file: impl AsFd, begin: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut residency = vec![0_u8; bytes.div_ceil(page_size())];
    // SAFETY: no address is asked for, so the kernel picks one where nothing is mapped.
    let address = unsafe {
        mmap(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            begin,
        )?
    };
    // SAFETY: `address` is the start of a mapping of `bytes` bytes, and `residency` has room for one byte per page of it. The
    // mapping is never read through.
    let result = unsafe { libc::mincore(address, bytes, residency.as_mut_ptr().cast()) };
    let asked = if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    };
    // SAFETY: exactly the mapping made above, to which no reference exists.
    unsafe { munmap(address, bytes)? };
    asked.map(|()| residency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn pages_just_written_are_in_memory_and_holes_are_not() {
        let path = std::env::temp_dir().join(format!("hythe-residency-{}", std::process::id()));
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        let page = page_size() as u64;
        // On both sides of a window's edge, and in the last page, which is not whole.
        let bytes = WINDOW_BYTES + 9 * page + 1;
        file.set_len(bytes).unwrap();
        for at in [
            0,
            WINDOW_BYTES - page,
            WINDOW_BYTES,
            WINDOW_BYTES + 9 * page,
        ] {
            file.write_all_at(b"x", at).unwrap();
        }
        let expected = [
            0..page,
            WINDOW_BYTES - page..WINDOW_BYTES + page,
            WINDOW_BYTES + 9 * page..WINDOW_BYTES + 10 * page,
        ];
        assert_eq!(resident_ranges(&file, bytes).unwrap(), expected);
        assert!(resident_ranges(&file, 0).unwrap().is_empty());
    }
}
