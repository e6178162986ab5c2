//! System calls by which `hythe doctor` finds out what this machine can do.
//!
//! Each tries one thing for real and leaves nothing behind: what it opens is closed, what it maps
//! unmapped. Nothing here decides what an answer means, and nothing on a data path calls it.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use crate::file_pages::FilePages;

/// Creates an io_uring of one entry and closes it.
///
/// # Errors
///
/// What `io_uring_setup` returns: not compiled in, forbidden by `kernel.io_uring_disabled` or by a
/// filter of system calls.
pub fn try_io_uring() -> io::Result<()> {
    /// `struct io_uring_params`, 120 bytes in every version; zeros ask for the defaults.
    #[repr(C, align(8))]
    struct Parameters([u8; 120]);
    let mut parameters = Parameters([0; 120]);
    // SAFETY: `parameters` has the size and alignment of the structure that the kernel reads and
    // writes, any bytes are a valid value of it, and the kernel keeps no pointer.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, &raw mut parameters) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    drop(unsafe { OwnedFd::from_raw_fd(result as i32) });
    Ok(())
}

/// How many pages of the first `bytes` bytes of `file` are in the page cache.
///
/// # Errors
///
/// What `mmap` or `mincore` return; an empty range.
pub fn resident_pages(file: impl AsFd, bytes: usize) -> io::Result<usize> {
    let resident = FilePages::map(file, 0, bytes)?.resident()?;
    Ok(resident.iter().filter(|page| **page).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::param::page_size;
    use std::io::Write;

    #[test]
    fn pages_just_written_are_resident() {
        let path = std::env::temp_dir().join(format!("hythe-resident-{}", std::process::id()));
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&vec![1; 3 * page_size()]).unwrap();
        assert_eq!(resident_pages(&file, 3 * page_size()).unwrap(), 3);
        assert!(resident_pages(&file, 0).is_err());
    }
}
