//! Ranges outside of a buffer are refused at each edge, also where offset and length overflow: a
//! panic, before a byte is touched.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::Root;
use hythe_node::{HEADROOM_BYTES, Node, TrustPeers};

const HEADROOM: usize = HEADROOM_BYTES as usize;

/// Demands of `access` to so many bytes that it takes what is inside, and panics at what is not.
fn expect(what: &str, bytes: usize, mut access: impl FnMut(usize, usize)) {
    for (at, length) in [(0, 0), (0, bytes), (bytes - 1, 1), (bytes, 0)] {
        access(at, length);
    }
    for (at, length) in [
        (0, bytes + 1),
        (1, bytes),
        (bytes, 1),
        (bytes + 1, 0),
        (usize::MAX, 0),
        (usize::MAX, 1),
        (usize::MAX - 1, 2),
        (usize::MAX - bytes + 1, bytes),
    ] {
        let refused = catch_unwind(AssertUnwindSafe(|| access(at, length)));
        assert!(
            refused.is_err(),
            "{what}: {length} bytes at {at} of {bytes}"
        );
    }
}

#[test]
fn lease_is_written_and_read_within_its_capacity() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joined");
    let mut lease = node.lease(1000).expect("free");
    let capacity = lease.capacity();
    expect("write", capacity, |at, length| {
        lease.write(at, &vec![7; length]);
    });
    expect("read", capacity, |at, length| {
        lease.read(at, &mut vec![0; length]);
    });
    expect("headroom", HEADROOM, |at, length| {
        lease.write_headroom(at, &vec![7; length]);
    });
    let mut rest = |at| {
        let trust = TrustPeers::i_trust_every_writer_of_this_pool();
        catch_unwind(AssertUnwindSafe(|| lease.rest_mut(at, trust).len())).ok()
    };
    assert_eq!(rest(capacity), Some(0));
    assert_eq!(rest(capacity + 1), None);
    assert_eq!(rest(usize::MAX), None);
}

#[test]
fn sample_is_read_and_cut_within_its_payload() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joined");
    let mut lease = node.lease(1000).expect("free");
    lease.write(0, &[7; 1000]);
    let sample = lease.freeze(500);
    expect("read", 500, |at, length| {
        sample.read(at, &mut vec![0; length]);
    });
    expect("headroom", HEADROOM, |at, length| {
        sample.read_headroom(at, &mut vec![0; length]);
    });
    expect("part", 500, |at, length| {
        assert_eq!(sample.part(at, length).expect("a part").len(), length);
    });
    expect("narrow", 500, |at, length| {
        let whole = sample.part(0, 500).expect("all of it");
        assert_eq!(whole.narrow(at, length).len(), length);
    });
    // The bytes behind a part are no part of it, although the slot has them.
    let part = sample.part(100, 50).expect("a part");
    expect("a part", 50, |at, length| {
        part.read(at, &mut vec![0; length]);
    });
}
