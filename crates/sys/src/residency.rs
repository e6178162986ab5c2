//! Which pages of a file are in memory, and which have been: `mincore` and `cachestat`.
//!
//! The storage hop calls it, to find out what was needed and what was used. Asking loads no page,
//! and what is mapped for it is unmapped again. Never says who put a page there.

#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use rustix::param::page_size;

use crate::file_pages::FilePages;

/// Mapped at a time: little enough for the addresses of a 32-bit process, a whole number of pages
/// of every machine.
const WINDOW_BYTES: u64 = 64 << 20;

/// Ranges of bytes in memory, each of whole pages of this machine, ascending and apart; the last
/// may reach beyond `bytes`.
///
/// # Errors
/// What `mmap` and `mincore` say. The kernel tells the truth (since Linux 5.2) only to the file's
/// owner, to who may write it, or to root: others are told that all pages are there.
pub fn resident_ranges(file: impl AsFd, bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let page = page_size() as u64;
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut begin = 0;
    while begin < bytes {
        let window = WINDOW_BYTES.min(bytes - begin);
        // Within 64 MiB.
        let resident = FilePages::map(file.as_fd(), begin, window as usize)?.resident()?;
        for (index, _) in resident.iter().enumerate().filter(|(_, is)| **is) {
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

/// System call `cachestat` of Linux 6.5: the same number on every architecture that Rust knows.
const CACHESTAT: libc::c_long = 451;

/// What the kernel knows about the pages of a range; `struct cachestat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CacheState {
    /// In memory.
    pub cached: u64,
    /// Of those: not written yet.
    pub dirty: u64,
    /// Of those: being written.
    pub writeback: u64,
    /// Have been in memory, and the kernel threw them out for want of room. Those that were dropped
    /// on request do not count.
    pub evicted: u64,
    /// Of those: lately.
    pub recently_evicted: u64,
}

/// Counts the pages of a range of bytes.
///
/// # Errors
/// Not implemented before Linux 6.5; not permitted for files that one neither owns nor may write.
pub fn cache_state(file: impl AsFd, range: Range<u64>) -> io::Result<CacheState> {
    // `struct cachestat_range`: offset and length, where a length of 0 would mean all that follows.
    let asked = [range.start, range.end.saturating_sub(range.start)];
    let mut state = CacheState::default();
    if asked[1] == 0 {
        return Ok(state);
    }
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: both pointers lead to structures of the layout and size that the kernel reads and
    // writes, which live through the call; it keeps neither.
    let result = unsafe { libc::syscall(CACHESTAT, descriptor, asked.as_ptr(), &raw mut state, 0) };
    if result == 0 {
        Ok(state)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Ranges of bytes that have been in memory and were thrown out for want of room, ascending; whole
/// pages, the last may reach beyond `bytes`. The kernel forgets the oldest.
///
/// # Errors
/// As [`cache_state`].
pub fn evicted_ranges(file: impl AsFd, bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let page = page_size() as u64;
    let mut found: Vec<Range<u64>> = Vec::new();
    // What is left to be looked at, the next last. Halved again and again, it is at most 64 ranges
    // long.
    let whole = 0..bytes.div_ceil(page);
    let mut left = vec![whole];
    while let Some(pages) = left.pop() {
        let range = pages.start * page..pages.end * page;
        let evicted = cache_state(file.as_fd(), range.clone())?.evicted;
        let count = pages.end - pages.start;
        if evicted == 0 {
            continue;
        }
        if evicted < count && count > 1 {
            let middle = pages.start + count / 2;
            left.extend([middle..pages.end, pages.start..middle]);
            continue;
        }
        match found.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => found.push(range),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_testing::eventually;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::os::unix::fs::FileExt;
    use std::ptr;

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

    /// Throws pages of a file on storage out as the kernel does when it needs room.
    fn page_out(file: &std::fs::File, pages: Range<u64>) {
        let page = page_size() as u64;
        let bytes = ((pages.end - pages.start) * page) as usize;
        let at = pages.start * page;
        // SAFETY: no address is asked for, so the kernel picks one where nothing is mapped.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                at,
            )
        }
        .unwrap();
        // Only pages that are mapped are thrown out.
        for index in 0..(pages.end - pages.start) as usize {
            // SAFETY: within the mapping made above, of a file that nobody else has.
            let byte = unsafe { address.cast::<u8>().byte_add(index * page_size()) };
            // SAFETY: as above; it has a byte of the file behind it.
            unsafe { ptr::read_volatile(byte) };
        }
        // SAFETY: exactly the mapping made above; what is thrown out is read again when it is
        // needed.
        let advised = unsafe { libc::madvise(address, bytes, libc::MADV_PAGEOUT) };
        // SAFETY: exactly the mapping made above, to which no reference exists.
        unsafe { munmap(address, bytes) }.unwrap();
        assert_eq!(advised, 0);
    }

    #[test]
    fn evicted_pages_differ_from_pages_never_cached() {
        let page = page_size() as u64;
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let path = format!("{directory}/.evicted-{}", std::process::id());
        let written = vec![1; 64 * page_size()];
        let made = std::fs::File::create_new(&path);
        let Ok(mut file) = made else {
            return println!("skipped: {path} cannot be made");
        };
        let _ = std::io::Write::write_all(&mut file, &written).and_then(|()| file.sync_all());
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        if let Err(error) = cache_state(&file, 0..page) {
            return println!("skipped: no cachestat here: {error}");
        }
        // A file in memory has nowhere to be thrown out to.
        if cache_state(&file, 0..64 * page).unwrap().cached > 0 {
            return println!("skipped: {directory} is not on storage");
        }
        assert!(evicted_ranges(&file, 64 * page).unwrap().is_empty());
        // No read-ahead: what was not asked for was never there.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
        for at in [3, 4, 5, 20, 63] {
            file.read_exact_at(&mut [0], at * page).unwrap();
        }
        // Of a file on overlayfs the kernel counts what is cached of the one below, not of it.
        if cache_state(&file, 0..64 * page).unwrap().cached == 0 {
            return println!("skipped: the page cache of {directory} cannot be asked for");
        }
        let wanted = [3 * page..6 * page, 63 * page..64 * page];
        // The kernel may keep a page that it is busy with: it is asked again.
        eventually("the kernel evicts the pages", || {
            page_out(&file, 3..6);
            page_out(&file, 63..64);
            let evicted = evicted_ranges(&file, 64 * page - 1).unwrap();
            // It may need memory itself, and throw page 20 out.
            let others = evicted.into_iter();
            let ours: Vec<_> = others.filter(|range| range.start != 20 * page).collect();
            ours == wanted
        });
    }
}
