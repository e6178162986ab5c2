//! Memory that a network card reads and writes: chunks of 4,096 bytes in one file.
//!
//! The file has no name and keeps its size, so nobody can cut it away; it is never punched, since
//! the card keeps the pages that it was given. What holds between calls: every page has memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use hythe_memory::{Access, Mapped, Placed};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fcntl_add_seals};

/// Bytes of a chunk, the most that the kernel takes.
pub const CHUNK_BYTES: usize = 4096;
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// A region, of whoever registers it with the kernel.
#[derive(Debug)]
pub struct Region {
    file: OwnedFd,
    placed: Placed,
    own_bytes: usize,
}

/// A file whose first bytes are behind the chunks of a region.
#[derive(Clone, Copy, Debug)]
pub struct OtherFile<'a> {
    /// To be mapped for writing.
    pub file: BorrowedFd<'a>,
    /// How many bytes of it: whole pages.
    pub bytes: usize,
    /// Size of its pages: a power of two, of a chunk at least.
    pub page_bytes: usize,
}

impl Region {
    /// Makes a region of so many chunks, each with memory.
    ///
    /// # Errors
    /// No memory.
    pub fn create(chunks: u32) -> io::Result<Self> {
        let bytes = chunks as usize * CHUNK_BYTES;
        let file = sealed("hythe-xdp-region", bytes)?;
        let placed = Placed::new(&file, (0, bytes), Access::Write, None)?;
        Ok(Self {
            file,
            placed,
            own_bytes: bytes,
        })
    }

    /// As [`create`](Self::create), with the first bytes of another file behind the chunks: frames
    /// may be sent from there as well. Nobody here looks at those bytes, so a file that is cut
    /// harms only who sends from it. On hugetlbfs its pages are larger than chunks: then the chunks
    /// before have to fill such pages.
    ///
    /// # Errors
    /// No memory; the file cannot be mapped to be written; no whole pages of the file.
    pub fn create_with(chunks: u32, other: OtherFile<'_>) -> io::Result<Self> {
        let OtherFile {
            file: other,
            bytes: other_bytes,
            page_bytes,
        } = other;
        let is_whole = other_bytes > 0
            && page_bytes.is_power_of_two()
            && page_bytes >= CHUNK_BYTES
            && other_bytes.is_multiple_of(page_bytes);
        if !is_whole {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let own_bytes = chunks as usize * CHUNK_BYTES;
        let file = sealed("hythe-xdp-region", own_bytes)?;
        let files = [(file.as_fd(), own_bytes), (other, other_bytes)];
        let placed = Placed::joined(&files, page_bytes)?;
        Ok(Self {
            file,
            placed,
            own_bytes,
        })
    }

    /// How many chunks of its own it has.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        // Fits: that is what it was made of.
        (self.own_bytes / CHUNK_BYTES) as u32
    }

    pub(crate) fn address(&self) -> u64 {
        self.placed.address() as u64
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.placed.bytes() as u64
    }

    /// Another view of its own bytes.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn map(&self) -> io::Result<Mapped> {
        Mapped::file(&self.file, 0, self.own_bytes, Access::Write)
    }
}

impl AsFd for Region {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes a file without a name, with memory for each page, whose size does not change any more.
///
/// # Errors
/// No memory.
pub fn sealed(name: &str, bytes: usize) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::ftruncate(&file, bytes as u64)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_cut_a_region_away() {
        let region = Region::create(4).expect("memory");
        assert_eq!(region.chunks(), 4);
        rustix::fs::ftruncate(&region.file, 0).expect_err("sealed");
        let seen = region.map().expect("mapped");
        seen.write(3 * CHUNK_BYTES, &[7; CHUNK_BYTES]);
        let mut byte = [0];
        region.placed.read(4 * CHUNK_BYTES - 1, &mut byte);
        assert_eq!(byte, [7]);
    }

    #[test]
    fn another_file_is_behind_its_chunks() {
        let other = sealed("other", 2 * CHUNK_BYTES).expect("memory");
        let of = |bytes| OtherFile {
            file: other.as_fd(),
            bytes,
            page_bytes: CHUNK_BYTES,
        };
        let joined = Region::create_with(3, of(2 * CHUNK_BYTES)).expect("mapped");
        assert_eq!((joined.chunks(), joined.bytes()), (3, 5 * 4096));
        let seen = Mapped::file(&other, 0, 2 * CHUNK_BYTES, Access::Write).expect("mapped");
        seen.write(2 * CHUNK_BYTES - 1, &[9]);
        joined
            .map()
            .expect("mapped")
            .write(3 * CHUNK_BYTES - 1, &[8]);
        let mut bytes = [0; 2];
        joined.placed.read(3 * CHUNK_BYTES - 1, &mut bytes[..1]);
        joined.placed.read(5 * CHUNK_BYTES - 1, &mut bytes[1..]);
        assert_eq!(bytes, [8, 9]);
        for bytes in [0, 1, CHUNK_BYTES + 1] {
            Region::create_with(1, of(bytes)).expect_err("no whole chunks");
        }
        let none = std::fs::File::open("/dev/null").expect("there");
        let none = OtherFile {
            file: none.as_fd(),
            ..of(CHUNK_BYTES)
        };
        Region::create_with(1, none).expect_err("not to be written");
        let large = OtherFile {
            page_bytes: 1 << 21,
            bytes: 1 << 21,
            ..of(0)
        };
        // Aligned for large pages, whatever is there.
        let joined = Region::create_with(512, large).expect("mapped");
        assert!(joined.address().is_multiple_of(1 << 21));
    }
}
