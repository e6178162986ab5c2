//! A range of a file as pages of the page cache: which are there, bringing one there, and which
//! frame it is in.
//!
//! The storage hop calls it. A [`FilePages`] maps the range without ever reading through the
//! mapping, so that a file which shrinks under it costs an error and not a SIGBUS: a page is
//! fetched by letting the kernel copy one byte out of it ([`FilePages::fetch`]). Unlike `read(2)`
//! and `MADV_POPULATE_READ`, neither that nor unmapping marks a page as used, so that whoever asks
//! later sees only what others did. Never changes a page, never maps one writable.
#![allow(
    unsafe_code,
    reason = "this crate is the island for system calls that rustix does not have"
)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::param::page_size;

/// A mapped range of a file.
#[derive(Debug)]
pub struct FilePages {
    address: *mut c_void,
    bytes: usize,
}

impl FilePages {
    /// Maps `bytes` bytes of `file` from `offset`, which is a multiple of the page size.
    ///
    /// # Errors
    ///
    /// What `mmap` returns: an empty range, an offset inside a page, a file that cannot be mapped.
    pub fn map(file: impl AsFd, offset: u64, bytes: usize) -> io::Result<Self> {
        // The call of 32-bit machines counts in units of 4 KiB, so that the kernel never sees the
        // rest.
        if !offset.is_multiple_of(page_size() as u64) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: no address is asked for, so the kernel picks one where nothing is mapped.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::PRIVATE,
                file,
                offset,
            )?
        };
        let pages = Self { address, bytes };
        // Nothing around a page that is fetched: the list says what is needed.
        pages.advise(Advice::Random)?;
        Ok(pages)
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: exactly the mapping that this value owns; both pieces of advice in use leave its
        // contents as they are.
        unsafe { madvise(self.address, self.bytes, advice)? };
        Ok(())
    }

    /// Pages of the machine that the range has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.bytes.div_ceil(page_size())
    }

    /// The number of its first page in the address space: where `/proc/self/pagemap` has its
    /// entries.
    #[must_use]
    pub fn first_virtual_page(&self) -> usize {
        self.address.addr() / page_size()
    }

    /// For each page whether it is in the page cache, whole.
    ///
    /// To whoever neither owns the file nor may write it, the kernel answers that all are.
    ///
    /// # Errors
    ///
    /// What `mincore` returns.
    pub fn resident(&self) -> io::Result<Vec<bool>> {
        let mut residency = vec![0_u8; self.count()];
        // SAFETY: the mapping that this value owns, and `residency` has room for one byte per page
        // of it.
        let result =
            unsafe { libc::mincore(self.address, self.bytes, residency.as_mut_ptr().cast()) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(residency.iter().map(|page| page & 1 == 1).collect())
    }

    /// Waits until page `index` of the range is in the page cache and in the table of this process,
    /// and reads it where nobody has asked for it.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the file has no such page any more, or its storage cannot be read. `EINVAL`: the
    /// range has no such page.
    pub fn fetch(&self, index: usize, sink: &Sink) -> io::Result<()> {
        if index >= self.count() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let page = self.address.wrapping_byte_add(index * page_size());
        // SAFETY: the kernel reads one byte at an address inside the mapping that this value owns,
        // and answers with an error where none is behind it. Nothing in this process reads or
        // writes there.
        let written = unsafe { libc::pwrite(sink.0.as_raw_fd(), page, 1, 0) };
        if written == 1 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for FilePages {
    fn drop(&mut self) {
        // Kernels before 6.3 mark the pages of a mapping as used when it ends, unless it was read
        // in sequence.
        let _ = self.advise(Advice::Sequential);
        // SAFETY: exactly the mapping made in `map`, to which no reference exists.
        let _ = unsafe { munmap(self.address, self.bytes) };
    }
}

/// Where the one byte of a page goes. One for each thread: the kernel lets only one write into it
/// at a time.
#[derive(Debug)]
pub struct Sink(File);

impl Sink {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// What `memfd_create` returns: a kernel without it.
    pub fn new() -> io::Result<Self> {
        let file = memfd_create(c"hythe-preload-sink", MemfdFlags::CLOEXEC)?;
        Ok(Self(file.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(pages: usize, name: &str) -> File {
        let path =
            std::env::temp_dir().join(format!("hythe-file-pages-{}-{name}", std::process::id()));
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(&vec![1; pages * page_size()]).unwrap();
        file
    }

    #[test]
    fn pages_just_written_are_there() {
        let file = file(3, "there");
        let pages = FilePages::map(&file, page_size() as u64, 2 * page_size()).unwrap();
        assert_eq!(pages.resident().unwrap(), [true, true]);
        let sink = Sink::new().unwrap();
        pages.fetch(1, &sink).unwrap();
        pages.fetch(2, &sink).unwrap_err();
    }

    #[test]
    fn page_that_was_cut_off_is_an_error() {
        let file = file(3, "cut");
        let pages = FilePages::map(&file, 0, 3 * page_size()).unwrap();
        file.set_len(page_size() as u64).unwrap();
        let sink = Sink::new().unwrap();
        pages.fetch(0, &sink).unwrap();
        let error = pages.fetch(1, &sink).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn nothing_and_half_pages_are_refused() {
        let file = file(1, "refused");
        FilePages::map(&file, 0, 0).unwrap_err();
        FilePages::map(&file, 1, 1).unwrap_err();
    }
}
