//! The edges of a mapping: every way in refuses what is not wholly inside, whatever number a caller was talked into.

#![cfg(not(loom))]

use std::fs::File;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hythe_memory::{Mapped, Memory, Ordering, TrustPeers};

const BYTES: usize = 8192;
const DECISION: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

/// Is it refused (by a panic: such an offset is a bug of ours, not a peer's doing)?
fn is_refused<T>(access: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(access)).is_err()
}

/// Does an access of `width` bytes at `at` leave the mapping, or its alignment?
fn is_wrong(at: usize, width: usize) -> bool {
    at.checked_add(width).is_none_or(|end| end > BYTES) || !at.is_multiple_of(width)
}

#[test]
fn words_and_cells_are_inside_or_refused() {
    let memory = Mapped::anonymous(BYTES).expect("memory");
    let near = (BYTES - 12)..(BYTES + 12);
    let far = [
        usize::MAX - 8,
        usize::MAX - 3,
        usize::MAX,
        usize::MAX / 2 + 1,
        usize::MAX / 2,
    ];
    for at in (0..12).chain(near).chain(far) {
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
            is_refused(|| memory.load_cell(at, order)),
            cell,
            "load at {at}"
        );
        assert_eq!(
            is_refused(|| memory.store_cell(at, 1, order)),
            cell,
            "store at {at}"
        );
        assert_eq!(
            is_refused(|| memory.replace_cell(at, 0, 1)),
            cell,
            "swap at {at}"
        );
        assert_eq!(is_refused(|| memory.wake(at)), word, "wake at {at}");
    }
}

#[test]
fn ranges_are_inside_or_refused() {
    let memory = Mapped::anonymous(BYTES).expect("memory");
    let program = File::open("/proc/self/exe").expect("own program");
    let mut copy = vec![0; BYTES + 1];
    for (at, bytes) in [
        (0, BYTES),
        (0, BYTES + 1),
        (BYTES, 0),
        (BYTES, 1),
        (BYTES - 1, 1),
        (BYTES - 1, 2),
        (BYTES + 1, 0),
        (usize::MAX, 1),
        (usize::MAX, 2),
    ] {
        let wrong = at.checked_add(bytes).is_none_or(|end| end > BYTES);
        let context = format!("{bytes} bytes at {at}");
        let copy = &mut copy[..bytes];
        assert_eq!(is_refused(|| memory.read(at, copy)), wrong, "{context}");
        assert_eq!(is_refused(|| memory.write(at, copy)), wrong, "{context}");
        let read = || memory.read_file(program.as_fd(), 0, at, bytes);
        assert_eq!(is_refused(read), wrong, "{context}");
        let slice = || memory.trusted(DECISION, at, bytes).len();
        assert_eq!(is_refused(slice), wrong, "{context}");
        let slice = || memory.trusted_mut(DECISION, at, bytes).len();
        assert_eq!(is_refused(slice), wrong, "{context}");
    }
}
