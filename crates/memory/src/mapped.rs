//! A file, or anonymous memory, mapped into this process.

#![allow(unsafe_code, reason = "this is the island: raw views on mapped memory")]

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap};
use rustix::thread::futex;

use crate::faults::Place;
use crate::view::{View, refuse};
use crate::{Memory, TrustPeers};

/// What a mapping may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; a store panics before it reaches the memory.
    Read,
    /// Reading and writing.
    Write,
}

/// How long a wait lasts where the kernel refuses futexes.
const REFUSED_NAP_NS: i64 = 1_000_000;

/// Most pieces that one system call reads into.
pub const PIECES_PER_CALL: usize = 256;

/// Pieces of one size at one distance from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Where the first begins.
    pub at: usize,
    /// Bytes of each; not 0.
    pub piece_bytes: usize,
    /// Bytes between the end of one and the beginning of the next.
    pub gap_bytes: usize,
    /// How many.
    pub count: usize,
}

impl Pieces {
    /// From the first byte of the first piece to the last of the last.
    ///
    /// # Panics
    /// If that is more than can be addressed, or pieces are empty.
    #[must_use]
    pub fn span(&self) -> usize {
        assert!(self.piece_bytes > 0, "pieces without a byte");
        let stride = self.piece_bytes.checked_add(self.gap_bytes);
        let all = stride.and_then(|stride| stride.checked_mul(self.count));
        let Some(all) = all else {
            panic!("{self:?} are more than can be addressed");
        };
        all - self.gap_bytes.min(all)
    }

    /// What is left behind the first `done` bytes: offsets from the first piece, and bytes.
    fn from(self, done: usize) -> impl Iterator<Item = (usize, usize)> {
        let stride = self.piece_bytes + self.gap_bytes;
        let (first, into_first) = (done / self.piece_bytes, done % self.piece_bytes);
        (first..self.count).map(move |index| {
            let skipped = if index == first { into_first } else { 0 };
            (index * stride + skipped, self.piece_bytes - skipped)
        })
    }
}

/// Mapped memory, shared by its clones and unmapped with the last of them.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// Copies of what the mapping has: every access starts here, and is checked by one comparison.
    base: NonNull<u8>,
    /// Where accesses end: the size of the mapping, a multiple of 8.
    bytes: usize,
    /// Where stores end: as `bytes`, or 0 if nothing may be written.
    writable_bytes: usize,
    /// Unmaps when its last clone goes.
    mapping: Arc<Mapping>,
}

#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// Where a file's mapping is noted, in case the file is cut; anonymous memory cannot be lost.
    place: Option<&'static Place>,
}

// SAFETY: the mapping is plain memory; all access to it is through atomics or raw copies, from any
// thread.
unsafe impl Send for Mapped {}
// SAFETY: as above; nothing in `Mapped` itself changes after it was made.
unsafe impl Sync for Mapped {}
// SAFETY: plain memory, as above; it is unmapped by whichever thread has the last `Arc`.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing in `Mapping` itself changes after it was made.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.forget();
        }
        // SAFETY: `base` and `bytes` are those of a mapping that this value alone owns; no view
        // outlives the `Arc`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        // Refused by a seccomp filter: the pages stay until the process ends.
        debug_assert_ne!(
            unmapped,
            Err(Errno::INVAL),
            "munmap of what is not a mapping"
        );
    }
}

impl Mapped {
    /// Maps `bytes` of `file` from `offset` (a multiple of the page size), shared with whoever else
    /// maps it.
    ///
    /// # Errors
    /// What `mmap` says: no permission, no memory, a bad offset; [`crate::faults::MAPPINGS_MAX`]
    /// files are mapped.
    pub fn file(file: impl AsFd, offset: u64, bytes: usize, access: Access) -> io::Result<Self> {
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: a null hint never replaces an existing mapping.
        let base = unsafe {
            mmap(
                core::ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                file.as_fd(),
                offset,
            )
        }?;
        let mapped = Self::own(base, bytes, access)?;
        mapped.noted()
    }

    /// From now on a fault in it loses the mapping, and does not kill the process.
    fn noted(mut self) -> io::Result<Self> {
        let mapping = Arc::get_mut(&mut self.mapping).ok_or(io::ErrorKind::Other)?;
        let base = mapping.base.as_ptr() as usize;
        let writable = self.writable_bytes > 0;
        mapping.place = Some(Place::note(base, mapping.bytes, writable)?);
        Ok(self)
    }

    /// Has the file been cut away under the mapping (or could the file system give no page for it)?
    /// Then it reads as zeroes, and what is written reaches nobody. Found out by whoever touches
    /// what is missing, in whatever thread; one relaxed load.
    #[inline]
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.mapping.place.is_some_and(Place::is_lost)
    }

    /// Anonymous zeroed memory, for tests and for regions that no other process sees.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // Miri has private ones only. A child process would see the difference; it starts none.
        let flags = if cfg!(miri) {
            MapFlags::PRIVATE
        } else {
            MapFlags::SHARED
        };
        // SAFETY: a null hint never replaces an existing mapping.
        let base = unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, protection, flags) }?;
        Self::own(base, bytes, Access::Write)
    }

    fn own(base: *mut core::ffi::c_void, bytes: usize, access: Access) -> io::Result<Self> {
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            base,
            bytes,
            writable_bytes: if access == Access::Write { bytes } else { 0 },
            mapping: Arc::new(Mapping {
                base,
                bytes,
                place: None,
            }),
        })
    }

    /// Touches every page, so that no first touch is paid later. Returns the sum of one byte per
    /// page, which means nothing.
    #[must_use]
    pub fn prefault(&self) -> u64 {
        let pages = (0..self.bytes / 4).step_by(1024);
        pages
            .map(|word| u64::from(self.load(word * 4, Ordering::Relaxed)))
            .sum()
    }

    /// What it may do.
    #[must_use]
    pub fn access(&self) -> Access {
        if self.writable_bytes > 0 {
            Access::Write
        } else {
            Access::Read
        }
    }

    /// Has the pages of a range there, to be written without a fault for each (since Linux 5.14).
    ///
    /// # Errors
    /// What `madvise` says: a range that is not of whole pages, no memory, an older kernel.
    ///
    /// # Panics
    /// If the range is not inside the mapping, or the mapping is read-only.
    pub fn populate(&self, at: usize, bytes: usize) -> io::Result<()> {
        let base = self.writable(at, bytes);
        // SAFETY: `writable` checked that the range lies in the mapping. Populating changes nothing
        // that can be read from it.
        Ok(unsafe { madvise(base.cast(), bytes, Advice::LinuxPopulateWrite) }?)
    }

    /// Brings every page in and keeps it there, until the mapping goes.
    ///
    /// # Errors
    /// What `mlock` says: more than `RLIMIT_MEMLOCK` allows, no memory.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: the range is the mapping that this value owns; locking changes nothing that can
        // be read from it.
        Ok(unsafe { mlock(self.base.as_ptr().cast(), self.bytes) }?)
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.range(at, into.len());
        // SAFETY: `range` checked that the source lies in the mapping; `into` is ours, so they
        // cannot overlap. A peer that writes meanwhile can tear what is read, which the caller
        // treats as a claim.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    /// Copies bytes of another mapping, or of this one, in.
    ///
    /// # Panics
    /// If a range is not inside its mapping, or this one is read-only.
    pub fn copy(&self, at: usize, source: &Self, from: usize, bytes: usize) {
        let from = source.range(from, bytes);
        let into = self.writable(at, bytes);
        // SAFETY: `range` and `writable` checked that both lie in their mappings; `copy` takes
        // ranges that overlap. Peers may write either meanwhile: as for `read`.
        unsafe { core::ptr::copy(from, into, bytes) };
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If the range is not inside the mapping, or the mapping is read-only.
    pub fn write(&self, at: usize, from: &[u8]) {
        let into = self.writable(at, from.len());
        // SAFETY: `writable` checked that the target lies in the mapping and may be written; `from`
        // is ours.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
    }

    /// Reads from a file straight into the mapping; returns the bytes read, 0 at the end of the
    /// file. A signal does not end it.
    ///
    /// # Errors
    /// What `pread` says; `EFAULT`: the mapping is lost.
    ///
    /// # Panics
    /// If the range is not inside the mapping, or the mapping is read-only.
    pub fn read_file(
        &self,
        file: BorrowedFd<'_>,
        position: u64,
        at: usize,
        bytes: usize,
    ) -> io::Result<usize> {
        let into = self.writable(at, bytes);
        // SAFETY: `writable` checked the range. The slice lives for the system call only, and only
        // the kernel writes it.
        let into = unsafe { core::slice::from_raw_parts_mut(into, bytes) };
        self.unless_lost(retry_on_intr(|| {
            rustix::io::pread(file, &mut *into, position)
        }))
    }

    /// Reads consecutive bytes of a file into pieces of the mapping; returns the bytes read, fewer
    /// only at the end of the file. One system call for every [`PIECES_PER_CALL`] pieces, unless
    /// the file system gives less at a time. Allocates nothing.
    ///
    /// # Errors
    /// What `preadv` says; `EFAULT`: the mapping is lost.
    ///
    /// # Panics
    /// If the pieces overlap or are not inside the mapping, or the mapping is read-only.
    pub fn read_file_scattered(
        &self,
        file: BorrowedFd<'_>,
        position: u64,
        pieces: Pieces,
    ) -> io::Result<usize> {
        let base = self.writable(pieces.at, pieces.span());
        let wanted = pieces.piece_bytes * pieces.count;
        let mut done = 0;
        while done < wanted {
            let mut vectors = [const { MaybeUninit::uninit() }; PIECES_PER_CALL];
            let mut count = 0;
            for (vector, (offset, bytes)) in vectors.iter_mut().zip(pieces.from(done)) {
                // SAFETY: `from` stays inside the span, which `writable` checked.
                let into = unsafe { base.add(offset) };
                // SAFETY: as above; the slices do not overlap, which `span` checked. They live for
                // the system call only, and only the kernel writes them.
                let into = unsafe { core::slice::from_raw_parts_mut(into, bytes) };
                vector.write(IoSliceMut::new(into));
                count += 1;
            }
            // SAFETY: so many were written just now.
            let vectors = unsafe { vectors[..count].assume_init_mut() };
            let read = match rustix::io::preadv(file, vectors, position + done as u64) {
                // The vectors are made again: they were lent for one call.
                Err(Errno::INTR) => continue,
                read => read,
            };
            match self.unless_lost(read)? {
                0 => break,
                read => done += read,
            }
        }
        Ok(done)
    }

    /// Reads from a pipe, socket or terminal straight into the mapping; returns the bytes read, 0
    /// at the end. A signal does not end it: who wants to be interrupted looks by `poll` first.
    ///
    /// # Errors
    /// What `read` says; `EFAULT`: the mapping is lost.
    ///
    /// # Panics
    /// If the range is not inside the mapping, or the mapping is read-only.
    pub fn read_stream(&self, from: BorrowedFd<'_>, at: usize, bytes: usize) -> io::Result<usize> {
        let into = self.writable(at, bytes);
        // SAFETY: `writable` checked the range. The slice lives for the system call only, and only
        // the kernel writes it.
        let into = unsafe { core::slice::from_raw_parts_mut(into, bytes) };
        self.unless_lost(retry_on_intr(|| rustix::io::read(from, &mut *into)))
    }

    /// The bytes in place, by decision of trust.
    ///
    /// # Panics
    /// If the range is not inside the mapping.
    #[must_use]
    pub fn trusted(&self, _decision: TrustPeers, at: usize, bytes: usize) -> &[u8] {
        let from = self.range(at, bytes);
        // SAFETY: the range is inside the mapping, which lives as long as `self`. That no peer
        // writes meanwhile is what the decision promised.
        unsafe { core::slice::from_raw_parts(from, bytes) }
    }

    /// The bytes in place for writing, by decision of trust. The caller holds the lease of the slot
    /// and lends the slice once.
    ///
    /// # Panics
    /// If the range is not inside the mapping, or the mapping is read-only.
    #[must_use]
    #[allow(
        clippy::mut_from_ref,
        reason = "what is exclusive is the lease, held by the caller"
    )]
    pub fn trusted_mut(&self, _decision: TrustPeers, at: usize, bytes: usize) -> &mut [u8] {
        let into = self.writable(at, bytes);
        // SAFETY: the range is inside the mapping, which lives as long as `self`. The lease is
        // exclusive by the ledger; that the caller lends it once, and that peers keep to the
        // ledger, is what the decision promised.
        unsafe { core::slice::from_raw_parts_mut(into, bytes) }
    }

    /// Sleeps until the word is woken, if it still holds `expected`; returns at once otherwise.
    /// Wakes without reason are possible.
    pub fn wait(&self, at: usize, expected: u32, timeout: Duration) {
        // Interrupted is no reason to wait no longer: the caller looks again, and waits on.
        let _ = self.wait_interruptible(at, expected, timeout);
    }

    /// As [`wait`](Self::wait). True: a signal handler has run.
    #[must_use]
    pub fn wait_interruptible(&self, at: usize, expected: u32, timeout: Duration) -> bool {
        let timeout = futex::Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let word = self.view().word(at, self.bytes);
        match futex::wait(word, futex::Flags::empty(), expected, Some(&timeout)) {
            Err(Errno::INTR) => return true,
            // Woken, changed, timed out: all mean the same to the caller, who looks again.
            Ok(()) | Err(Errno::AGAIN | Errno::TIMEDOUT) => {}
            // Refused, by a seccomp filter for instance: a caller that looks again at once would
            // spin.
            Err(_) => {
                let nap = futex::Timespec {
                    tv_sec: 0,
                    tv_nsec: if timeout.tv_sec > 0 {
                        REFUSED_NAP_NS
                    } else {
                        timeout.tv_nsec.min(REFUSED_NAP_NS)
                    },
                };
                let _ = rustix::thread::nanosleep(&nap);
            }
        }
        false
    }

    /// Wakes everyone who waits on the word.
    pub fn wake(&self, at: usize) {
        self.wake_some(at, i32::MAX as u32);
    }

    /// Wakes so many of those who wait on the word: whom the kernel puts first.
    pub fn wake_some(&self, at: usize, most: u32) {
        let woken = futex::wake(
            self.view().word(at, self.bytes),
            futex::Flags::empty(),
            most,
        );
        let woken = self.unless_lost(woken);
        let is_ours = woken.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL));
        // Where a seccomp filter refuses, sleepers look by themselves after their nap.
        debug_assert!(
            !is_ours || self.is_lost(),
            "futex wake on an own mapping: the arguments are wrong"
        );
    }

    /// The kernel meets missing pages, too: it refuses where a thread would get SIGBUS.
    fn unless_lost<T>(&self, outcome: rustix::io::Result<T>) -> io::Result<T> {
        if let (Err(Errno::FAULT), Some(place)) = (&outcome, self.mapping.place) {
            place.lose();
        }
        Ok(outcome?)
    }

    #[inline]
    fn range(&self, at: usize, bytes: usize) -> *mut u8 {
        self.inside(at, bytes, self.bytes)
    }

    #[inline]
    fn writable(&self, at: usize, bytes: usize) -> *mut u8 {
        self.inside(at, bytes, self.writable_bytes)
    }

    #[inline]
    fn inside(&self, at: usize, bytes: usize, limit: usize) -> *mut u8 {
        if at.checked_add(bytes).is_none_or(|end| end > limit) {
            refuse(at, bytes, limit, self.bytes);
        }
        // SAFETY: `at` is at most the size of the mapping, checked above.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// The same words, for a few steps: what bounds them is in the value, and not behind a
    /// reference, where it would be read again behind every store.
    #[must_use]
    #[inline(always)]
    pub const fn view(&self) -> View<'_> {
        View {
            base: self.base,
            bytes: self.bytes,
            writable_bytes: self.writable_bytes,
            mapping: PhantomData,
        }
    }
}

impl Memory for Mapped {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.bytes
    }
    #[inline(always)]
    fn load(&self, at: usize, order: Ordering) -> u32 {
        self.view().load(at, order)
    }
    #[inline(always)]
    fn store(&self, at: usize, value: u32, order: Ordering) {
        self.view().store(at, value, order);
    }
    #[inline(always)]
    fn add(&self, at: usize, value: u32, order: Ordering) -> u32 {
        self.view().add(at, value, order)
    }
    #[inline(always)]
    fn load_cell(&self, at: usize, order: Ordering) -> u64 {
        self.view().load_cell(at, order)
    }
    #[inline(always)]
    fn store_cell(&self, at: usize, value: u64, order: Ordering) {
        self.view().store_cell(at, value, order);
    }
    #[inline(always)]
    fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64> {
        self.view().replace_cell(at, current, new)
    }
    #[inline(always)]
    fn expect_store(&self, at: usize) {
        self.view().expect_store(at);
    }
    #[inline(always)]
    fn expect_load(&self, at: usize) {
        self.view().expect_load(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bytes_are_the_same_memory() {
        let memory = Mapped::anonymous(4096).expect("memory");
        memory.store(8, 0x0403_0201, Ordering::Relaxed);
        let mut bytes = [0; 6];
        memory.read(7, &mut bytes);
        assert_eq!(bytes, [0, 1, 2, 3, 4, 0]);
        memory.write(16, &[9; 8]);
        assert_eq!(
            memory.load_cell(16, Ordering::Relaxed),
            0x0909_0909_0909_0909
        );
    }

    #[test]
    fn bytes_of_another_mapping_are_copied() {
        let [source, memory] = [(); 2].map(|()| Mapped::anonymous(4096).expect("memory"));
        source.write(100, &[1, 2, 3, 4]);
        memory.copy(7, &source, 101, 3);
        memory.copy(8, &memory, 7, 3);
        let mut bytes = [0; 6];
        memory.read(6, &mut bytes);
        assert_eq!(bytes, [0, 2, 2, 3, 4, 0]);
    }

    #[test]
    #[should_panic(expected = "outside a mapping")]
    fn copy_from_outside_panics() {
        let [source, memory] = [(); 2].map(|()| Mapped::anonymous(4096).expect("memory"));
        memory.copy(0, &source, 4090, 7);
    }

    #[test]
    fn replace_says_what_stands_there() {
        let memory = Mapped::anonymous(4096).expect("memory");
        assert_eq!(memory.replace_cell(0, 0, 5), Ok(()));
        assert_eq!(memory.replace_cell(0, 0, 6), Err(5));
    }

    #[test]
    #[should_panic(expected = "outside a mapping")]
    fn outside_panics() {
        let memory = Mapped::anonymous(4096).expect("memory");
        memory.write(4090, &[0; 7]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    #[should_panic(expected = "read-only")]
    fn read_only_refuses_stores() {
        let file = std::fs::File::open("/proc/self/exe").expect("own program");
        let memory = Mapped::file(&file, 0, 4096, Access::Read).expect("mapped");
        memory.store(0, 1, Ordering::Relaxed);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a program that Miri isolates opens no files")]
    fn file_is_read_into_pieces_with_gaps() {
        let content: Vec<u8> = (0..3000_u32).map(|at| (at % 251) as u8).collect();
        let path = std::env::temp_dir().join(format!("hythe-pieces-{}", std::process::id()));
        std::fs::write(&path, &content).expect("written");
        let file = std::fs::File::open(&path).expect("there");
        std::fs::remove_file(&path).expect("own");
        let memory = Mapped::anonymous(32 << 10).expect("memory");
        memory.write(0, &[255; 32 << 10]);
        // More than one call reads into.
        let pieces = Pieces {
            at: 5,
            piece_bytes: 7,
            gap_bytes: 12,
            count: PIECES_PER_CALL + 100,
        };
        let read = memory.read_file_scattered(file.as_fd(), 10, pieces);
        assert_eq!(read.expect("read"), 7 * pieces.count);
        let mut found = vec![0; 5 + pieces.span() + 1];
        memory.read(0, &mut found);
        let mut expected = vec![255; found.len()];
        for (index, piece) in content[10..].chunks(7).take(pieces.count).enumerate() {
            expected[5 + index * 19..][..7].copy_from_slice(piece);
        }
        assert_eq!(found, expected);
        // Fewer at the end of the file: in the middle of a piece, and none.
        let read = |position| memory.read_file_scattered(file.as_fd(), position, pieces);
        assert_eq!(read(2990).expect("read"), 10);
        assert_eq!(read(3000).expect("read"), 0);
    }

    #[test]
    fn what_is_left_of_pieces_begins_where_reading_stopped() {
        let pieces = Pieces {
            at: 0,
            piece_bytes: 7,
            gap_bytes: 3,
            count: 3,
        };
        assert_eq!(pieces.span(), 27);
        for (done, left) in [
            (0, vec![(0, 7), (10, 7), (20, 7)]),
            (6, vec![(6, 1), (10, 7), (20, 7)]),
            (7, vec![(10, 7), (20, 7)]),
            (20, vec![(26, 1)]),
            (21, vec![]),
        ] {
            assert_eq!(pieces.from(done).collect::<Vec<_>>(), left, "{done}");
        }
    }

    #[test]
    #[should_panic(expected = "outside a mapping")]
    fn pieces_outside_panic() {
        let memory = Mapped::anonymous(4096).expect("memory");
        let pieces = Pieces {
            at: 0,
            piece_bytes: 1000,
            gap_bytes: 49,
            count: 4,
        };
        // The last gap need not be there, the last piece must.
        assert_eq!(pieces.span(), 4147);
        let never_read = std::io::stdin();
        let _ = memory.read_file_scattered(never_read.as_fd(), 0, pieces);
    }

    #[test]
    fn wait_returns_when_the_word_changed() {
        let memory = Mapped::anonymous(4096).expect("memory");
        memory.store(0, 1, Ordering::Relaxed);
        memory.wait(0, 0, Duration::from_secs(60));
    }
}
