//! Views on memory that a peer may write at any moment.
//!
//! [`Memory`] is the trait through which every shared word is read and written: whole words, each
//! access with an ordering, never a reference. [`Mapped`] implements it for mapped memory, and so
//! does [`View`], for a few steps. Under `cfg(loom)` `model::ModelMemory` replaces it in the models
//! of queue, bell and ledger. Tests wrap it to count stores, and to simulate a death at any of
//! them. If another process truncates a mapped file, reads return zeroes and a flag is set
//! ([`faults`]).
//!
//! One of the two crates that may use `unsafe`. Never interprets a byte. Never waits, except in
//! [`Mapped::wait`]. Never returns a reference to shared bytes, except to a caller that passes
//! [`TrustPeers`].

#[cfg(not(loom))]
mod barrier;
#[cfg(not(loom))]
pub mod faults;
#[cfg(feature = "kill-points")]
pub mod kill_points;
#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
pub mod model;
#[cfg(not(loom))]
mod placed;
mod trust;
#[cfg(not(loom))]
mod view;

pub use core::sync::atomic::Ordering;
#[cfg(not(loom))]
pub use mapped::{Access, Mapped, PIECES_PER_CALL, Pieces};
#[cfg(not(loom))]
pub use placed::Placed;
pub use trust::TrustPeers;
#[cfg(not(loom))]
pub use view::View;

/// A full barrier between this thread's earlier and later accesses (the store-load case that plain
/// orderings leave open).
#[inline(always)]
pub fn full_barrier() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    barrier::full();
}

/// Shared words, addressed by byte offset. Words (32 bits) are aligned to 4, cells (64 bits) to 8.
///
/// Offsets come from private, checked geometry: one that is out of range or misaligned is a bug of
/// ours, and panics.
pub trait Memory {
    /// Size in bytes.
    fn bytes(&self) -> usize;

    /// Reads a word.
    fn load(&self, at: usize, order: Ordering) -> u32;
    /// Writes a word.
    fn store(&self, at: usize, value: u32, order: Ordering);
    /// Adds to a word that several sides write (wrapping); returns the value before.
    fn add(&self, at: usize, value: u32, order: Ordering) -> u32;

    /// Reads a cell.
    fn load_cell(&self, at: usize, order: Ordering) -> u64;
    /// Writes a cell.
    fn store_cell(&self, at: usize, value: u64, order: Ordering);
    /// Replaces `current` by `new` in a cell (acquire and release); otherwise says what stands
    /// there.
    ///
    /// # Errors
    /// The value found, if it is not `current`.
    fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64>;

    /// Says that this word or cell will be written soon: the processor may fetch its line
    /// meanwhile. Changes nothing.
    #[inline(always)]
    fn expect_store(&self, _at: usize) {}

    /// Says that this word or cell will be read soon, as [`Memory::expect_store`].
    #[inline(always)]
    fn expect_load(&self, _at: usize) {}
}

impl<M: Memory + ?Sized> Memory for &M {
    fn bytes(&self) -> usize {
        (**self).bytes()
    }
    fn load(&self, at: usize, order: Ordering) -> u32 {
        (**self).load(at, order)
    }
    fn store(&self, at: usize, value: u32, order: Ordering) {
        (**self).store(at, value, order);
    }
    fn add(&self, at: usize, value: u32, order: Ordering) -> u32 {
        (**self).add(at, value, order)
    }
    fn load_cell(&self, at: usize, order: Ordering) -> u64 {
        (**self).load_cell(at, order)
    }
    fn store_cell(&self, at: usize, value: u64, order: Ordering) {
        (**self).store_cell(at, value, order);
    }
    fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64> {
        (**self).replace_cell(at, current, new)
    }
    fn expect_store(&self, at: usize) {
        (**self).expect_store(at);
    }
    fn expect_load(&self, at: usize) {
        (**self).expect_load(at);
    }
}

/// Reads a zero-padded name of `bytes` bytes (a multiple of 4). A byte that is not UTF-8 shows as
/// `\xFF`, so that names which differ stay different.
pub fn read_name<M: Memory>(memory: &M, at: usize, bytes: usize) -> String {
    let mut raw = Vec::with_capacity(bytes);
    for word in (at..at + bytes).step_by(4) {
        raw.extend_from_slice(&memory.load(word, Ordering::Relaxed).to_le_bytes());
    }
    let end = raw.iter().position(|&byte| byte == 0).unwrap_or(raw.len());
    let mut name = String::with_capacity(end);
    for chunk in raw[..end].utf8_chunks() {
        name.push_str(chunk.valid());
        let invalid = chunk.invalid().iter();
        invalid.for_each(|byte| name.push_str(&format!("\\x{byte:02X}")));
    }
    name
}

/// Writes a zero-padded name of `bytes` bytes (a multiple of 4); a longer name is cut at a
/// character.
pub fn write_name<M: Memory>(memory: &M, at: usize, bytes: usize, name: &str) {
    let mut end = name.len().min(bytes);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let raw = &name.as_bytes()[..end];
    for index in (0..bytes).step_by(4) {
        let mut word = [0; 4];
        for (into, from) in word.iter_mut().zip(raw.iter().skip(index)) {
            *into = *from;
        }
        memory.store(at + index, u32::from_le_bytes(word), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_padded() {
        let memory = Mapped::anonymous(4096).expect("memory");
        write_name(&memory, 64, 8, "abc");
        assert_eq!(read_name(&memory, 64, 8), "abc");
        write_name(&memory, 64, 8, "abcdefgéh");
        assert_eq!(read_name(&memory, 64, 8), "abcdefg");
    }

    #[test]
    fn names_that_are_not_text_stay_different() {
        let memory = Mapped::anonymous(4096).expect("memory");
        let read = |bytes: [u8; 4]| {
            memory.store(64, u32::from_le_bytes(bytes), Ordering::Relaxed);
            read_name(&memory, 64, 4)
        };
        assert_eq!(read(*b"a\xFF\0\0"), r"a\xFF");
        assert_eq!(read(*b"a\xFE\0\0"), r"a\xFE");
        assert_eq!(read(*b"a\xC3\xA9\0"), "aé");
    }
}
