//! The edges of a mapping: every way in refuses what is not wholly inside, whatever number a caller
//! was talked into.

#![cfg(not(loom))]

use std::fs::File;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hythe_memory::{Mapped, Memory, Ordering, TrustPeers};

const BYTES: usize = 8192;
/// Places and sizes around the end of such a mapping, and of the numbers.
const RANGES: [(usize, usize); 9] = [
    (0, BYTES),
    (0, BYTES + 1),
    (BYTES, 0),
    (BYTES, 1),
    (BYTES - 1, 1),
    (BYTES - 1, 2),
    (BYTES + 1, 0),
    (usize::MAX, 1),
    (usize::MAX, 2),
];
const DECISION: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

/// Is it refused (by a panic: such an offset is a bug of ours, not a peer's doing)?
fn is_refused<T>(access: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(access)).is_err()
}

/// Does an access of `width` bytes at `at` leave the mapping, or its alignment?
fn is_wrong(at: usize, width: usize) -> bool {
    at.checked_add(width).is_none_or(|end| end > BYTES) || !at.is_multiple_of(width)
}

/// Places at both ends of the mapping, and of the numbers.
fn places() -> impl Iterator<Item = usize> {
    let near = (BYTES - 12)..(BYTES + 12);
    let far = [
        usize::MAX - 8,
        usize::MAX - 3,
        usize::MAX,
        usize::MAX / 2 + 1,
        usize::MAX / 2,
    ];
    (0..12).chain(near).chain(far)
}

#[test]
fn words_and_cells_are_inside_or_refused() {
    let memory = Mapped::anonymous(BYTES).expect("memory");
    // A mapping of their own: Miri (May 2026) crashes on atomics of two widths in one place.
    let cells = Mapped::anonymous(BYTES).expect("memory");
    for at in places() {
        let order = Ordering::Relaxed;
        let word = is_wrong(at, 4);
        assert_eq!(is_refused(|| memory.load(at, order)), word, "load at {at}");
        assert_eq!(
            is_refused(|| memory.store(at, 1, order)),
            word,
            "store at {at}"
        );
        assert_eq!(is_refused(|| memory.add(at, 1, order)), word, "add at {at}");
        let cell = is_wrong(at, 8);
        assert_eq!(
            is_refused(|| cells.load_cell(at, order)),
            cell,
            "load at {at}"
        );
        assert_eq!(
            is_refused(|| cells.store_cell(at, 1, order)),
            cell,
            "store at {at}"
        );
        assert_eq!(
            is_refused(|| cells.replace_cell(at, 0, 1)),
            cell,
            "swap at {at}"
        );
    }
}

#[test]
fn ranges_are_inside_or_refused() {
    let memory = Mapped::anonymous(BYTES).expect("memory");
    let mut copy = vec![0; BYTES + 1];
    for (at, bytes) in RANGES {
        let wrong = at.checked_add(bytes).is_none_or(|end| end > BYTES);
        let context = format!("{bytes} bytes at {at}");
        let copy = &mut copy[..bytes];
        assert_eq!(is_refused(|| memory.read(at, copy)), wrong, "{context}");
        assert_eq!(is_refused(|| memory.write(at, copy)), wrong, "{context}");
        let slice = || memory.trusted(DECISION, at, bytes).len();
        assert_eq!(is_refused(slice), wrong, "{context}");
        let slice = || memory.trusted_mut(DECISION, at, bytes).len();
        assert_eq!(is_refused(slice), wrong, "{context}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "rustix makes a pointer of a number: strict provenance")]
fn wakes_are_inside_or_refused() {
    let memory = Mapped::anonymous(BYTES).expect("memory");
    for at in places() {
        assert_eq!(
            is_refused(|| memory.wake(at)),
            is_wrong(at, 4),
            "wake at {at}"
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "a program that Miri isolates opens no files")]
fn reads_of_a_file_are_inside_or_refused() {
    let memory = Mapped::anonymous(BYTES).expect("memory");
    let program = File::open("/proc/self/exe").expect("own program");
    for (at, bytes) in RANGES {
        let wrong = at.checked_add(bytes).is_none_or(|end| end > BYTES);
        let read = || memory.read_file(program.as_fd(), 0, at, bytes);
        assert_eq!(is_refused(read), wrong, "{bytes} bytes at {at}");
    }
}
