//! A part of a file mapped for a program, which gets its address: a segment.

#![allow(unsafe_code, reason = "this is the island: raw views on mapped memory")]

use core::ptr::NonNull;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::Access;
use crate::faults::Place;

/// Bytes of a file, mapped at an address that does not change until this value goes.
///
/// The library never looks at them. While [`crate::faults::MAPPINGS_MAX`] mappings are not reached,
/// a page without a byte behind it reads as zeroes, as in other mappings of a pool.
#[derive(Debug)]
pub struct Placed {
    base: NonNull<u8>,
    bytes: usize,
    access: Access,
    place: Option<&'static Place>,
}

// SAFETY: a range of addresses, which any thread may unmap.
unsafe impl Send for Placed {}
// SAFETY: nothing in it changes, and it gives no access by itself.
unsafe impl Sync for Placed {}

impl Placed {
    /// Maps `bytes` of `file` from `offset` on, shared with whoever else maps it: at an address
    /// where nothing is mapped yet, or wherever there is space.
    ///
    /// # Errors
    /// What `mmap` says; `EEXIST`: something is mapped there.
    pub fn new(
        file: impl AsFd,
        (offset, bytes): (u64, usize),
        access: Access,
        at: Option<usize>,
    ) -> io::Result<Self> {
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        let (hint, flags) = match at {
            None => (core::ptr::null_mut(), MapFlags::SHARED),
            Some(at) => {
                let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
                (core::ptr::without_provenance_mut(at), flags)
            }
        };
        // SAFETY: neither without a hint nor with this flag an existing mapping is replaced; a
        // kernel that does not know the flag takes the address as a hint.
        let base = unsafe { mmap(hint, bytes, protection, flags, file.as_fd(), offset) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut mapped = Self {
            base,
            bytes,
            access,
            place: None,
        };
        if at.is_some_and(|at| at != mapped.address()) {
            return Err(Errno::EXIST.into());
        }
        // Best effort: see above.
        mapped.place = Place::note(mapped.address(), bytes, access == Access::Write).ok();
        Ok(mapped)
    }

    /// Maps the first bytes of these files, whole pages, one behind the other, to be written: for
    /// who hands the kernel one range of addresses. `alignment` is the size of the largest pages
    /// that one of them has, a power of two.
    ///
    /// # Errors
    /// What `mmap` says; `EINVAL`: not whole pages, or large pages behind what is none of them.
    pub fn joined(files: &[(BorrowedFd<'_>, usize)], alignment: usize) -> io::Result<Self> {
        let bytes = files.iter().try_fold(0_usize, |sum, file| {
            sum.checked_add(file.1).ok_or(io::ErrorKind::OutOfMemory)
        })?;
        let base = reserve_aligned(bytes, alignment)?;
        let mut joined = Self {
            base,
            bytes,
            access: Access::Write,
            place: None,
        };
        let mut at = base.as_ptr();
        for &(file, bytes) in files {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: what is replaced is a part of the range that was just mapped, which nobody
            // else knows: the sizes of all files together are its size.
            unsafe { mmap(at.cast(), bytes, protection, flags, file, 0) }?;
            at = at.wrapping_add(bytes);
        }
        // Best effort: see above.
        joined.place = Place::note(joined.address(), bytes, true).ok();
        Ok(joined)
    }

    /// The first byte. Peers may change any of them at any time.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The number of the first byte's address.
    #[must_use]
    pub fn address(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// Copies bytes out. A peer that writes meanwhile can tear them.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.range(at, into.len());
        // SAFETY: `range` checked that the source lies in the mapping; `into` is the caller's, so
        // they cannot overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If the range is not inside the mapping, or that is for reading only.
    pub fn write(&self, at: usize, from: &[u8]) {
        assert_eq!(self.access, Access::Write, "mapped for reading only");
        let into = self.range(at, from.len());
        // SAFETY: `range` checked that the target lies in the mapping, which may be written; `from`
        // is the caller's, so they cannot overlap.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
    }

    fn range(&self, at: usize, bytes: usize) -> *mut u8 {
        let is_inside = at.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(is_inside, "{bytes} bytes at {at} of {}", self.bytes);
        self.base.as_ptr().wrapping_add(at)
    }

    /// What it may do.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.access
    }

    /// How many.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Addresses where nothing is mapped, from one on that is a multiple of `alignment`.
fn reserve_aligned(bytes: usize, alignment: usize) -> io::Result<NonNull<u8>> {
    let reserved = bytes.checked_add(alignment);
    let reserved = reserved.ok_or(io::ErrorKind::OutOfMemory)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: without a hint no existing mapping is replaced.
    let first =
        unsafe { mmap_anonymous(core::ptr::null_mut(), reserved, ProtFlags::empty(), flags) }?;
    let first = first.cast::<u8>();
    let before = (first as usize).next_multiple_of(alignment) - first as usize;
    let base = first.wrapping_add(before);
    for (at, bytes) in [
        (first, before),
        (base.wrapping_add(bytes), alignment - before),
    ] {
        if bytes > 0 {
            // SAFETY: a part of the range that was just mapped, which nobody else knows.
            unsafe { munmap(at.cast(), bytes) }?;
        }
    }
    NonNull::new(base).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl Drop for Placed {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.forget();
        }
        // SAFETY: the range is that of a mapping that this value alone owns; who still has the
        // address was told when it ends.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        // Refused by a seccomp filter: the pages stay until the process ends.
        debug_assert_ne!(
            unmapped,
            Err(Errno::INVAL),
            "munmap of what is not a mapping"
        );
    }
}
