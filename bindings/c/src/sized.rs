//! Structs that begin with their size: options from the caller, results to it.
//!
//! A program and the library may be of different ages. Options: what a shorter struct of an older
//! program lacks has its default, which is zero; what a longer struct of a newer program has
//! besides must be zero, or the call is refused. Results: as much is written as fits. Never reads
//! or writes past the size that the caller states.

use core::ptr;

use crate::ffi_guard::{Refusal, missing};

/// A struct of the header whose first member is its size in bytes, `size_t`.
///
/// # Safety
/// The type is `repr(C)`, begins with a `usize`, has no padding at its end, and zeroes are a value
/// of it.
pub(crate) unsafe trait Extensible: Copy {
    /// What it is called in messages.
    const NOUN: &'static str;
}

const SIZE_BYTES: usize = size_of::<usize>();
/// Nobody has this many options: a size beyond it is an uninitialised struct.
const SIZE_MAX: usize = 4096;

/// Fills a struct of the caller's with zeroes and its size.
///
/// # Safety
/// `into` is NULL, or points to `size` bytes that may be written.
pub(crate) unsafe fn begin<S: Extensible>(into: *mut S, size: usize) -> Result<(), Refusal> {
    if into.is_null() {
        return Err(missing(S::NOUN));
    }
    check_size::<S>(size)?;
    // SAFETY: the caller's word.
    unsafe { ptr::write_bytes(into.cast::<u8>(), 0, size) };
    // SAFETY: `size` is at least that of a `usize`; alignment is not assumed.
    unsafe { into.cast::<usize>().write_unaligned(size) };
    Ok(())
}

/// Copies the caller's options; NULL is `None`.
///
/// # Safety
/// `from` is NULL, or points to as many readable bytes as its first member says.
pub(crate) unsafe fn read<S: Extensible>(from: *const S) -> Result<Option<S>, Refusal> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: the first member is there.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    check_size::<S>(size)?;
    // SAFETY: the caller's word.
    let given = unsafe { core::slice::from_raw_parts(from.cast::<u8>(), size) };
    let known = size.min(size_of::<S>());
    if let Some(at) = given[known..].iter().position(|byte| *byte != 0) {
        let (noun, at) = (S::NOUN, known + at);
        return Err(Refusal::argument(format!(
            "{noun}: there is something at byte {at}, which this library does not know: it is older than the program"
        )));
    }
    // SAFETY: zeroes are a value of it.
    let mut options: S = unsafe { core::mem::zeroed() };
    // SAFETY: `known` bytes are inside both; they are two objects.
    unsafe {
        ptr::copy_nonoverlapping(from.cast::<u8>(), ptr::from_mut(&mut options).cast(), known)
    };
    Ok(Some(options))
}

/// Writes a result, as much of it as the caller's struct takes; its size stays.
///
/// # Safety
/// `into` is NULL, or points to as many writable bytes as its first member says.
pub(crate) unsafe fn write<S: Extensible>(into: *mut S, result: &S) -> Result<(), Refusal> {
    if into.is_null() {
        return Err(missing(S::NOUN));
    }
    // SAFETY: the first member is there.
    let size = unsafe { into.cast::<usize>().read_unaligned() };
    check_size::<S>(size)?;
    let bytes = size.min(size_of::<S>()) - SIZE_BYTES;
    // SAFETY: behind the first member of a struct that is longer than it.
    let from = unsafe { ptr::from_ref(result).cast::<u8>().add(SIZE_BYTES) };
    // SAFETY: as above, in the caller's.
    let to = unsafe { into.cast::<u8>().add(SIZE_BYTES) };
    // SAFETY: `bytes` are inside both; they are two objects.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
    Ok(())
}

fn check_size<S: Extensible>(size: usize) -> Result<(), Refusal> {
    if (SIZE_BYTES..=SIZE_MAX).contains(&size) {
        return Ok(());
    }
    let noun = S::NOUN;
    Err(Refusal::argument(format!(
        "{noun}: its size is {size}; set it to sizeof, or call the function that initialises it"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Old {
        size: usize,
        depth: u64,
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct New {
        size: usize,
        depth: u64,
        history: u64,
    }

    // SAFETY: as the trait says, see above.
    unsafe impl Extensible for Old {
        const NOUN: &'static str = "old";
    }
    // SAFETY: as the trait says, see above.
    unsafe impl Extensible for New {
        const NOUN: &'static str = "new";
    }

    #[test]
    fn older_program_gets_defaults() {
        let old = Old { size: 16, depth: 3 };
        // SAFETY: it has as many bytes as it says.
        let read = unsafe { read(ptr::from_ref(&old).cast::<New>()) };
        let read = read.expect("readable").expect("options");
        assert_eq!((read.depth, read.history), (3, 0));
    }

    #[test]
    fn newer_program_may_not_ask_for_what_is_not_known() {
        let mut new = New {
            size: 24,
            depth: 3,
            history: 0,
        };
        // SAFETY: it has as many bytes as it says.
        let plain = unsafe { read(ptr::from_ref(&new).cast::<Old>()) };
        assert_eq!(plain.expect("readable").map(|old| old.depth), Some(3));
        new.history = 1;
        // SAFETY: it has as many bytes as it says.
        assert!(unsafe { read(ptr::from_ref(&new).cast::<Old>()) }.is_err());
    }

    #[test]
    fn results_are_cut_to_what_the_caller_has() {
        let mut old = Old { size: 16, depth: 0 };
        let result = New {
            size: 0,
            depth: 5,
            history: 6,
        };
        // SAFETY: it has as many bytes as it says.
        unsafe { write(ptr::from_mut(&mut old).cast::<New>(), &result) }.expect("written");
        assert_eq!(old, Old { size: 16, depth: 5 });
        for size in [0, 7, SIZE_MAX + 1, usize::MAX] {
            old.size = size;
            // SAFETY: nothing behind a refused size is touched.
            assert!(unsafe { read(ptr::from_ref(&old)) }.is_err(), "{size}");
            // SAFETY: as above.
            assert!(unsafe { write(&mut old, &old.clone()) }.is_err(), "{size}");
        }
    }
}
