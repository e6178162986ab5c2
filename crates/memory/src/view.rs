//! The words of a mapping, for a few steps on them.
//!
//! [`Mapped`](crate::Mapped) is one, too; but its base and its bounds are behind a reference, and a
//! processor reads them again behind each store to shared words, which the compiler must take for a
//! store to anything. A [`View`] is made of three numbers, which stay in registers. Never outlives
//! the mapping.

#![allow(unsafe_code, reason = "this is the island: raw views on mapped memory")]

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::Memory;

/// The words of a mapping, which it borrows.
#[derive(Clone, Copy, Debug)]
pub struct View<'m> {
    pub(crate) base: NonNull<u8>,
    pub(crate) bytes: usize,
    pub(crate) writable_bytes: usize,
    pub(crate) mapping: PhantomData<&'m ()>,
}

impl<'m> View<'m> {
    /// An aligned word of `BYTES` below `limit`. One comparison and one test: an aligned word that
    /// begins inside a mapping, which has whole pages, ends inside it.
    #[inline(always)]
    fn aligned<const BYTES: usize>(self, at: usize, limit: usize) -> *mut u8 {
        if at >= limit || !at.is_multiple_of(BYTES) {
            refuse(at, BYTES, limit, self.bytes);
        }
        // SAFETY: `at` is less than the size of the mapping, checked above.
        unsafe { self.base.as_ptr().add(at) }
    }

    #[inline(always)]
    pub(crate) fn word(self, at: usize, limit: usize) -> &'m AtomicU32 {
        let word = self.aligned::<4>(at, limit);
        // SAFETY: in the mapping and aligned, both checked; the base is page-aligned; all shared
        // words are atomics.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    #[inline(always)]
    fn cell(self, at: usize, limit: usize) -> &'m AtomicU64 {
        let cell = self.aligned::<8>(at, limit);
        // SAFETY: in the mapping and aligned, both checked; the base is page-aligned; all shared
        // cells are atomics.
        unsafe { AtomicU64::from_ptr(cell.cast()) }
    }

    /// A word to be written.
    #[inline(always)]
    fn target_word(self, at: usize) -> &'m AtomicU32 {
        #[cfg(feature = "kill-points")]
        crate::kill_points::step();
        self.word(at, self.writable_bytes)
    }

    /// A cell to be written.
    #[inline(always)]
    fn target_cell(self, at: usize) -> &'m AtomicU64 {
        #[cfg(feature = "kill-points")]
        crate::kill_points::step();
        self.cell(at, self.writable_bytes)
    }
}

/// A bug of ours; kept out of the way of all that is right.
#[cold]
#[inline(never)]
pub(crate) fn refuse(at: usize, bytes: usize, limit: usize, all: usize) -> ! {
    assert!(limit == all, "a store at {at} into read-only memory");
    panic!("{bytes} bytes at {at} are outside a mapping of {limit}, or not aligned");
}

impl Memory for View<'_> {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.bytes
    }
    #[inline(always)]
    fn load(&self, at: usize, order: Ordering) -> u32 {
        self.word(at, self.bytes).load(order)
    }
    #[inline(always)]
    fn store(&self, at: usize, value: u32, order: Ordering) {
        self.target_word(at).store(value, order);
    }
    #[inline(always)]
    fn add(&self, at: usize, value: u32, order: Ordering) -> u32 {
        self.target_word(at).fetch_add(value, order)
    }
    #[inline(always)]
    fn load_cell(&self, at: usize, order: Ordering) -> u64 {
        self.cell(at, self.bytes).load(order)
    }
    #[inline(always)]
    fn store_cell(&self, at: usize, value: u64, order: Ordering) {
        self.target_cell(at).store(value, order);
    }
    #[inline(always)]
    fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64> {
        self.target_cell(at)
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }
    #[inline(always)]
    fn expect_store(&self, at: usize) {
        let line = self.aligned::<4>(at, self.writable_bytes);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch of any address reads and writes nothing that a program can see.
        unsafe {
            core::arch::asm!(
                "prefetchw [{}]",
                in(reg) line,
                options(nostack, preserves_flags, readonly)
            );
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "prfm pstl1keep, [{}]",
                in(reg) line,
                options(nostack, preserves_flags, readonly)
            );
        }
        let _ = line;
    }
    #[inline(always)]
    fn expect_load(&self, at: usize) {
        let line = self.aligned::<4>(at, self.bytes);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "prefetcht0 [{}]",
                in(reg) line,
                options(nostack, preserves_flags, readonly)
            );
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "prfm pldl1keep, [{}]",
                in(reg) line,
                options(nostack, preserves_flags, readonly)
            );
        }
        let _ = line;
    }
}
